"""Queries over columns of rarer types, at the edges of their values: results are DuckDB's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu

UTC = dt.timezone.utc
DAYS = [dt.datetime(2020, 1, day) for day in (1, 2, 4, 5)]


def table() -> pa.Table:
    return pa.table(
        {
            "id": [0, 1, 2, 3],
            "small": pa.array(map(Decimal, ("-9.9", "0.1", "0.2", "9.9")), pa.decimal128(2, 1)),
            "wide": pa.array(map(Decimal, ("-999999.999", "0", "1", "2")), pa.decimal128(9, 3)),
            "zoned": pa.array(
                [dt.datetime(2020, 1, 31, 23, 30, tzinfo=UTC), dt.datetime(2020, 7, 31, tzinfo=UTC),
                 None, dt.datetime(1969, 12, 31, 12, tzinfo=UTC)],
                pa.timestamp("us", "Europe/Berlin"),
            ),
            "ts": pa.array(DAYS, pa.timestamp("us")),
            "nanos": pa.array(DAYS, pa.timestamp("ns")),
            "clock": pa.array([dt.time(1), dt.time(12), dt.time(13, 30), None], pa.time64("us")),
            "minute": pa.array([dt.time(1), dt.time(12), dt.time(13, 30), None], pa.time32("s")),
            "l": pa.array([[1, None], [1, 2], [0], None], pa.list_(pa.int64())),
            "large": pa.array([[2**62, 1], [None], [], None], pa.list_(pa.int64())),
            "st": pa.array(
                [{"a": None, "b": "x"}, {"a": 1, "b": "z"}, {"a": 1, "b": None}, None],
                pa.struct([("a", pa.int64()), ("b", pa.string())]),
            ),
            "bytes": pa.array([b"a", b"\xff", b"", None], pa.binary()),
            "large_bytes": pa.array([b"a", b"\xff", b"", None], pa.large_binary()),
            "span": pa.array([dt.timedelta(hours=hour) for hour in range(4)], pa.duration("us")),
        }
    )  # fmt: skip


QUERIES = [
    "select id, count(*) over (order by small range between 1 preceding and 1 following) n from t",
    "select id, count(*) over (order by wide range between 1 preceding and 0.5 following) n from t",
    "select id, count(*) over (order by wide desc range between 1 preceding and current row) n "
    "from t",
    "select id from t where zoned = timestamptz '2020-01-31 23:30:00+00'",
    "select id from t where zoned < '2020-06-01 00:00:00+00'::timestamptz",
    "select id, epoch_us(zoned) e, zoned::timestamp l, strftime(zoned, '%d %H') s from t",
    "select zoned::date = zoned::timestamp::date s, hour(zoned) = hour(zoned::timestamp) h from t",
    "select max(l) m, min(l) n from t",
    "select id from t where l > [1, 2]",
    "select a.id i, b.id j from t a, t b where a.l <= b.l",
    "select max(st) m, min(st) n from t",
    "select a.id i, b.id j from t a, t b where a.st < b.st",
    "select id, list_sum(large)::decimal(38, 0) s from t",
    "select id, bytes || bytes b, bytes || large_bytes c from t",
    "select id from t where bytes = '\\xFF'::blob or bytes = 'a'::blob",
    "select id, clock < time '12:00:00' c, minute >= time '12:00:00' m, clock = minute e from t",
    "select id from t where not (minute < time '12:00:00')",
    "select bytes, id, count(*) n from t group by rollup(bytes, id)",
    "select large_bytes, count(*) n from t group by cube(large_bytes)",
    "select minute, count(*) n from t group by rollup(minute)",
    "select clock, count(*) n from t group by grouping sets ((clock), ())",
    "select nanos, ts, count(*) n from t group by cube(nanos, ts)",
    "select epoch(span) s, count(*) n from t group by rollup(span)",
    "select zoned, count(*) n from t group by rollup(zoned)",
    "select large_bytes, id from t union all select null, 1",
    "select a.id, b.ts from t a asof join t b on a.ts >= b.ts",
    "select id, count(*) over (order by ts range between interval 1 day preceding and current row) "
    "n from t",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_duckdb(query: str) -> None:
    t = table()
    oracle = duckdb.connect()
    oracle.execute("set timezone = 'Europe/Berlin'")
    oracle.register("t", t)

    def rows(found: pa.Table) -> list[str]:
        return sorted(str([value(one) for one in row.values()]) for row in found.to_pylist())

    assert rows(eu.sql(query, t=t).to_pyarrow()) == rows(oracle.sql(query).to_arrow_table())


def value(of: object) -> object:
    """An instant in UTC, and a duration as an interval is shown."""
    return of.astimezone(UTC) if isinstance(of, dt.datetime) and of.tzinfo else of


def test_timestamptz_has_a_zone() -> None:
    t = table()
    query = "select timestamptz '2020-01-01 00:00:00+01' a, ts::timestamptz b from t limit 1"
    types = eu.sql(query, t=t).to_pyarrow().schema.types
    assert [str(of) for of in types] == ["timestamp[us, tz=+00:00]"] * 2


def test_maps_are_no_keys() -> None:
    t = pa.table({"m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))})
    with pytest.raises(eu.UsageError, match="maps are not compared"):
        eu.sql("select m from t intersect select m from t", t=t).to_pyarrow()


def test_hash_depends_on_the_values_alone() -> None:
    n = 70_000
    t = pa.table(
        {"i": pa.array([k % 7 for k in range(n)], pa.int32()), "s": ["a", None] * (n // 2)}
    )
    query = "select i, s, count(distinct hash(i, s)) n, min(hash(i, s)) h from t group by i, s"
    one = eu.sql(query, t=t)
    found = sorted(map(str, one.to_pylist()))
    assert all("'n': 1" in row for row in found)
    assert len({row["h"] for row in one.to_pylist()}) == len(found) == 14
    assert sorted(map(str, one.to_pylist(workers=3))) == found
    same = "select hash('x'), hash('x' || ''), hash(null) = hash(null::int), hash(1) = hash(2)"
    row = list(eu.sql(same).to_pylist()[0].values())
    assert row[0] == row[1]
    assert row[2:] == [True, False]
