"""Keys of groups, and what is counted once, are read as codes where Parquet stores codes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu

WORDS = ["", "a", "ab", "long " * 9, "zürich", None]
VALUES = {"n": "count()", "s": "sum(v)", "d": "count(distinct w)", "m": "max(w)"}
SQL = "count(*), sum(v), count(distinct w), max(w)"


def table(rows: int, seed: int, words: list[str | None] = WORDS) -> pa.Table:
    chance = random.Random(seed)
    return pa.table({
        "k": pa.array([chance.choice(words) for _ in range(rows)]),
        "w": pa.array([chance.choice(words) for _ in range(rows)]),
        "f": pa.array([chance.choice([True, False, None]) for _ in range(rows)]),
        "v": pa.array([chance.choice([-1, 0, 7, None]) for _ in range(rows)], pa.int64()),
    })  # fmt: skip


def with_pyarrow(made: pa.Table, path: str) -> None:
    pq.write_table(made, path, row_group_size=700)


def with_duckdb(made: pa.Table, path: str) -> None:
    duckdb.sql(f"COPY (FROM made) TO '{path}' (ROW_GROUP_SIZE 2048)")


def with_polars(made: pa.Table, path: str) -> None:
    pl.DataFrame(made).write_parquet(path, row_group_size=700)


WRITERS = [with_pyarrow, with_duckdb, with_polars]


def grouped(flow: eu.Flow, keys: list[str], *before: eu.ModuleCall, path: object) -> list[object]:
    flow.chain(eu.scan(path), *before, eu.aggregate(keys, values=VALUES), eu.collect())
    rows = flow.go(progress=False).collected().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def expected(keys: list[str], of: str) -> list[object]:
    by = ", ".join(keys)
    return sorted(duckdb.sql(f"SELECT {by}, {SQL} FROM {of} GROUP BY {by}").fetchall(), key=repr)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("keys", [["k"], ["k", "w"], ["f", "k"], ["v", "k"]])
def test_groups_of_codes_are_those_of_values(
    tmp_path: Path, writer: Callable[[pa.Table, str], None], keys: list[str]
) -> None:
    for number in range(3):
        writer(table(3000, number, WORDS[number:]), str(tmp_path / f"{number}.parquet"))
    path, flow = str(tmp_path / "*.parquet"), eu.Flow()
    assert grouped(flow, keys, path=path) == expected(keys, f"'{path}'")
    assert "k: Dictionary(Int32, " in str(flow.explain())


def test_expressions_get_values(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    with_pyarrow(table(3000, 1), path)
    flow = eu.Flow()
    rows = grouped(flow, ["k"], eu.filter("k <> 'a' or w = 'ab'"), path=path)
    kept = f"(FROM '{path}' WHERE k <> 'a' OR w = 'ab')"
    assert rows == expected(["k"], kept)
    assert "k: Utf8" in str(flow.explain())
    other = eu.Flow()
    rows = grouped(other, ["k"], eu.filter("v >= 0"), path=path)
    assert rows == expected(["k"], f"(FROM '{path}' WHERE v >= 0)")
    assert "k: Dictionary(Int32, Utf8)" in str(other.explain())


def test_files_without_dictionaries_are_read_as_values(tmp_path: Path) -> None:
    with_pyarrow(table(3000, 1), str(tmp_path / "1.parquet"))
    pq.write_table(table(3000, 2), tmp_path / "2.parquet", use_dictionary=False)
    path, flow = str(tmp_path / "*.parquet"), eu.Flow()
    assert grouped(flow, ["k", "w"], path=path) == expected(["k", "w"], f"'{path}'")
    assert "k: Utf8" in str(flow.explain())


def test_pages_of_plain_values_behind_pages_of_codes_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    words: list[str | None] = [f"word {number}" for number in range(5000)]
    pq.write_table(table(20_000, 3, words), path, dictionary_pagesize_limit=20_000)
    assert grouped(eu.Flow(), ["k"], path=path) == expected(["k"], f"'{path}'")


def test_what_is_saved_has_no_dictionary(tmp_path: Path) -> None:
    source, target = str(tmp_path / "t.parquet"), str(tmp_path / "groups.parquet")
    with_pyarrow(table(3000, 1), source)
    flow = eu.Flow()
    flow.chain(eu.scan(source), eu.aggregate(["k"], values={"n": "count()"}), eu.save(target))
    flow.go(progress=False)
    assert pq.read_schema(target).field("k").type == pa.string()


def test_processes_exchange_groups_of_codes(tmp_path: Path) -> None:
    for number in range(4):
        with_pyarrow(table(3000, number), str(tmp_path / f"{number}.parquet"))
    path, flow = str(tmp_path / "*.parquet"), eu.Flow()
    flow.chain(eu.scan(path), eu.aggregate(["k", "w"], values=VALUES), eu.collect())
    with eu.Cluster.processes(2) as cluster:
        rows = flow.go(cluster=cluster, progress=False).collected().to_pylist()
    found = sorted((tuple(row.values()) for row in rows), key=repr)
    assert found == expected(["k", "w"], f"'{path}'")
