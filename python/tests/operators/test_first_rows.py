"""A sort before a `limit` keeps as many rows as the limit reads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu

ROWS = 120_000
TEXTS = ["", "a", "a long text " * 3, "zz", None]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    chance = random.Random(26)
    table = pa.table({
        "id": pa.array(chance.sample(range(-ROWS, ROWS), ROWS), pa.int64()),
        "few": pa.array([chance.choice([1, 2, 3, None]) for _ in range(ROWS)], pa.int8()),
        "real": pa.array([chance.choice([0.0, -0.0, 1e300, -7.5, None]) for _ in range(ROWS)]),
        "text": pa.array([chance.choice(TEXTS) for _ in range(ROWS)]),
        "wide": pa.array([f"text {number} " * 4 for number in range(ROWS)]),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("first") / "table.parquet"
    pq.write_table(table, path, row_group_size=9000)
    return str(path)


def run(flow: eu.Flow, **options: Any) -> list[tuple[Any, ...]]:
    report = flow.go(progress=False, **options)
    assert "kept the first" in str(report)
    return [tuple(row.values()) for row in report.collected().to_pylist()]


@pytest.mark.parametrize(("rows", "offset"), [(0, 0), (1, 0), (10, 5), (20_000, 0), (ROWS, 7)])
@pytest.mark.parametrize(
    "by",
    [
        ["id"],
        ["id desc"],
        ["few desc", "id"],
        ["text", "id desc"],
        ["real desc nulls first", "text nulls first", "id"],
    ],
)
def test_first_rows_are_those_of_the_whole_order(
    path: str, by: list[str], rows: int, offset: int
) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(path), eu.sort(by), eu.limit(rows, offset=offset), eu.collect())
    order = ", ".join(key if "nulls" in key else f"{key} NULLS LAST" for key in by)
    query = f"FROM '{path}' ORDER BY {order} LIMIT {rows} OFFSET {offset}"
    assert run(flow) == duckdb.sql(query).fetchall()


def test_rows_of_equal_keys_keep_their_order(path: str) -> None:
    flow = eu.Flow()
    scan = eu.scan(path, order=True)
    flow.chain(scan, eu.sort(["few"], stable=True), eu.limit(50_000), eu.collect())
    table = pq.read_table(path).to_pylist()
    table.sort(key=lambda row: (row["few"] is None, row["few"]))
    assert run(flow) == [tuple(row.values()) for row in table[:50_000]]


@pytest.mark.parametrize("rows", [10, 60_000])
def test_first_rows_come_from_scratch_and_from_processes(path: str, rows: int) -> None:
    query = f"FROM '{path}' ORDER BY id LIMIT {rows}"
    expected = duckdb.sql(query).fetchall()
    flow = eu.Flow()
    flow.chain(eu.scan(path), eu.sort(["id"]), eu.limit(rows), eu.collect())
    assert run(flow, memory="32MiB") == expected
    with eu.Cluster.processes(2) as cluster:
        assert run(flow, cluster=cluster) == expected


def test_only_a_limit_directly_behind_it_limits_a_sort(path: str) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(path), eu.sort(["few"]), eu.filter("few > 1"), eu.limit(3), eu.collect())
    report = flow.go(progress=False)
    assert [row["few"] for row in report.collected().to_pylist()] == [2, 2, 2]
    assert "kept the first" not in str(report)
    both = eu.Flow()
    tee, first, rows = both.place(eu.tee()), both.place(eu.collect()), both.place(eu.collect())
    both.chain(eu.scan(path), eu.sort(["id"]), tee)
    both.chain(tee, eu.limit(3), first)
    both.chain(tee, eu.count(), rows)
    report = both.go(progress=False)
    assert "kept the first" not in str(report)
    assert report.collected(first).num_rows == 3
    assert list(report.collected(rows).to_pylist()[0].values()) == [ROWS]


def saved_parts(folder: Path, format: str) -> str:
    """Rows 0, 1, … in several files, each of several splits."""
    for part in range(3):
        numbers = pa.table({"n": range(part * 40_000, (part + 1) * 40_000)})
        if format == "parquet":
            pq.write_table(numbers, folder / f"{part}.parquet", row_group_size=3_000)
        else:
            eu.query(eu.from_arrow(numbers)).sort("n").save(folder / f"{part}.{format}")
    return f"{folder}/*.{format}"


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(
    "query",
    [
        "select n from t limit 3",
        "select n + 1 as n from t where n % 1000 = 7 limit 5 offset 2",
        "select n from t limit 50000 offset 30000",
        "select n from (select n from t limit 70000) where n > 65000 limit 10",
    ],
)
def test_a_limit_behind_a_scan_takes_the_first_rows_of_the_files(
    tmp_path: Path, format: str, query: str
) -> None:
    table = saved_parts(tmp_path, format)
    oracle = duckdb.connect()
    oracle.register("t", pa.table({"n": range(120_000)}))
    expected = oracle.sql(query).fetchall()
    for cores in (1, 4):
        rows = eu.sql(query, t=eu.scan(table)).to_pydict(cores=cores)["n"]
        assert [(n,) for n in rows] == expected, cores
