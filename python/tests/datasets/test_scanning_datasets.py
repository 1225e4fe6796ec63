"""Folders that others wrote, files whose columns differ, and files that are left out."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from dataset_cases import rows_of, scanned, special_rows, typed_rows, write


@pytest.mark.parametrize("by", ["text", "n"])
def test_folders_of_duckdb_are_read(by: str, tmp_path: Path) -> None:
    connection, table = duckdb.connect(), special_rows()
    connection.register("rows", table)
    connection.sql(f"copy rows to '{tmp_path}/out' (format parquet, partition_by ({by}))")
    assert rows_of(scanned(tmp_path / "out")) == rows_of(table)


def test_folders_of_pyarrow_are_read(tmp_path: Path) -> None:
    table = typed_rows().drop_columns(["flag"])
    pyarrow.dataset.write_dataset(
        table,
        tmp_path / "out",
        format="parquet",
        partitioning=pyarrow.dataset.partitioning(
            pa.schema([table.schema.field("day"), table.schema.field("whole")]), flavor="hive"
        ),
    )
    assert rows_of(scanned(tmp_path / "out")) == rows_of(table)


def test_all_values_decide_a_type_and_hive_may_be_switched_off(tmp_path: Path) -> None:
    for value, rows in (("1", 1), ("2", 2)):
        (tmp_path / f"k={value}").mkdir()
        pq.write_table(pa.table({"n": range(rows)}), tmp_path / f"k={value}" / "a.parquet")
    assert scanned(tmp_path).schema.field("k").type == pa.int64()
    (tmp_path / "k=03").mkdir()
    pq.write_table(pa.table({"n": [7]}), tmp_path / "k=03" / "a.parquet")
    assert sorted(scanned(tmp_path)["k"].to_pylist()) == ["03", "1", "2", "2"]
    assert scanned(tmp_path, hive=False).column_names == ["n"]
    assert scanned(tmp_path / "k=2").to_pydict() == {"n": [0, 1], "k": [2, 2]}
    assert scanned(f"{tmp_path}/*/a.parquet", columns=["k"]).num_rows == 4
    with pytest.raises(eu.UsageError, match="name=value"):
        pq.write_table(pa.table({"n": [7]}), tmp_path / "a.parquet")
        scanned(tmp_path / "a.parquet", hive=True)
    with pytest.raises(eu.UsageError, match="other columns"):
        scanned(tmp_path)


def test_column_of_the_files_takes_precedence(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    pq.write_table(pa.table({"n": [1], "k": ["one"]}), tmp_path / "k=1" / "a.parquet")
    assert scanned(tmp_path).to_pydict() == {"n": [1], "k": ["one"]}


def test_types_of_folder_columns_may_be_given(tmp_path: Path) -> None:
    for value in ("1", "20", "300"):
        (tmp_path / f"zip={value}").mkdir()
        (tmp_path / f"zip={value}" / "a.csv").write_text("n\n1\n")
    typed = eu.scan(tmp_path, hive_types={"zip": "string"})
    assert typed.filter("zip = '20'").to_pydict() == {"n": [1], "zip": ["20"]}
    assert "skipped 2 of 3 files" in str(typed.filter("zip like '%0' and zip > '20'").explain())
    for types, part in [
        ({"zip": "date"}, "zip"),
        ({"zap": "string"}, "zap"),
        ({"zip": "?"}, "type"),
    ]:
        with pytest.raises(eu.UsageError, match=part):
            eu.scan(tmp_path, hive_types=types).collect()


def test_filters_leave_out_files_before_they_are_opened(tmp_path: Path) -> None:
    numbers = pa.table({"n": range(1000), "day": [n % 100 for n in range(1000)]})
    write(numbers, tmp_path / "out", partition_by=["day"])
    # A file that cannot be opened shows that it was not.
    for file in sorted((tmp_path / "out").rglob("*.parquet"))[1:]:
        if not {"day=42", "day=43"} & {file.parent.name}:
            file.write_bytes(b"damaged")
    for condition, expected in [
        ("day = 42", range(42, 1000, 100)),
        ("day in (42, 43) and n < 200", [42, 43, 142, 143]),
        ("42 = day and n + 1 > 0", range(42, 1000, 100)),
        ("day > 41 and day <= 43 and n >= 900", [942, 943]),
    ]:
        query = eu.query(eu.scan(tmp_path / "out")).filter(condition)
        report = query.save(tmp_path / "x.parquet", overwrite=True)
        assert sorted(pq.read_table(tmp_path / "x.parquet")["n"].to_pylist()) == list(expected)
        assert "of 100 files" in str(report.modules[0].remark), report.modules[0]
    plan = str(eu.query(eu.scan(tmp_path / "out")).filter("day = 42").explain())
    assert "skipped 99 of 100 files by day = 42" in plan
    nothing = eu.query(eu.scan(tmp_path / "out")).filter("day = 1000")
    assert nothing.to_pyarrow().num_rows == 0
    with pytest.raises(eu.EuphratesError, match=r"damaged|Parquet|footer"):
        eu.query(eu.scan(tmp_path / "out")).filter("n = 42").collect()


def test_filters_on_folders_and_columns_give_the_rows_of_duckdb(tmp_path: Path) -> None:
    table = typed_rows()
    write(table, tmp_path / "out", partition_by=["name", "whole"])
    connection = duckdb.connect()
    view = f"read_parquet('{tmp_path}/out/**/*.parquet', hive_partitioning=true)"
    for condition in [
        "whole > 0",
        "whole is null",
        "name is not null and n < 6",
        "name = 'Ur' or n = 1",
        "not (name = 'Ur')",
        "name like 'K%' and whole <> 7",
        "day > date '2024-02-28' and whole = 0",
        "whole + n > 5",
        "name || 'x' = 'Urx'",
    ]:
        found = eu.query(eu.scan(tmp_path / "out")).filter(condition).to_pyarrow()
        expected = connection.sql(f"from {view} where {condition}").to_arrow_table()
        assert rows_of(found) == rows_of(expected), condition


def test_error_before_a_filter_on_folders_is_not_hidden(tmp_path: Path) -> None:
    write(pa.table({"n": [0, 1], "k": [1, 2]}), tmp_path / "out", partition_by=["k"])
    with pytest.raises(eu.EuphratesError, match="zero"):
        eu.query(eu.scan(tmp_path / "out")).filter("1 / n > 0 and k = 2").collect()


def test_join_on_a_folder_column_gives_its_rows(tmp_path: Path) -> None:
    numbers = pa.table({"n": range(1000), "day": [n % 100 for n in range(1000)]})
    write(numbers, tmp_path / "out", partition_by=["day"])
    days = eu.query({"day": [3, 5], "name": ["three", "five"]})
    joined = eu.query(eu.scan(tmp_path / "out")).join(days, "day")
    found = joined.group_by("name").agg(rows="count()", all="sum(n)").sort("name").to_pylist()
    assert found == [
        {"name": "five", "rows": 10, "all": sum(range(5, 1000, 100))},
        {"name": "three", "rows": 10, "all": sum(range(3, 1000, 100))},
    ]


WIDENED = [
    (pa.int32(), pa.int64(), pa.int64()),
    (pa.int8(), pa.int16(), pa.int16()),
    (pa.uint8(), pa.int32(), pa.int32()),
    (pa.uint32(), pa.int32(), pa.int64()),
    (pa.uint64(), pa.int8(), pa.decimal128(20, 0)),
    (pa.float32(), pa.float64(), pa.float64()),
    (pa.int32(), pa.float32(), pa.float64()),
    (pa.int64(), pa.float64(), pa.float64()),
]


@pytest.mark.parametrize("extension", ["parquet", "arrow"])
@pytest.mark.parametrize(("one", "other", "both"), WIDENED)
def test_numbers_of_files_are_widened(
    one: pa.DataType, other: pa.DataType, both: pa.DataType, extension: str, tmp_path: Path
) -> None:
    for name, kind in (("a", one), ("b", other)):
        put(pa.table({"x": pa.array([1, None, 7], kind)}), tmp_path / f"{name}.{extension}")
    found = scanned(tmp_path)
    assert found.schema.field("x").type == both
    assert [value and int(value) for value in found["x"].to_pylist()] == [1, None, 7] * 2
    kept = eu.query(eu.scan(tmp_path)).filter("x > 1").to_pyarrow()
    assert [int(value) for value in kept["x"].to_pylist()] == [7, 7]


def put(table: pa.Table, file: Path) -> None:
    if file.suffix == ".parquet":
        pq.write_table(table, file)
    elif file.suffix == ".csv":
        pyarrow.csv.write_csv(table, file)
    else:
        with pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)


@pytest.mark.parametrize("extension", ["parquet", "arrow", "csv"])
def test_files_with_different_columns_lose_nothing_silently(extension: str, tmp_path: Path) -> None:
    put(pa.table({"n": [1, 2], "x": [1.5, 2.5]}), tmp_path / f"a.{extension}")
    put(pa.table({"n": [3]}), tmp_path / f"b.{extension}")
    assert rows_of(scanned(tmp_path)) == rows_of(pa.table({"n": [1, 2, 3], "x": [1.5, 2.5, None]}))
    put(pa.table({"y": ["new"], "n": [4]}), tmp_path / f"c.{extension}")
    with pytest.raises(eu.UsageError, match="column `y` is not in the first file") as error:
        scanned(tmp_path)
    assert f"c.{extension}" in str(error.value)
    assert f"a.{extension}" in str(error.value)
    assert "union_by_name" in str(error.value.remedy)
    everything = {"n": [1, 2, 3, 4], "x": [1.5, 2.5, None, None], "y": [None] * 3 + ["new"]}
    assert rows_of(scanned(tmp_path, union_by_name=True)) == rows_of(pa.table(everything))
    assert scanned(tmp_path, union_by_name=False).column_names == ["n", "x"]
    asked = scanned(tmp_path, columns=["y", "n"])
    assert asked.column_names == ["y", "n"]
    assert asked.num_rows == 4
    for condition in ("y is null", "x > 2 or y = 'new'", "y = 'new'"):
        query = eu.query(eu.scan(tmp_path, union_by_name=True)).filter(condition)
        expected = duckdb.connect().from_arrow(pa.table(everything)).filter(condition)
        assert rows_of(query.to_pyarrow()) == rows_of(expected.to_arrow_table()), condition


def test_types_that_have_nothing_in_common_are_an_error_that_names_both_files(
    tmp_path: Path,
) -> None:
    put(pa.table({"n": [1]}), tmp_path / "a.parquet")
    put(pa.table({"n": ["one"]}), tmp_path / "b.parquet")
    with pytest.raises(eu.UsageError, match="column `n` is Utf8, and Int64") as error:
        scanned(tmp_path)
    assert "a.parquet" in str(error.value)
    assert "b.parquet" in str(error.value)


def test_staged_and_hidden_files_are_passed_over(tmp_path: Path) -> None:
    for name in ("a", "_x=1/b", "_temporary/c", ".d", "_e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        put(pa.table({"n": [1]}), tmp_path / f"{name}.parquet")
    assert scanned(tmp_path, hive=False).num_rows == 2
    assert "_temporary" in os.listdir(tmp_path)
