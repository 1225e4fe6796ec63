"""Joins beyond memory, with skewed keys, on several processes and over TPC-H."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu
from join_tables import HOWS, check_same, expected, joined, spill_tables, tables


def zipf(count: int, keys: int) -> list[int]:
    luck = random.Random(5)
    weights = [1 / (rank + 1) ** 1.2 for rank in range(keys)]
    return luck.choices(range(keys), weights, k=count)


SMALL = {"memory": "16MB"}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("how", HOWS)
def test_beyond_memory_spills_to_scratch(how: str, count: int) -> None:
    left, right = spill_tables(list(range(0, 200_000)), 100_000)
    left = left.append_column("pad_left", right["pad"].slice(0, left.num_rows))
    flow_report: list[eu.Report] = []
    found = joined(left, right, ["k"], how=how, count=count, go=SMALL, report=flow_report)
    assert "went through scratch" in str(flow_report[0])
    check_same(found, expected(left, right, ["k"], how))


@pytest.mark.parametrize("go", [{}, SMALL], ids=["memory", "scratch"])
def test_spilled_pieces_do_not_repeat_the_dictionary(go: dict[str, Any]) -> None:
    rows, words = 100_000, [f"{number:040}" for number in range(20_000)]
    left = pa.table({"k": range(rows), "a": range(rows)})
    codes = pa.array([number % len(words) for number in range(rows)], pa.int32())
    word = pa.DictionaryArray.from_arrays(codes, pa.array(words))
    right = pa.table({"k": range(rows), "word": word, "b": range(rows)})
    report: list[eu.Report] = []
    found = joined(left, right, ["k"], how="full", build="right", go=go, report=report)
    check_same(found, expected(left, right, ["k"], "full"))
    # A part's small table has one dictionary for all of its output, of 64 KiB at most.
    for chunk in found["word"].chunks:
        assert len(chunk.dictionary) <= len(chunk) or chunk.dictionary.nbytes <= 64 << 10
    scratch = re.search(r"([0-9.]+) MB went through scratch", str(report[0]))
    assert (scratch is not None) == bool(go)
    # 60 bytes a row, and once more for repartitioned rows.
    assert scratch is None or float(scratch[1]) < 40, scratch[0]


@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", ["inner", "full", "semi"])
def test_skewed_keys(how: str, build: str) -> None:
    left, right = spill_tables(zipf(1500, 1000), 1500)
    found = joined(left, right, ["k"], how=how, build=build)
    check_same(found, expected(left, right, ["k"], how))


@pytest.mark.parametrize("how", HOWS)
def test_one_key_beyond_memory(how: str) -> None:
    """No partition fits in memory: it is joined block by block."""
    left, right = spill_tables([7] * 150_000 + list(range(1000)), 40)
    left = pa.table({"k": [7, 7, 999, 5000, None], "a": range(5)})
    found = joined(left, right, ["k"], how=how, go=SMALL, where="b % 3 > 0")
    check_same(found, expected(left, right, ["k"], how, "b % 3 > 0"))


@pytest.mark.parametrize("how", HOWS)
def test_several_processes(how: str) -> None:
    left, right = tables(9, rows=6000)
    right = right.drop_columns(["m", "t"])
    left = pa.Table.from_batches(left.to_batches(max_chunksize=150))
    right = pa.Table.from_batches(right.to_batches(max_chunksize=150))
    report: list[eu.Report] = []
    found = joined(left, right, ["k"], how=how, go={"cluster": "processes:2"}, report=report)
    check_same(found, expected(left, right, ["k"], how))
    # A right row's output depends on matches at every worker.
    assert ("every worker had all rows" in str(report[0])) == (how not in ("right", "full"))


@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_heavy_key_is_spread_over_workers(how: str, build: str) -> None:
    left, right = spill_tables(list(range(100_000)), 40_000)
    heavy = pa.table({"k": [7] * 360_000, "a": range(360_000)})
    left = pa.Table.from_batches(pa.concat_tables([left, heavy]).to_batches(max_chunksize=5000))
    report: list[eu.Report] = []
    go = {"cluster": "processes:3", **SMALL}
    # No unmatched row has the heavy key.
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
    """The tables of TPC-H, at scale 0.1 unless `TPCH_SCALE` is set (`make bench`)."""
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
