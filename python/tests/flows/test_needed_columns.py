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


@pytest.mark.parametrize(
    ("join", "values", "rows", "read"),
    [
        (eu.join(["a"]), ["a", "c_right"], [(1, 1.5), (2, 2.5), (2, 3.5), (2, 2.5), (2, 3.5)], 2),
        (eu.join(["a"], how="semi"), ["b"], [("x",), ("y",), ("y",)], 2),
        (eu.join(["a"], where="b_right = 'x'"), ["a"], [(1,)], 2),
        (eu.join([{"left": "a", "right": "a"}], how="anti"), ["c"], [], 2),
    ],
)
def test_needed_columns_pass_through_joins(
    path: str, join: eu.ModuleCall, values: list[str], rows: list[tuple[object, ...]], read: int
) -> None:
    pq.write_table(pa.table({name.lower(): ROWS[name] for name in ROWS}), path)
    flow = eu.Flow()
    join_placed, left, right = (flow.place(one) for one in (join, eu.scan(path), eu.scan(path)))
    flow.attach(left, join_placed, input="left")
    flow.attach(right, join_placed, input="right")
    project = flow.place(eu.project(values))
    flow.attach(join_placed, project)
    flow.attach(project, flow.place(eu.collect()))
    report = flow.go(progress=False)
    found = sorted(tuple(row.values()) for row in report.collected().to_pylist())
    assert found == sorted(rows)
    assert str(report).count(f"read {read} of 3 columns") == 2


def test_a_collection_is_narrowed_as_well(path: str, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    flow = eu.Flow()
    flow.chain(eu.scan(path), eu.write("rows"))
    flow.go(progress=False, home=home)
    flow = eu.Flow()
    flow.chain(eu.read("rows"), eu.aggregate(["b"], values={"s": "sum(a)"}), eu.collect())
    report = flow.go(progress=False, home=home)
    found = sorted(tuple(row.values()) for row in report.collected().to_pylist())
    assert found == [("x", 1), ("y", 4)]
    assert "read 2 of 3 columns" in str(report)


def test_a_column_that_is_named_like_an_expression_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("order id,qty,Unit Price\n1,2,3.5\n")
    for columns in (["order id", "qty"], ["order id", "qty * 2 as q"], ["qty", "Unit Price"]):
        flow = eu.Flow()
        flow.chain(eu.scan(path), eu.project(columns), eu.collect())
        found = flow.go(progress=False).collected().to_pydict()
        assert list(found) == [name.rsplit(" as ")[-1] for name in columns]
