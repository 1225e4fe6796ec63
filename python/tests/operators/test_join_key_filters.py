"""A join filters the scan of its probe side by the keys of its build side; DuckDB is the oracle."""

from __future__ import annotations

import datetime
import decimal
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from join_tables import HOWS, check_same, expected

ROWS, GROUP_ROWS = 40_000, 10_000
"""The probe side has several row groups, and more rows than a trial of the filter."""
NAN = float("nan")


def floats(kind: pa.DataType) -> Any:
    return lambda at: pa.array(
        [NAN if one % 50 == 49 else -0.0 if one % 50 == 0 else float(one) for one in at]
    ).cast(kind)


KINDS: dict[str, Any] = {
    "int64": lambda at: pa.array(at, pa.int64()),
    "int32": lambda at: pa.array(at, pa.int32()),
    "uint64": lambda at: pa.array(at.astype(np.uint64) + np.uint64(2**63)),
    "float64": floats(pa.float64()),
    "float32": floats(pa.float32()),
    "decimal": lambda at: pa.array(
        [decimal.Decimal(int(one)).scaleb(-2) for one in at], pa.decimal128(12, 2)
    ),
    "wide decimal": lambda at: pa.array(
        [decimal.Decimal(int(one)) * 10**25 for one in at], pa.decimal128(38)
    ),
    "date": lambda at: pa.array(at, pa.int32()).cast(pa.date32()),
    "timestamp": lambda at: pa.array(at, pa.int64()).cast(pa.timestamp("us", "UTC")),
    "text": lambda at: pa.array([f"k{one:06d}" for one in at]),
    "dictionary": lambda at: pa.array([f"k{one // 50:06d}" for one in at]).dictionary_encode(),
    "binary": lambda at: pa.array([int(one).to_bytes(3, "big") + b"\xff" for one in at]),
    "fixed": lambda at: pa.array([int(one).to_bytes(3, "big") for one in at], pa.binary(3)),
    "bool": lambda at: pa.array(at % 2 == 0),
}


def with_nulls(column: pa.Array, nth: int) -> pa.Array:
    taken = [None if at % nth == nth - 1 else at for at in range(len(column))]
    return column.take(pa.array(taken, pa.int64()))


def probe_table(kind: str, order: str) -> pa.Table:
    at = np.arange(ROWS) if order == "sorted" else np.arange(ROWS) * 7919 % ROWS
    key = with_nulls(KINDS[kind](at), 97)
    return pa.table({"k": key, "a": range(ROWS), "text": [f"row {one}" for one in range(ROWS)]})


