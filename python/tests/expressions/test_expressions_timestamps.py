"""Units of dates and times: their names, and their values at the extremes."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu

MOST = 2**63 - 1
LEAST = -(2**63)
DAY = 86_400


def flow_of(table: pa.Table, text: str) -> eu.Flow:
    flow = eu.Flow("moments")
    flow.chain(eu.from_arrow(table, order=True), eu.project([f"{text} as x"]), eu.collect())
    return flow


def of(table: pa.Table, text: str) -> list[object]:
    return pa.table(flow_of(table, text).go(progress=False).collected())["x"].to_pylist()


def at(value: int, kind: pa.DataType) -> pa.Table:
    return pa.table({"t": pa.array([value], pa.int64()).view(kind)})


NOW = pa.table(
    {
        "t": pa.array([dt.datetime(2024, 5, 6, 7, 8, 9, 10)]),
        "d": pa.array([dt.date(2024, 5, 6)]),
        "c": pa.array([dt.time(7, 8, 9)]),
        "unit": pa.array(["day"]),
    }
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date_trunc('nope', t)", "no unit named `nope`.*known: year, quarter, .*, microsecond$"),
        ("date_trunc('yeer', t)", "no unit named `yeer`.*did you mean `year`"),
        ("date_part('nope', t)", "no unit named `nope`.*known: year, .*, epoch$"),
        ("extract(century from t)", "no unit named `century`"),
        ("date_trunc('epoch', t)", "no unit named `epoch`"),
        ("date_trunc(unit, t)", "`unit` is no unit that `date_trunc` takes.*in quotes: year"),
        ("date_part(null, t)", "`NULL` is no unit that `date_part` takes"),
        ("date_trunc('day', c)", "Time"),
        ("date_part('year', c)", "Time"),
    ],
)
def test_unknown_unit_is_rejected_by_check(text: str, message: str) -> None:
    with pytest.raises(eu.UsageError, match=f"(?s){message}"):
        flow_of(NOW, text).check()


def test_units_accept_common_names() -> None:
    assert of(NOW, "date_trunc('months', t)") == [dt.datetime(2024, 5, 1)]
    assert of(NOW, "date_trunc('MIN', t)") == [dt.datetime(2024, 5, 6, 7, 8)]
    assert of(NOW, "date_part('yrs', d)") == [2024]
    assert of(NOW, "extract(qtr from t)") == [2]
    assert of(NOW, "date_trunc('hour', c)") == [dt.time(7)]


@pytest.mark.parametrize("kind", ["s", "ms", "us"])
def test_units_of_distant_timestamps_follow_the_calendar(kind: str) -> None:
    """For years beyond `datetime`, by days since the same day 400 years later."""
    unit = {"s": 1, "ms": 1000, "us": 1_000_000}[kind]
    near = dt.datetime(2024, 5, 6, 7, 8, 9)
    seconds = int((near - dt.datetime(1970, 1, 1)).total_seconds())
    for cycles in (-700, -5, 5, 700):
        moved = cycles * 146_097 * DAY
        table = at((seconds + moved) * unit, pa.timestamp(kind))
        for text, expected in [
            ("date_part('year', t)", 2024 + 400 * cycles),
            ("date_part('yrs', t)", 2024 + 400 * cycles),
            ("extract(isoyear from t)", 2024 + 400 * cycles),
            ("date_part('doy', t)", 127),
            ("date_part('dow', t)", 1),
            ("date_part('second', t)", 9),
            ("date_part('epoch', t)", float(seconds + moved)),
        ]:
            assert of(table, text) == [expected], (text, cycles)
        cut = of(table, "cast(date_trunc('day', t) as bigint)")
        assert cut == [(seconds + moved) // DAY * DAY * unit]


@pytest.mark.parametrize(
    ("value", "kind", "text", "expected"),
    [
        (MOST, pa.timestamp("s"), "date_part('dow', t)", 0),
        (LEAST, pa.timestamp("s"), "date_part('day', t)", 27),
        (LEAST, pa.timestamp("s"), "date_part('epoch', t)", float(LEAST)),
        (MOST, pa.timestamp("s"), "date_part('epoch', t)", float(MOST)),
        (LEAST, pa.timestamp("s"), "cast(date_trunc('second', t) as bigint)", LEAST),
        (MOST, pa.timestamp("s"), "cast(date_trunc('day', t) as bigint)", MOST // DAY * DAY),
        (MOST, pa.timestamp("ms"), "date_part('year', t)", 292_278_994),
        (LEAST, pa.timestamp("ms"), "date_part('year', t)", -292_275_055),
        (MOST, pa.date64(), "date_part('year', t)", 292_278_994),
        (LEAST, pa.date64(), "date_part('day', t)", 16),
        (LEAST, pa.timestamp("us"), "date_part('year', t)", -290_308),
    ],
)
def test_extreme_timestamps_have_units(
    value: int, kind: pa.DataType, text: str, expected: object
) -> None:
    assert of(at(value, kind), text) == [expected]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (MOST, pa.timestamp("s"), "date_part('year', t)"),
        (LEAST, pa.timestamp("s"), "date_trunc('year', t)"),
        (LEAST, pa.timestamp("s"), "date_trunc('hour', t)"),
        (LEAST, pa.timestamp("ms"), "date_trunc('second', t)"),
        (LEAST, pa.timestamp("us"), "date_trunc('week', t)"),
        (LEAST, pa.timestamp("ns"), "date_trunc('hour', t)"),
        (LEAST, pa.timestamp("ns"), "date_trunc('year', t)"),
        (LEAST, pa.date64(), "date_trunc('month', t)"),
    ],
)
def test_out_of_range_timestamp_fails_and_names_the_row(
    value: int, kind: pa.DataType, text: str
) -> None:
    """Without the check, a timestamp before the first would wrap round to one after the last."""
    with pytest.raises(eu.FlowError, match=r"(?s)out of.*range.*row 0 of a batch"):
        of(at(value, kind), text)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Shanghai", "Europe/Berlin"])
def test_historic_local_times_use_historic_offsets(zone: str) -> None:
    moments = [
        dt.datetime(year, month, 4, 12, 34, 56, tzinfo=dt.UTC)
        for year in (2, 1000, 1716, 1799, 1801, 1950, 2024)
        for month in (1, 7)
    ]
    table = pa.table({"t": pa.array(moments, pa.timestamp("us", zone))})
    there = [moment.astimezone(zoneinfo.ZoneInfo(zone)) for moment in moments]
    for unit in ("year", "month", "day", "hour", "minute"):
        expected = [getattr(moment, unit) for moment in there]
        assert of(table, f"date_part('{unit}', t)") == expected, unit
    days = [moment.replace(hour=0, minute=0, second=0) for moment in there]
    assert of(table, "date_trunc('day', t)") == days


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Sydney"])
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_summer_time_continues_after_2099(zone: str, unit: str) -> None:
    years = (2099, 2100, 2101, 2160, 2261) if unit == "ns" else (2099, 2100, 2400, 5001)

    moments = [
        dt.datetime(year, month, day, 12, tzinfo=dt.UTC)
        for year in years
        for month, day in ((1, 1), (3, 20), (4, 10), (7, 1), (10, 25), (12, 31))
    ]
    there = [moment.astimezone(zoneinfo.ZoneInfo(zone)) for moment in moments]
    table = pa.table(
        {"t": pa.array(moments, pa.timestamp("us", zone)).cast(pa.timestamp(unit, zone))}
    )
    naive = [moment.replace(tzinfo=None) for moment in there]
    local = pa.array(naive, pa.timestamp("us")).cast(pa.timestamp(unit))
    assert of(table, "date_part('hour', t)") == [moment.hour for moment in there]
    assert of(table, "cast(t as date)") == [moment.date() for moment in there]
    assert of(table, "try_cast(t as date)") == [moment.date() for moment in there]
    assert of(table, "cast(t as timestamp)") == naive
    both = pa.table({"t": table["t"], "l": local})
    assert of(both, "t = l") == [True] * len(moments)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Sydney"])
@pytest.mark.parametrize(
    "moved",
    [
        "t + interval '1 month'",
        "t - interval '7 months'",
        "interval '12 years 3 days' + t",
        "t + interval '1 day 5 hours'",
        "t - interval '90 minutes'",
    ],
)
def test_interval_moves_local_time_of_a_zone_as_in_duckdb(zone: str, moved: str) -> None:
    """Also into, within and out of the years after 2099, skipped hours and repeated hours."""
    days = [
        dt.datetime(year, month, day, hour, 30, tzinfo=dt.UTC)
        for year in (2023, 2024, 2088, 2099, 2100, 2107, 2160)
        for month, day in ((1, 29), (2, 26), (3, 26), (4, 30), (7, 1), (9, 29), (10, 28), (12, 31))
        for hour in (0, 1, 2, 6, 15, 23)
    ]
    table = pa.table({"t": pa.array([*days, None], pa.timestamp("us", zone))})
    with duckdb.connect() as engine:
        engine.register("moments", table)
        engine.execute(f"set timezone = '{zone}'")
        expected = engine.sql(f"select {moved} as t from moments").to_arrow_table()["t"]
    got = of(table, moved)
    there = pa.array(got, pa.timestamp("us", "UTC")).to_pylist()
    assert there == expected.cast(pa.timestamp("us", "UTC")).to_pylist()
