"""Scans of Delta tables that `deltalake` and others have written."""

from __future__ import annotations

import datetime
import decimal
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType

import euphrates as eu
from lake_cases import (
    SALES,
    by_deltalake,
    by_euphrates,
    commit_by_hand,
    long_column,
    metadata,
    protocol,
    rows_of,
)

DAY = datetime.date(2024, 2, 28)
NOON = datetime.datetime(2024, 2, 28, 12, 0, 0, 123456)
TYPES: dict[str, pa.Array] = {
    "flag": pa.array([True, None, False]),
    "byte": pa.array([1, None, -3], pa.int8()),
    "short": pa.array([1, None, -3], pa.int16()),
    "int": pa.array([1, None, -3], pa.int32()),
    "float": pa.array([1.5, None, -3], pa.float32()),
    "double": pa.array([1.5, None, float("nan")]),
    "decimal": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.5")]),
    "text": pa.array(["Ur", None, ""]),
    "bytes": pa.array([b"Ur", None, b""]),
    "day": pa.array([DAY, None, DAY]),
    "instant": pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")),
    "moment": pa.array([NOON, None, NOON], pa.timestamp("us")),
    "list": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
}


def test_all_types_are_read(tmp_path: Path) -> None:
    table = pa.table(TYPES)
    write_deltalake(tmp_path / "t", table)
    assert rows_of(by_euphrates(tmp_path / "t")) == rows_of(table)


def test_a_version_and_a_time_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"n": [1]}))
    time.sleep(0.01)
    between = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.01)
    write_deltalake(path, pa.table({"n": [2]}), mode="append")
    write_deltalake(path, pa.table({"n": [3]}), mode="overwrite")
    assert by_euphrates(path).to_pydict() == {"n": [3]}
    for version, expected in enumerate([[1], [1, 2], [3]]):
        assert sorted(by_euphrates(path, version=version)["n"].to_pylist()) == expected
    for moment in (between, between.isoformat()):
        assert by_euphrates(path, timestamp=moment).to_pydict() == {"n": [1]}
    with pytest.raises(eu.UsageError, match="no version 9"):
        eu.scan_delta(path, version=9)
    with pytest.raises(eu.UsageError, match="both"):
        eu.scan_delta(path, version=1, timestamp=between)
    with pytest.raises(eu.UsageError, match="no time"):
        eu.scan_delta(path, timestamp="yesterday")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "text",
            ["Ur", "a/b", "x=y", "50%", "%41", "é–ß", " ", "it's", '"', "a:b*?", "{[]}^", None],
        ),
        ("digits", ["1", "2", "30", None]),
        ("zeros", ["01", "2"]),
        ("dates as texts", ["2024-01-31", "2024-02-01"]),
        ("long", [1, -2, None]),
        ("flag", [True, False, None]),
        ("day", [DAY, DAY + datetime.timedelta(1), None]),
        ("nulls", pa.array([None, None], pa.string())),
        ("ints of nulls", pa.array([None, None], pa.int64())),
    ],
)
def test_values_of_partitions_are_columns(tmp_path: Path, name: str, values: Any) -> None:
    table = pa.table({"n": range(len(values)), "p": values})
    write_deltalake(tmp_path / "t", table, partition_by=["p"])
    found = by_euphrates(tmp_path / "t")
    assert rows_of(found) == rows_of(table) == rows_of(by_deltalake(tmp_path / "t"))
    assert found.schema.field("p").type == table.schema.field("p").type


def test_an_empty_text_as_a_partition_is_null(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"n": [1, 2], "p": ["", "x"]}), partition_by=["p"])
    assert sorted(by_euphrates(tmp_path / "t")["p"].to_pylist(), key=str) == [None, "x"]


def test_a_filter_leaves_out_files_and_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pa.table({"p": ["a", "b", "c"], "n": [1, 2, 3]})
    write_deltalake(path, table, partition_by=["p"])
    query = eu.scan_delta(path).filter("p = 'b'")
    assert "skipped 2 of 3 files" in str(query.explain())
    assert query.to_pydict() == {"n": [2], "p": ["b"]}
    assert "row groups by n > 2" in str(eu.scan_delta(path).filter("n > 2").explain())


def test_filters_leave_out_files_by_partitions_of_any_type(tmp_path: Path) -> None:
    for name, values, condition in [
        ("texts like days", ["2024-01-31", "2024-02-01", "x"], "p = '2024-02-01'"),
        ("texts like numbers", ["1", "2", "30"], "p = '2'"),
        ("short", pa.array([1, 2, 3], pa.int16()), "p = 2"),
        ("flag", [True, True, False], "not p"),
        ("day", [DAY, DAY + datetime.timedelta(1), None], f"p > date '{DAY}'"),
    ]:
        table = pa.table({"n": [1, 2, 3], "p": values})
        write_deltalake(tmp_path / name, table, partition_by=["p"])
        query = eu.scan_delta(tmp_path / name).filter(condition)
        assert "skipped" in str(query.explain()), name
        assert query.collect().num_rows == 1, name


