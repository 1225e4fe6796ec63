"""Joins match DuckDB."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import euphrates as eu
from join_tables import HOWS, check_same, expected, joined, tables


@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("on", [["k"], ["k", "m"], ["t"], ["t", "m"]], ids="-".join)
@pytest.mark.parametrize("how", HOWS)
def test_every_join_kind_matches_duckdb(how: str, on: list[str], build: str) -> None:
    left, right = tables(1)
    right = right.drop_columns([name for name in ("k", "m", "t") if name not in on])
    found = joined(left, right, on, how=how, build=build)
    check_same(found, expected(left, right, on, how))


@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", HOWS)
def test_condition_restricts_matches(how: str, build: str) -> None:
    left, right = tables(2)
    right = right.drop_columns(["m", "t"])
    where = "a_value < b_value and a_row % 3 <> 1"
    found = joined(left, right, ["k"], how=how, build=build, where=where)
    check_same(found, expected(left, right, ["k"], how, where))


@pytest.mark.parametrize("empty", ["left", "right", "both"])
@pytest.mark.parametrize("how", HOWS)
def test_empty_sides(how: str, empty: str) -> None:
    left, right = tables(3)
    right = right.drop_columns(["m", "t"])
    left = left.slice(0, 0) if empty != "right" else left
    right = right.slice(0, 0) if empty != "left" else right
    found = joined(left, right, ["k"], how=how)
    check_same(found, expected(left, right, ["k"], how))


FLOATS = [0.0, -0.0, float("nan"), float("inf"), 1.5, None]
TIMES = [datetime.datetime(2020, 1, day) for day in (1, 2, 3)]
KEYS = {
    "int8": pa.array([-128, 127, 0, None], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0, 2**63, None], pa.uint64()),
    "float32": pa.array(FLOATS, pa.float32()),
    "float64": pa.array(FLOATS, pa.float64()),
    "bool": pa.array([True, False, None]),
    "date": pa.array([1, 2, None], pa.int32()).cast(pa.date32()),
    "time": pa.array([1, 2, None], pa.int64()).cast(pa.time64("us")),
    "timestamp": pa.array([*TIMES, None], pa.timestamp("us")),
    "zoned": pa.array([*TIMES, None], pa.timestamp("us", "UTC")),
    "decimal": pa.array(
        [decimal.Decimal("1.25"), decimal.Decimal("-7"), None], pa.decimal128(9, 2)
    ),
    "wide decimal": pa.array(
        [decimal.Decimal(10**30), decimal.Decimal(1), None], pa.decimal128(38)
    ),
    "text": pa.array(["", "a", "ç" * 40, None]),
    "large text": pa.array(["", "a", "ç" * 40, None], pa.large_string()),
    "view": pa.array(["", "a", "ç" * 40, None], pa.string_view()),
    "dictionary": pa.array(["", "a", "ç" * 40, None]).dictionary_encode(),
    "binary": pa.array([b"", b"\xff\x00", b"\xff", None]),
    "fixed": pa.array([b"abc", b"abd", None], pa.binary(3)),
}


@pytest.mark.parametrize("second", ["none", "beside"])
@pytest.mark.parametrize("kind", KEYS)
def test_every_key_type(kind: str, second: str) -> None:
    values = KEYS[kind]
    twice = pa.concat_arrays([values, values.slice(1)])
    names = ["k"] if second == "none" else ["k", "n"]
    left = pa.table(
        {"k": twice, "n": pa.array(range(len(twice))), "a": pa.array(range(len(twice)))}
    )
    right = pa.table(
        {"k": values, "n": pa.array(range(len(values))), "b": pa.array(range(len(values)))}
    )
    right = right.select([*names, "b"])
    for how in ("inner", "full", "anti"):
        check_same(joined(left, right, names, how=how), expected(left, right, names, how))


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("on", [["k"], ["k", "n"]], ids=str)
def test_signed_zeros_and_nan_compare_equal(on: list[str], kind: pa.DataType) -> None:
    def table(values: list[float], name: str) -> pa.Table:
        column = pa.array(values, pa.float64()).cast(kind)
        return pa.table({"k": column, "n": pa.array([7] * len(values)), name: range(len(values))})

    left, right = table([0.0, 1.5, float("nan")], "a"), table([-float("nan"), -0.0, 2.5], "b")
    found = joined(left, right.select([*on, "b"]), on)
    pairs = sorted(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True))
    assert pairs == [(0, 1), (2, 0)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int16(), pa.int64()),
        (pa.uint8(), pa.int32()),
        (pa.int64(), pa.uint64()),
        (pa.string(), pa.large_string()),
        (pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
        (pa.decimal128(9, 2), pa.decimal128(20, 2)),
    ],
    ids=str,
)
def test_equivalent_key_types_join(one: pa.DataType, other: pa.DataType) -> None:
    values = pa.array([1, 2, 3, None])
    texts = pa.array(["1", "2", "3", None])

    def column(kind: pa.DataType) -> pa.Array:
        is_text = not (pa.types.is_integer(kind) or pa.types.is_decimal(kind))
        if pa.types.is_dictionary(kind):
            return texts.dictionary_encode()
        if pa.types.is_decimal(kind):
            return pa.array(
                [decimal.Decimal(1), decimal.Decimal(2), decimal.Decimal(3), None], kind
            )
        return texts.cast(kind) if is_text else values.cast(kind)

    left = pa.table({"k": column(one), "a": [1, 2, 3, 4]})
    right = pa.table({"k": column(other).slice(1), "b": [1, 2, 3]})
    for how in ("inner", "right", "full", "semi"):
        check_same(joined(left, right, ["k"], how=how), expected(left, right, ["k"], how))


def test_shared_column_names_get_a_suffix() -> None:
    left = pa.table({"k": [1, 2], "v": ["a", "b"]})
    right = pa.table({"id": [2, 3], "v": ["c", "d"]})
    on = [{"left": "k", "right": "id"}]
    found = joined(left, right, on, where="v <> v_right and id > 0")
    assert found.to_pylist() == [{"k": 2, "v": "b", "v_right": "c"}]
    found = joined(left, right, on, how="right", suffix="2", count=1)
    assert sorted(found.to_pylist(), key=str) == [
        {"k": 2, "v": "b", "v2": "c"},
        {"k": 3, "v": None, "v2": "d"},
    ]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("how", HOWS)
def test_any_instance_count(how: str, count: int) -> None:
    left, right = tables(4, rows=4000)
    right = right.drop_columns(["m", "t"])
    left = pa.Table.from_batches(left.to_batches(max_chunksize=100))
    right = pa.Table.from_batches(right.to_batches(max_chunksize=100))
    for build in ("left", "right"):
        found = joined(left, right, ["k"], how=how, build=build, count=count)
        check_same(found, expected(left, right, ["k"], how))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on": ["n"]}, "no column named `n`"),
        ({"on": []}, "`on` is empty"),
        ({"on": ["t"]}, "`t` of the left is Int64, and `t` of the right Utf8"),
        ({"on": ["list"]}, "join by columns of simple types"),
        ({"on": ["k"], "where": "a >"}, "where"),
        ({"on": ["k"], "where": "a + 1"}, "a condition"),
        ({"on": ["k"], "how": "outer"}, "outer"),
        ({"on": ["k"], "suffix": ""}, "two columns would be named"),
        ({"on": [{"left": "k"}]}, "right"),
    ],
)
def test_errors_are_reported_before_the_run(options: dict[str, Any], said: str) -> None:
    left = pa.table({"k": [1], "t": [1], "a": [1], "list": [[1]]})
    right = pa.table({"k": [1], "t": ["1"], "b": [1], "list": [[1]]})
    with pytest.raises(eu.UsageError) as caught:
        joined(left, right, **options)
    assert said in str(caught.value)


def test_smaller_side_is_built_where_sizes_are_known(tmp_path: Path) -> None:
    few, many = pa.table({"k": range(10)}), pa.table({"k": range(10_000)})
    pq.write_table(few, tmp_path / "few.parquet")
    pq.write_table(many, tmp_path / "many.parquet")
    csv.write_csv(many, tmp_path / "many.csv")

    def held(left: Any, right: Any, **options: Any) -> str:
        flow = eu.Flow("join")
        join = flow.place(eu.join(["k"], **options))
        flow.attach(flow.place(left) >> eu.filter("k >= 0"), join, input="left")
        flow.attach(flow.place(right) >> eu.project(["k"]), join, input="right")
        flow.attach(join, flow.place(eu.collect()))
        modules = flow.explain().data["document"]["modules"]
        config = next(node["config"] for node in modules if node["module"] == "join")
        for cluster in (None, "processes:2"):
            assert flow.go(cluster=cluster).collected().num_rows == 10
        return str(config["build"])

    small, large = eu.scan(str(tmp_path / "few.parquet")), eu.scan(str(tmp_path / "many.csv"))
    assert held(small, large) == "left"
    assert held(large, small) == "right"
    assert held(eu.from_arrow(few), eu.scan(str(tmp_path / "many.parquet"))) == "left"
    assert held(small, large, build="right") == "right"
    # The size of an iterator is unknown.
    assert held(eu.from_arrow(few), eu.from_arrow(lambda: iter([many]), schema={"k": "int64"})) == (
        "right"
    )


def test_report_counts_rows_of_both_sides() -> None:
    flow = eu.Flow("both")
    joined = flow.place(eu.join(["n"]))
    for side, rows in (("left", 3), ("right", 2000)):
        flow.attach(flow.place(eu.generate("integers", rows=rows)), joined, input=side)
    flow.attach(joined, flow.place(eu.collect()))
    assert "\n2,003 rows, 16.0 kB in; " in str(flow.go())


def test_report_counts_rows_of_a_user_defined_source() -> None:
    class Thousand(eu.Module):
        inputs = ()

        def run(self, ports: Any) -> None:
            ports.put(pa.table({"n": range(1000)}))

        def schemas(self, inputs: Any) -> Any:
            return [{"n": "int64"}]

    flow = eu.Flow("own")
    flow.chain(flow.place(Thousand(), count=1), eu.count(), eu.collect())
    assert "\n1,000 rows, 8.0 kB in; " in str(flow.go())