def build_table(kind: str, keys: int) -> pa.Table:
    """Keys of the probe side from its middle, twice each, nulls, and one that matches nothing."""
    at = np.concatenate([np.arange(ROWS // 2, ROWS // 2 + keys), [ROWS + 5]]).repeat(2)
    return pa.table({"k": with_nulls(KINDS[kind](at), 31), "b": range(len(at))})


def saved(table: pa.Table, path: Path, group_rows: int = GROUP_ROWS) -> str:
    pq.write_table(table, path, row_group_size=group_rows, data_page_size=8192)
    return str(path)


def joined(
    left: str, right: str, *between: Any, go: dict[str, Any] | None = None, **options: Any
) -> eu.Report:
    """Joins two files; the modules are behind the scan of the left."""
    flow, options = eu.Flow("join"), {"on": ["k"], "build": "right", **options}
    join = flow.place(eu.join(**options))
    _ = flow.chain(eu.scan(left), *between) >> join["left"]
    _ = flow.place(eu.scan(right)) >> join["right"], join >> eu.collect()
    return flow.go(progress=False, **(go or {}))


def rows_out(report: eu.Report, module: str = "scan_1") -> int:
    modules = json.loads(report.to_json())["modules"]
    return next(int(one["rows_out"]) for one in modules if one["id"] == module)


@pytest.mark.parametrize("order", ["sorted", "mixed"])
@pytest.mark.parametrize("keys", [0, 1, 400, 30_000])
@pytest.mark.parametrize("how", HOWS)
def test_every_join_kind_matches_duckdb(tmp_path: Path, how: str, keys: int, order: str) -> None:
    left, right = probe_table("int64", order), build_table("int64", keys)
    if keys == 0:
        right = right.slice(0, 0)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet", 300)
    for build in ("left", "right"):
        report = joined(*paths, how=how, build=build)
        check_same(pa.table(report.collected()), expected(left, right, ["k"], how))


@pytest.mark.parametrize("order", ["sorted", "mixed"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_key_type_matches_duckdb(tmp_path: Path, kind: str, order: str) -> None:
    left, right = probe_table(kind, order), build_table(kind, 300)
    if kind == "bool":
        right = right.filter(pa.compute.field("k")).slice(0, 2)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    report = joined(*paths)
    check_same(pa.table(report.collected()), expected(left, right, ["k"], "inner"))
    # Every other row is true, which is about where a filter begins to pay.
    assert kind == "bool" or "by the keys of join_1" in str(report)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int32", "int64"),
        ("int64", "int32"),
        ("text", "large text"),
        ("dictionary", "text of dictionary"),
        ("int64", "small uint64"),
        ("decimal", "longer decimal"),
    ],
)
def test_keys_of_other_types_are_found(tmp_path: Path, one: str, other: str) -> None:
    KINDS.setdefault("large text", lambda at: KINDS["text"](at).cast(pa.large_string()))
    KINDS.setdefault("text of dictionary", lambda at: KINDS["dictionary"](at).cast(pa.string()))
    KINDS.setdefault("small uint64", lambda at: pa.array(at, pa.uint64()))
    KINDS.setdefault("longer decimal", lambda at: KINDS["decimal"](at).cast(pa.decimal128(25, 2)))
    left, right = probe_table(one, "mixed"), build_table(other, 300)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    report = joined(*paths, how="semi")
    check_same(pa.table(report.collected()), expected(left, right, ["k"], "semi"))
    assert "by the keys of join_1" in str(report)


def test_several_keys_are_found_together(tmp_path: Path) -> None:
    at = np.arange(ROWS)
    left = pa.table({"k": at % 200, "day": KINDS["date"](at // 200), "a": at})
    right = left.take(pa.array([5, 777, 39_999, 777])).drop_columns(["a"])
    right = right.append_column("b", pa.array(range(4)))
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    report = joined(*paths, on=["k", "day"])
    check_same(pa.table(report.collected()), expected(left, right, ["k", "day"], "inner"))
    assert rows_out(report) == 3
    assert "left out 99 % of the rows by the keys of join_1" in str(report)


def test_row_groups_without_keys_are_skipped(tmp_path: Path) -> None:
    left, right = probe_table("int64", "sorted"), build_table("int64", 100)
    right = right.filter(pa.compute.field("k") < ROWS)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    report = joined(*paths)
    assert "skipped 3 of 4 row groups by the keys of join_1" in str(report)
    assert rows_out(report) < 110


def test_empty_build_side_skips_everything(tmp_path: Path) -> None:
    left, right = probe_table("text", "mixed"), build_table("text", 10).slice(0, 0)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    report = joined(*paths)
    assert report.collected().num_rows == rows_out(report) == 0
    assert "skipped 4 of 4 row groups by the keys of join_1" in str(report)


def test_trial_ends_the_filter_where_most_rows_match(tmp_path: Path) -> None:
    left = probe_table("int64", "mixed")
    right = pa.table({"k": left["k"], "b": range(ROWS)})
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    report = joined(*paths, go={"cores": 1})
    # Nulls match nothing; behind the trial they are read nevertheless.
    assert ROWS - left["k"].null_count < rows_out(report) <= ROWS


@pytest.mark.parametrize("how", ["left", "anti", "full"])
def test_rows_without_a_match_are_not_left_out(tmp_path: Path, how: str) -> None:
    left, right = probe_table("int64", "sorted"), build_table("int64", 10)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    assert rows_out(joined(*paths, how=how)) == ROWS


def explained(*between: Any, how: Any = "inner", path: str) -> str:
    flow = eu.Flow()
    join = flow.place(eu.join("k", how=how, build="right"))
    _ = flow.chain(eu.scan(path), *between) >> join["left"]
    _ = flow.place(eu.scan(path)) >> join["right"], join >> eu.collect()
    return str(flow.explain())


def test_explain_tells_which_scan_may_be_filtered(tmp_path: Path) -> None:
    path = saved(probe_table("int64", "sorted"), tmp_path / "table.parquet")
    may = "may filter scan_1 by k"
    assert may in explained(path=path)
    assert may in explained(eu.filter("a > 3"), eu.filter("text <> ''"), path=path)
    assert may in explained(eu.sort(["a"]), path=path)
    assert may in explained(eu.partition(["a"]), path=path)
    assert may in explained(how="right", path=path)
    assert may not in explained(how="left", path=path)
    assert may not in explained(eu.limit(5), path=path)
    assert may not in explained(eu.filter("1 / a > 3"), path=path)
    assert may not in explained(eu.project(["k + 1 as k"]), path=path)


@pytest.mark.parametrize("between", ["filter", "sort", "partition"])
def test_scan_is_filtered_through_modules_that_pass_rows_on(tmp_path: Path, between: str) -> None:
    left, right = probe_table("int64", "mixed"), build_table("int64", 300)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    modules = {
        "filter": [eu.filter("a > 10 or a <= 10"), eu.filter("a <> 20001")],
        "sort": [eu.sort(["a"])],
        "partition": [eu.partition(["text"])],
    }
    report = joined(*paths, *modules[between])
    if between == "filter":
        left = left.filter(pa.array([a != 20_001 for a in range(ROWS)]))
        assert rows_out(report) < 300 and "left out" in str(report)
    check_same(pa.table(report.collected()), expected(left, right, ["k"], "inner"))


def test_row_on_which_a_filter_fails_is_not_left_out(tmp_path: Path) -> None:
    left, right = probe_table("int64", "mixed"), build_table("int64", 300)
    zero = pa.array([0 if one == 17 else 1 for one in range(ROWS)])
    paths = (
        saved(left.append_column("z", zero), tmp_path / "left.parquet"),
        saved(right, tmp_path / "right.parquet"),
    )
    with pytest.raises(eu.EuphratesError, match="ivide by zero"):
        joined(*paths, eu.filter("1 / z = 1"))


@pytest.mark.parametrize("is_small", [True, False])
def test_join_of_a_tee_with_itself_is_not_filtered(tmp_path: Path, is_small: bool) -> None:
    table = probe_table("int64", "mixed")
    path = saved(table.slice(0, 1000) if is_small else table, tmp_path / "table.parquet")
    flow = eu.Flow()
    join = flow.place(eu.join("k", how="semi"))
    tee = flow.chain(eu.scan(path), eu.tee())
    _ = flow.chain(tee, eu.filter("a < 500")) >> join["right"]
    _ = tee >> join["left"], join >> eu.collect()
    rows = flow.go(progress=False).collected()
    assert rows.num_rows == sum(key is not None for key in table["k"].to_pylist()[:500])


def test_scan_that_feeds_two_joins_in_a_row_waits_for_both_in_turn(tmp_path: Path) -> None:
    left, right = probe_table("int64", "mixed"), build_table("int64", 300)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    flow = eu.Flow()
    one, other = flow.place(eu.join("k", how="semi")), flow.place(eu.join("k", how="semi"))
    # The probe side of the second join is built of the first one's rows.
    _ = flow.place(eu.scan(paths[0])) >> one["left"], flow.place(eu.scan(paths[1])) >> one["right"]
    _ = flow.place(eu.scan(paths[0])) >> other["left"], one >> other["right"]
    _ = other >> eu.collect()
    report = flow.go(progress=False)
    check_same(pa.table(report.collected()), expected(left, right, ["k"], "semi"))
    assert len(re.findall("by the keys of join_", str(report))) == 2


def test_consumer_that_has_had_enough_leaves_no_scan_waiting(tmp_path: Path) -> None:
    left, right = probe_table("int64", "mixed"), build_table("int64", 20_000)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    flow = eu.Flow()
    join = flow.place(eu.join("k", how="right", build="right"))
    _ = (
        flow.place(eu.scan(paths[0])) >> join["left"],
        flow.place(eu.scan(paths[1])) >> join["right"],
    )
    # Rows with null keys come out while the build side is read.
    _ = join >> eu.limit(1) >> eu.collect()
    assert flow.go(progress=False).collected().num_rows == 1


def test_join_that_spills_does_not_filter(tmp_path: Path) -> None:
    left = probe_table("int64", "mixed")
    rows = 200_000
    pad = ["".join(chr(97 + (one * 31 + at) % 26) for at in range(90)) for one in range(997)]
    at = range(rows)
    right = pa.table({"k": [one * 3 for one in at], "pad": [pad[one % 997] for one in at]})
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    report = joined(*paths, go={"memory": "12MiB"})
    check_same(pa.table(report.collected()), expected(left, right, ["k"], "inner"))
    assert "by the keys" not in str(report)


@pytest.mark.parametrize("order", ["sorted", "mixed"])
@pytest.mark.parametrize("how", ["inner", "semi", "right", "anti"])
def test_processes_filter_by_the_keys_of_all(tmp_path: Path, how: str, order: str) -> None:
    left, right = probe_table("int64", order), build_table("int64", 300)
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet", 50)
    with eu.Cluster.processes(2) as cluster:
        report = joined(*paths, how=how, go={"cluster": cluster})
    check_same(pa.table(report.collected()), expected(left, right, ["k"], how))
    # A join that tracks matches of the side it holds has no common table.
    assert ("by the keys of join_1" in str(report)) == (how in ("inner", "semi"))


def test_dates_beyond_the_keys_are_left_out(tmp_path: Path) -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=one // 40) for one in range(ROWS)]
    left = pa.table({"k": days, "a": range(ROWS)})
    right = pa.table({"k": [days[20_000], days[20_100]], "b": [1, 2]})
    paths = saved(left, tmp_path / "left.parquet"), saved(right, tmp_path / "right.parquet")
    report = joined(*paths)
    assert "skipped 3 of 4 row groups by the keys of join_1" in str(report)
    check_same(pa.table(report.collected()), expected(left, right, ["k"], "inner"))
