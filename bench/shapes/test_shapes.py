"""Tests of the generator, the comparison and the runner, on small tables."""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from bench.shapes import cells, compare, run, tables
from bench.shapes.cells import Cell
from bench.shapes.engines import NAMES
from bench.shapes.sampled import all_cells
from bench.shapes.values import KINDS

OPTIONS = argparse.Namespace(
    engines=list(NAMES), repeats=1, quick=False, memory_fraction=0.0, rows_scale=0.00025
)
EXAMPLES = [
    cells.sort("test/sort", ["word", "int64"], cells.TEN, 1000, nulls=0.1, distinct=4,
               descending=(False, True)),
    cells.group("test/group", ["word"], cells.FUNCTIONS["all"], 1000, distinct=10),
    cells.join("test/join", ["int64"], 1000, 1000, 0.5, "full"),
    cells.filtered("test/filter", 0.1, "int64", "sorted", 1000),
    cells.converted("test/csv", "csv", "json_lines", 1000),
    cells.converted("test/arrow", "zstd", "arrow", 1000),
]  # fmt: skip


@pytest.mark.parametrize("cell", EXAMPLES, ids=lambda cell: cell.name)
def test_all_engines_give_the_expected_result(cell: Cell, tmp_path: Path) -> None:
    result = run.measure(cell, tmp_path, OPTIONS)
    for name, engine in result["engines"].items():
        assert "failed" not in engine, name
        assert engine["differs"] is None, name
        assert engine["peak_bytes"] > 1 << 20
    assert result["ratio"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_equal_bits_are_equal_values(kind: str) -> None:
    column = tables.Column("a", kind, distinct=2, dense=True, nulls=0.5)
    table = tables.made(tables.Table((column,), 1000))
    again = tables.made(tables.Table((column,), 1000))
    assert table.equals(again)
    # A list of a value's own numbers: its items differ.
    if kind != "list":
        assert len({str(value) for value in table["a"].to_pylist()}) == 3
    table.validate(full=True)


@pytest.mark.parametrize("order", tables.ORDERS)
def test_an_order_has_all_rows(order: tables.Order) -> None:
    table = tables.Table((tables.Column("a", "int64", draw="unique", dense=True),), 1000, order,
                         ("a",))  # fmt: skip
    values = tables.ordered(tables.made(table), table)["a"].to_pylist()
    assert sorted(values) == list(range(1000))
    rising = sum(a < b for a, b in zip(values, values[1:]))
    assert rising == {"sorted": 999, "reversed": 0, "eight runs": 992}.get(order, rising)


@pytest.mark.parametrize(
    ("values", "wrong"),
    [([1, 2, None], None), ([2, 1, None], "1 rows are not in order"),
     ([None, 1, 2], "1 rows are not in order"), ([1, 2, 2], "k0 differs"),
     ([1, 2], "2 rows instead of 3")],
)  # fmt: skip
def test_a_difference_is_found(values: list[int], wrong: str | None, tmp_path: Path) -> None:
    job = cells.sort("test", ["int64"], []).job() | {"scratch": str(tmp_path)}
    for name, some in (("input.parquet", [2, None, 1]), ("output.parquet", values)):
        pa.parquet.write_table(pa.table({"k0": pa.array(some, pa.int64())}), tmp_path / name)
    job["inputs"][0]["path"], job["output"] = (
        tmp_path / "input.parquet",
        tmp_path / "output.parquet",
    )
    assert compare.difference(job, compare.expected(job)) == wrong


def test_names_are_unique_and_tables_fit() -> None:
    every = all_cells(seed=1)
    assert len({cell.name for cell in every}) == len(every)
    assert max(cell.bytes for cell in every) <= cells.TABLE_BYTES_MAX
    assert [cell.name for cell in every] == [cell.name for cell in all_cells(seed=1)]