def test_a_folder_like_a_partition_above_the_table_is_no_column(tmp_path: Path) -> None:
    path = tmp_path / "env=prod" / "t"
    write_deltalake(path, SALES)
    assert by_euphrates(path).column_names == ["city", "n"]
    write_deltalake(path.parent / "u", SALES, partition_by=["city"])
    assert sorted(by_euphrates(path.parent / "u").column_names) == ["city", "n"]
    assert rows_of(by_euphrates(path.parent / "u")) == rows_of(SALES)


def test_columns_that_files_lack_are_null(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"a": [1]}))
    write_deltalake(path, pa.table({"b": ["x"]}), mode="append", schema_mode="merge")
    assert rows_of(by_euphrates(path)) == rows_of(by_deltalake(path))
    kinds = ["long", "string", "boolean", "date", "timestamp", "double"]
    added = [Field(f"c_{kind}", PrimitiveType(kind)) for kind in kinds]
    DeltaTable(path).alter.add_columns(added)
    assert rows_of(by_euphrates(path)) == rows_of(by_deltalake(path))
    assert by_euphrates(path).schema.names == ["a", "b", *(field.name for field in added)]


def test_files_of_narrower_types_are_widened(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"n": [2**40], "x": [0.5]}))
    narrow = pa.table({"n": pa.array([1], pa.int32()), "x": pa.array([1.5], pa.float32())})
    pq.write_table(narrow, path / "narrow.parquet")
    add = {"path": "narrow.parquet", "partitionValues": {}, "size": 1, "modificationTime": 2**50}
    commit_by_hand(path, {"add": {**add, "dataChange": True}})
    found = by_euphrates(path)
    assert found.schema.types == [pa.int64(), pa.float64()]
    assert rows_of(found) == rows_of(pa.table({"n": [2**40, 1], "x": [0.5, 1.5]}))


def test_a_table_without_files_has_its_columns(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SALES.schema)
    found = by_euphrates(tmp_path / "t")
    assert (found.num_rows, found.column_names) == (0, ["city", "n"])


def test_queries_read_tables_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_deltalake("sales", SALES)
    total = {"n": [10]}
    assert eu.sql("select sum(n) as n from 'delta://sales'").to_pydict() == total
    assert eu.sql("select sum(n) as n from 'sales'").to_pydict() == total
    assert eu.sql(f"select sum(n) as n from '{tmp_path}/sales'").to_pydict() == total
    assert eu.sql("select sum(n) as n from t", t=eu.scan_delta("sales")).to_pydict() == total
    assert eu.sql("select sum(n) as n from t", t="sales").to_pydict() == total
    assert eu.query("sales").group_by().agg(n="sum(n)").to_pydict() == total
    joined = eu.query({"city": ["Ur"]}).join("delta://sales", "city")
    assert sorted(joined.to_pydict()["n"]) == [1, 3]
    expected = duckdb.sql(f"select sum(n) from read_parquet('{tmp_path}/sales/*.parquet')")
    assert expected.fetchall() == [(10,)]


def test_features_that_a_list_of_files_cannot_tell_are_refused(tmp_path: Path) -> None:
    mapped = tmp_path / "mapped"
    mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}
    column = long_column("n", metadata=mapping)
    options = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    commit_by_hand(mapped, protocol(["columnMapping"], []), metadata([column], **options))
    with pytest.raises(eu.UsageError, match="column mapping"):
        eu.scan_delta(mapped)
    unknown = tmp_path / "unknown"
    commit_by_hand(unknown, protocol(["teleportation"], []), metadata([long_column("n")]))
    with pytest.raises(eu.EuphratesError, match="teleportation"):
        eu.scan_delta(unknown)


def test_a_file_outside_the_folders_of_its_partition_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, SALES, partition_by=["city"])
    pq.write_table(pa.table({"n": [9]}), path / "flat.parquet")
    add = {"path": "flat.parquet", "partitionValues": {"city": "Ur"}, "size": 1}
    commit_by_hand(path, {"add": {**add, "modificationTime": 1, "dataChange": True}})
    with pytest.raises(eu.UsageError, match="in no folder of its partition"):
        eu.scan_delta(path)


def test_damage_is_named(tmp_path: Path) -> None:
    with pytest.raises(eu.UsageError, match="no Delta table"):
        eu.scan_delta(tmp_path / "none")
    path = tmp_path / "t"
    write_deltalake(path, SALES)
    log = path / "_delta_log" / f"{0:020}.json"
    whole = log.read_text()
    log.write_text(whole[: len(whole) // 2])
    with pytest.raises(eu.CorruptError, match="log"):
        eu.scan_delta(path)
    log.write_text(whole)
    query = eu.scan_delta(path)
    next(path.glob("*.parquet")).unlink()
    with pytest.raises(eu.EuphratesError, match="parquet"):
        query.collect()


@pytest.mark.filterwarnings("ignore")
def test_ten_thousand_files_are_planned_from_the_log(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"n": [0]}))
    pq.write_table(pa.table({"n": [1]}), path / "one.parquet")
    size = (path / "one.parquet").stat().st_size
    actions = []
    for number in range(10_000):
        (path / f"{number}.parquet").hardlink_to(path / "one.parquet")
        add = {"path": f"{number}.parquet", "partitionValues": {}, "size": size}
        actions.append({"add": {**add, "modificationTime": 1, "dataChange": True}})
    commit_by_hand(path, *actions)
    assert eu.scan_delta(path).group_by().agg(n="sum(n)").to_pydict() == {"n": [10_000]}
