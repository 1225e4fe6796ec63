"""Joins give what DuckDB gives."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import euphrates as eu

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
ROWS = 3000


def joined(
    left: pa.Table,
    right: pa.Table,
    on: list[Any],
    *,
    count: int | None = None,
    go: dict[str, Any] | None = None,
    report: list[eu.Report] | None = None,
    **options: Any,
) -> pa.Table:
    flow = eu.Flow("join")
    ways = flow.place(eu.from_arrow(left)), flow.place(eu.from_arrow(right))
    join = flow.place(eu.join(on, **options), count=count)
    flow.attach(ways[0], join, input="left")
    flow.attach(ways[1], join, input="right")
    out = flow.place(eu.collect())
    flow.attach(join, out)
    outcome = flow.go(**(go or {}))
    if report is not None:
        report.append(outcome)
    return pa.table(outcome.collected())


def expected(
    left: pa.Table, right: pa.Table, on: list[str], how: str, where: str | None = None
) -> pa.Table:
    con = duckdb.connect()
    con.register("l", left)
    con.register("r", right)
    equal = " and ".join(f"l.{key} = r.{key}" for key in on)
    match = equal + (f" and ({where})" if where else "")
    if how in ("semi", "anti"):
        no = "not " if how == "anti" else ""
        return con.sql(
            f"select * from l where {no}exists (select 1 from r where {match})"
        ).to_arrow_table()
    key = {"right": "r.{0}", "full": "coalesce(l.{0}, r.{0}) as {0}"}.get(how, "l.{0}")
    columns = [key.format(name) if name in on else f"l.{name}" for name in left.column_names]
    columns += [f"r.{name}" for name in right.column_names if name not in on]
    return con.sql(f"select {', '.join(columns)} from l {how} join r on {match}").to_arrow_table()


def check_same(found: pa.Table, wanted: pa.Table) -> None:
    """As bags of rows."""
    assert found.column_names == wanted.column_names
    assert found.num_rows == wanted.num_rows
    con = duckdb.connect()
    con.register("found", found)
    con.register("wanted", wanted)
    for one, other in [("found", "wanted"), ("wanted", "found")]:
        extra = con.sql(f"select * from {one} except all select * from {other} limit 5")
        assert extra.fetchall() == [], f"rows of {one} that {other} has not"


def tables(seed: int, rows: int = ROWS, keys: int = 700) -> tuple[pa.Table, pa.Table]:
    """Two tables with duplicates, nulls and strangers among their keys."""
    luck = random.Random(seed)

    def column(make: Any, count: int) -> list[Any]:
        return [None if luck.random() < 0.05 else make() for _ in range(count)]

    def text() -> str:
        return "x" * luck.randrange(30) + str(luck.randrange(100))

    def side(name: str, count: int, low: int) -> pa.Table:
        return pa.table(
            {
                "k": pa.array(column(lambda: luck.randrange(low, low + keys), count), pa.int64()),
                "m": pa.array(column(lambda: luck.randrange(3), count), pa.int32()),
                "t": pa.array(column(lambda: f"key {luck.randrange(keys // 4)}", count)),
                f"{name}_row": pa.array(range(count), pa.int64()),
                f"{name}_text": pa.array(column(text, count)),
                f"{name}_value": pa.array(column(luck.random, count)),
                f"{name}_list": pa.array(column(lambda: [luck.randrange(9)], count)),
                f"{name}_word": pa.array(column(text, count)).dictionary_encode(),
            }
        )

    return side("a", rows, 0), side("b", rows // 2, keys // 3)


@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("on", [["k"], ["k", "m"], ["t"], ["t", "m"]], ids="-".join)
@pytest.mark.parametrize("how", HOWS)
def test_every_kind_of_join(how: str, on: list[str], build: str) -> None:
    left, right = tables(1)
    right = right.drop_columns([name for name in ("k", "m", "t") if name not in on])
    found = joined(left, right, on, how=how, build=build)
    check_same(found, expected(left, right, on, how))


@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", HOWS)
def test_a_condition_decides_what_matches(how: str, build: str) -> None:
    left, right = tables(2)
    right = right.drop_columns(["m", "t"])
    where = "a_value < b_value and a_row % 3 <> 1"
    found = joined(left, right, ["k"], how=how, build=build, where=where)
    check_same(found, expected(left, right, ["k"], how, where))


@pytest.mark.parametrize("empty", ["left", "right", "both"])
@pytest.mark.parametrize("how", HOWS)
def test_sides_without_rows(how: str, empty: str) -> None:
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
def test_every_type_of_key(kind: str, second: str) -> None:
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
def test_zeros_of_either_sign_are_equal_and_so_is_nan(on: list[str], kind: pa.DataType) -> None:
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
def test_types_that_hold_the_same_are_one(one: pa.DataType, other: pa.DataType) -> None:
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


def test_names_that_both_sides_have_get_a_suffix() -> None:
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
def test_any_number_of_instances(how: str, count: int) -> None:
    left, right = tables(4, rows=20_000)
    right = right.drop_columns(["m", "t"])
    left = pa.Table.from_batches(left.to_batches(max_chunksize=500))
    right = pa.Table.from_batches(right.to_batches(max_chunksize=500))
    for build in ("left", "right"):
        found = joined(left, right, ["k"], how=how, build=build, count=count)
        check_same(found, expected(left, right, ["k"], how))


def spill_tables(keys: list[int], rows: int) -> tuple[pa.Table, pa.Table]:
    """A left of many rows with these keys in turns, and a right that is wide."""
    luck = random.Random(7)
    left = pa.table({"k": [luck.choice(keys) for _ in range(rows)], "a": range(rows)})
    pad = ["".join(luck.choices("abcdefgh", k=80)) for _ in range(999)]
    right = {"k": keys, "b": range(len(keys)), "pad": [pad[n % 999] for n in range(len(keys))]}
    return left, pa.table(right)


def zipf(count: int, keys: int) -> list[int]:
    luck = random.Random(5)
    weights = [1 / (rank + 1) ** 1.2 for rank in range(keys)]
    return luck.choices(range(keys), weights, k=count)


SMALL = {"memory": "16MB"}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("how", HOWS)
def test_what_does_not_fit_goes_to_scratch(how: str, count: int) -> None:
    left, right = spill_tables(list(range(0, 200_000)), 100_000)
    left = left.append_column("pad_left", right["pad"].slice(0, left.num_rows))
    flow_report: list[eu.Report] = []
    found = joined(left, right, ["k"], how=how, count=count, go=SMALL, report=flow_report)
    assert "went through scratch" in str(flow_report[0])
    check_same(found, expected(left, right, ["k"], how))


@pytest.mark.parametrize("go", [{}, SMALL], ids=["memory", "scratch"])
def test_a_dictionary_is_not_held_with_every_piece(go: dict[str, Any]) -> None:
    rows, words = 100_000, [f"{number:040}" for number in range(20_000)]
    left = pa.table({"k": range(rows), "a": range(rows)})
    codes = pa.array([number % len(words) for number in range(rows)], pa.int32())
    word = pa.DictionaryArray.from_arrays(codes, pa.array(words))
    right = pa.table({"k": range(rows), "word": word, "b": range(rows)})
    report: list[eu.Report] = []
    found = joined(left, right, ["k"], how="full", build="right", go=go, report=report)
    check_same(found, expected(left, right, ["k"], "full"))
    chunks = found["word"].chunks
    assert all(len(chunk.dictionary) <= len(chunk) for chunk in chunks)
    scratch = re.search(r"([0-9.]+) MB went through scratch", str(report[0]))
    assert (scratch is not None) == bool(go)
    # 60 bytes a row, and once more for what is dealt anew.
    assert scratch is None or float(scratch[1]) < 40, scratch[0]


@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", ["inner", "full", "semi"])
def test_skewed_keys(how: str, build: str) -> None:
    left, right = spill_tables(zipf(3000, 1000), 3000)
    found = joined(left, right, ["k"], how=how, build=build)
    check_same(found, expected(left, right, ["k"], how))


@pytest.mark.parametrize("how", HOWS)
def test_one_key_beyond_memory(how: str) -> None:
    """No partition is small enough: it is joined piece by piece."""
    left, right = spill_tables([7] * 150_000 + list(range(1000)), 40)
    left = pa.table({"k": [7, 7, 999, 5000, None], "a": range(5)})
    found = joined(left, right, ["k"], how=how, go=SMALL, where="b % 3 > 0")
    check_same(found, expected(left, right, ["k"], how, "b % 3 > 0"))


@pytest.mark.parametrize("how", HOWS)
def test_several_processes(how: str) -> None:
    left, right = tables(9, rows=20_000)
    right = right.drop_columns(["m", "t"])
    left = pa.Table.from_batches(left.to_batches(max_chunksize=500))
    right = pa.Table.from_batches(right.to_batches(max_chunksize=500))
    report: list[eu.Report] = []
    found = joined(left, right, ["k"], how=how, go={"cluster": "processes:2"}, report=report)
    check_same(found, expected(left, right, ["k"], how))
    # It must be known whether a row of the right matched at any worker, if it comes out by that.
    assert ("every worker had all rows" in str(report[0])) == (how not in ("right", "full"))


@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_heavy_key_is_not_one_workers(how: str, build: str) -> None:
    left, right = spill_tables(list(range(100_000)), 40_000)
    heavy = pa.table({"k": [7] * 360_000, "a": range(360_000)})
    left = pa.Table.from_batches(pa.concat_tables([left, heavy]).to_batches(max_chunksize=5000))
    report: list[eu.Report] = []
    go = {"cluster": "processes:3", **SMALL}
    # Of the rows that do not match, none has the heavy key.
    kept = "b <> 7" if how == "anti" else None
    options = {"how": how, "build": build, "where": kept}
    found = joined(left, right, ["k"], go=go, report=report, **options)
    check_same(found, expected(left, right, ["k"], how, kept))
    told = json.loads(report[0].to_json())
    joins = [one for one in told["instances"] if one["module"] == "join_1"]
    rows = [one["rows_out"] for one in joins]
    assert len(rows) == 3 and max(rows) < 0.8 * sum(rows), rows


@pytest.mark.parametrize("how", ["full", "anti"])
def test_several_processes_beyond_memory(how: str) -> None:
    left, right = spill_tables(list(range(200_000)), 60_000)
    report: list[eu.Report] = []
    go = {"cluster": "processes:2", **SMALL}
    found = joined(left, right, ["k"], how=how, go=go, report=report)
    assert "went through scratch" in str(report[0])
    check_same(found, expected(left, right, ["k"], how))


TPCH = {
    "lineitem orders": ("l_orderkey=o_orderkey", "inner", None),
    "orders lineitem": ("o_orderkey=l_orderkey", "semi", "l_commitdate < l_receiptdate"),
    "customer orders": ("c_custkey=o_custkey", "left", "o_totalprice > 200000"),
    "orders customer": ("o_custkey=c_custkey", "right", None),
    "customer nation": ("c_nationkey=n_nationkey", "inner", None),
    "nation region": ("n_regionkey=r_regionkey", "full", None),
    "lineitem partsupp": ("l_partkey=ps_partkey,l_suppkey=ps_suppkey", "inner", None),
    "part lineitem": ("p_partkey=l_partkey", "anti", "l_quantity < 5"),
    "supplier partsupp": ("s_suppkey=ps_suppkey", "inner", "ps_supplycost > s_acctbal"),
    "supplier customer": ("s_nationkey=c_nationkey", "semi", "s_acctbal < c_acctbal"),
}


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of TPC-H, small unless somebody has the time (`make bench`)."""
    scale = float(os.environ.get("TPCH_SCALE", 0.1))
    folder = tmp_path_factory.mktemp("tpch")
    for name in sorted({word for pair in TPCH for word in pair.split()}):
        flow = eu.Flow(name)
        flow.chain(eu.generate(name, scale=scale), eu.save(folder / f"{name}.parquet"))
        flow.go(home=folder / "home")
    return folder


