"""A scan leaves out the columns that no module after it reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu

ROWS = {"A": [1, 2, 2], "b": ["x", "y", "y"], "c": [1.5, 2.5, 3.5]}


@pytest.fixture
def path(tmp_path: Path) -> str:
    pq.write_table(pa.table(ROWS), tmp_path / "table.parquet")
    return str(tmp_path / "table.parquet")


@pytest.mark.parametrize(
    ("modules", "rows", "read"),
    [
        ([eu.aggregate(["b"], values={"s": "sum(a)"})], [("x", 1), ("y", 4)], 2),
        ([eu.count()], [(3,)], 1),
        ([eu.filter("a > 1"), eu.project(["C as d"])], [(2.5,), (3.5,)], 2),
        ([eu.sort(["c desc"]), eu.limit(1), eu.project(["b"])], [("y",)], 2),
        ([eu.filter("a > 1")], [(2, "y", 2.5), (2, "y", 3.5)], 3),
    ],
)
def test_only_needed_columns_are_read(
    path: str, modules: list[eu.ModuleCall], rows: list[tuple[object, ...]], read: int
) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(path), *modules, eu.collect())
    report = flow.go(progress=False)
    found = sorted(tuple(row.values()) for row in report.collected().to_pylist())
    assert found == rows
    assert (f"read {read} of 3 columns" in str(report)) == (read < 3)


def test_unknown_name_is_reported_with_all_columns(path: str) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(path), eu.aggregate(["b"], values={"s": "sum(cc)"}), eu.collect())
    with pytest.raises(eu.UsageError, match="did you mean `c`"):
        flow.go(progress=False)
