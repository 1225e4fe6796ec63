"""Values of every type as Python's own: compared with what pyarrow makes of the same columns."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import euphrates as eu

NOON = datetime(2024, 2, 29, 12, 30, 15, 123456)
BEFORE_1970 = datetime(1901, 3, 1, 23, 59, 59, 999999)

COLUMNS = {
    "float16": pa.array([1.5, None, -2.0], pa.float32()).cast(pa.float16()),
    "date32": pa.array([date(2024, 2, 29), None, date(1, 1, 1)], pa.date32()),
    "date64": pa.array([date(2024, 2, 29), None, date(1960, 1, 1)], pa.date64()),
    "time32[s]": pa.array([time(1, 2, 3), None, time(23, 59, 59)], pa.time32("s")),
    "time32[ms]": pa.array([time(1, 2, 3, 4000), None, time(0)], pa.time32("ms")),
    "time64[us]": pa.array([time(1, 2, 3, 4), None, time(23, 59, 59, 999999)], pa.time64("us")),
    "duration[s]": pa.array([timedelta(days=3), None, timedelta(seconds=-5)], pa.duration("s")),
    "duration[us]": pa.array([timedelta(microseconds=-1), None, timedelta(1)], pa.duration("us")),
    "timestamp[s]": pa.array([datetime(2024, 1, 1), None, datetime(1, 1, 1)], pa.timestamp("s")),
    "timestamp[us]": pa.array([NOON, None, BEFORE_1970], pa.timestamp("us")),
    "timestamp[us, Asia/Tokyo]": pa.array([NOON, None, NOON], pa.timestamp("us", "Asia/Tokyo")),
    "decimal32": pa.array([Decimal("1.50"), None], pa.decimal32(9, 2)),
    "decimal256": pa.array([Decimal(10) ** 40, None], pa.decimal256(60, 2)),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int16())),
    "list of times": pa.array([[time(1)], None, []], pa.list_(pa.time32("s"))),
    "fixed-size list": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
    "list view": pa.array([["a"], None, []], pa.list_view(pa.string())),
    "struct": pa.array([{"x": 1, "t": timedelta(1)}, None]),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "fixed-size binary": pa.array([b"ab", None], pa.binary(2)),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_values_are_those_of_pyarrow(kind):
    table = pa.table({"values": COLUMNS[kind]})
    assert eu.query(table).collect().to_pydict() == table.to_pydict()
    assert eu.query(table).collect().to_pylist() == table.to_pylist()


def test_maps_are_dicts():
    kind = pa.map_(pa.string(), pa.int64())
    table = pa.table({"values": pa.array([[("a", 1), ("b", None)], None, []], kind)})
    assert eu.query(table).collect().to_pydict() == {"values": [{"a": 1, "b": None}, None, {}]}


def test_maps_with_nested_keys_are_pairs():
    kind = pa.map_(pa.list_(pa.int64()), pa.int64())
    table = pa.table({"values": pa.array([[([1], 1)], None], kind)})
    assert eu.query(table).collect().to_pydict() == {"values": [[([1], 1)], None]}


@pytest.mark.parametrize(
    ("kind", "number", "value"),
    [
        (pa.timestamp("ns"), -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        (pa.timestamp("ns", "UTC"), 1_999, datetime(1970, 1, 1, 0, 0, 0, 1, timezone.utc)),
        (pa.time64("ns"), 1_999, time(0, 0, 0, 1)),
        (pa.duration("ns"), -1, timedelta(microseconds=-1)),
    ],
)
def test_nanoseconds_are_rounded_down_to_microseconds(kind, number, value):
    table = pa.table({"values": pa.array([number], pa.int64()).cast(kind)})
    assert eu.query(table).collect().to_pydict() == {"values": [value]}


@pytest.mark.parametrize(
    ("kind", "number"),
    [(pa.date32(), 10**7), (pa.timestamp("s"), 10**12), (pa.duration("s"), 10**18)],
)
def test_values_beyond_those_of_python_are_named(kind, number):
    width = pa.int32() if kind == pa.date32() else pa.int64()
    rows = eu.query(pa.table({"values": pa.array([number], width).cast(kind)})).collect()
    with pytest.raises(eu.UsageError, match=r"does not hold .* of type .*"):
        rows.to_pydict()