@pytest.mark.parametrize("pair", TPCH)
def test_joins_of_tpch(pair: str, tpch: Path) -> None:
    (one, other), (keys, how, where) = pair.split(), TPCH[pair]
    on = [key.split("=") for key in keys.split(",")]
    flow = eu.Flow("tpch")
    join = flow.place(eu.join([{"left": a, "right": b} for a, b in on], how=how, where=where))
    flow.attach(flow.place(eu.scan(tpch / f"{one}.parquet")), join, input="left")
    flow.attach(flow.place(eu.scan(tpch / f"{other}.parquet")), join, input="right")
    out = flow.place(eu.save(tpch / "out.parquet", overwrite=True))
    flow.attach(join, out)
    flow.go()
    con = duckdb.connect()
    match = " and ".join(f"{a} = {b}" for a, b in on) + (f" and {where}" if where else "")
    sides = f"'{tpch}/{one}.parquet' l", f"'{tpch}/{other}.parquet' r"
    dropped = ", ".join(b for _, b in on)
    if how in ("semi", "anti"):
        query = f"from {sides[0]} {how} join {sides[1]} on {match}"
    else:
        chosen = ", ".join(
            f"{dict(right=b, full=f'coalesce({a}, {b})').get(how, a)} as {a}" for a, b in on
        )
        query = f"select * exclude ({dropped}) replace ({chosen}) from {sides[0]} {how} join "
        query += f"{sides[1]} on {match}"
    for first, second in [("found", "wanted"), ("wanted", "found")]:
        extra = con.sql(
            f"with found as (from '{tpch}/out.parquet'), wanted as ({query}) "
            f"(select hash({first}) h from {first}) except all "
            f"(select hash({second}) from {second}) limit 1"
        )
        assert extra.fetchall() == []


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
def test_what_is_wrong_is_told_before_the_start(options: dict[str, Any], said: str) -> None:
    left = pa.table({"k": [1], "t": [1], "a": [1], "list": [[1]]})
    right = pa.table({"k": [1], "t": ["1"], "b": [1], "list": [[1]]})
    with pytest.raises(eu.UsageError) as caught:
        joined(left, right, **options)
    assert said in str(caught.value)


def test_the_smaller_side_is_held_as_far_as_it_is_known(tmp_path: Path) -> None:
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
    # Nobody knows what an iterator has.
    assert held(eu.from_arrow(few), eu.from_arrow(lambda: iter([many]), schema={"k": "int64"})) == (
        "right"
    )


def test_the_report_counts_what_both_sides_bring() -> None:
    flow = eu.Flow("both")
    joined = flow.place(eu.join(["n"]))
    for side, rows in (("left", 3), ("right", 2000)):
        flow.attach(flow.place(eu.generate("integers", rows=rows)), joined, input=side)
    flow.attach(joined, flow.place(eu.collect()))
    assert "\n2,003 rows, 16.0 kB in; " in str(flow.go())


def test_the_report_counts_what_a_source_of_the_users_own_brings() -> None:
    class Thousand(eu.Module):
        inputs = ()

        def run(self, ports: Any) -> None:
            ports.put(pa.table({"n": range(1000)}))

        def schemas(self, inputs: Any) -> Any:
            return [{"n": "int64"}]

    flow = eu.Flow("own")
    flow.chain(flow.place(Thousand(), count=1), eu.count(), eu.collect())
    assert "\n1,000 rows, 8.0 kB in; " in str(flow.go())
