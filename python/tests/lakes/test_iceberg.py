"""Iceberg tables, with pyiceberg as the other reader and writer."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType, UUIDType

import euphrates as eu
from lake_cases import SALES, rows_of

pytestmark = pytest.mark.filterwarnings("ignore")

MOMENT = datetime.datetime(2024, 2, 28, 12, 0, 0, 123456)
TYPES = pa.table(
    {
        "flag": pa.array([True, None]),
        "int": pa.array([1, None], pa.int32()),
        "float": pa.array([0.5, None], pa.float32()),
        "text": pa.array(["Ur", None]),
        "bytes": pa.array([b"Ur", None]),
        "day": pa.array([MOMENT.date(), None]),
        "moment": pa.array([MOMENT, None], pa.timestamp("us")),
        "instant": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
        "money": pa.array([None, None], pa.decimal128(20, 2)),
        "list": pa.array([[1, 2], None], pa.list_(pa.int64())),
        "struct": pa.array([{"a": 1, "b": "x"}, None]),
        "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = load_catalog("test", **properties(tmp_path))
    made.create_namespace("shop")
    return made


def properties(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}


def with_rows(catalog: Catalog, table: pa.Table, name: str = "shop.sales", **options: Any) -> Any:
    made = catalog.create_table(name, table.schema, **options)
    made.append(table)
    return made


def data_files(table: Any) -> list[str]:
    folder = Path(table.location().removeprefix("file://")) / "data"
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_all_types_are_read_and_written(catalog: Catalog) -> None:
    table = with_rows(catalog, TYPES)
    found = eu.scan_iceberg(table).to_pyarrow()
    assert rows_of(found) == rows_of(TYPES)
    eu.query(TYPES).save_iceberg(table)
    assert rows_of(table.refresh().scan().to_arrow()) == rows_of(pa.concat_tables([TYPES] * 2))
    assert rows_of(eu.scan_iceberg(table).to_pyarrow()) == rows_of(pa.concat_tables([TYPES] * 2))


def test_uuids_are_read_as_text_and_filtered_by_it(catalog: Catalog) -> None:
    ids = [uuid.UUID(int=number << 100) for number in range(1, 4)]
    columns = [NestedField(1, "id", UUIDType()), NestedField(2, "n", LongType())]
    table = catalog.create_table("shop.ids", Schema(*columns))
    table.append(pa.table({"id": pa.array([one.bytes for one in ids], pa.uuid()), "n": [1, 2, 3]}))
    found = eu.scan_iceberg(table)
    assert found.sort("n").to_pydict() == {"id": [*map(str, ids)], "n": [1, 2, 3]}
    assert found.filter(f"id = '{ids[1]}'").to_pydict()["n"] == [2]
    files = data_files(table)
    with pytest.raises(eu.UsageError, match="uuid"):
        found.save_iceberg(table)
    assert data_files(table) == files


def test_a_named_table_is_made_and_read(tmp_path: Path) -> None:
    given = {"name": "test", **properties(tmp_path)}
    rows = eu.query({"n": pa.array([1, 2], pa.uint16()).to_pylist(), "city": ["Ur", "Kish"]})
    rows.save_iceberg("shop.new", catalog=given)
    rows.save_iceberg("shop.new", catalog=given)
    table = load_catalog("test", **properties(tmp_path)).load_table("shop.new")
    assert table.scan().to_arrow().num_rows == 4
    query = eu.scan_iceberg("shop.new", catalog=given, row_filter="n > 1 and city = 'Kish'")
    assert query.to_pydict() == {"n": [2, 2], "city": ["Kish", "Kish"]}
    by_metadata = eu.scan_iceberg(table.metadata_location.removeprefix("file://"))
    assert by_metadata.collect().num_rows == 4
    rows.filter("n = 1").save_iceberg(table, mode="overwrite")
    assert eu.scan_iceberg(table).to_pydict() == {"n": [1], "city": ["Ur"]}
    assert table.refresh().scan().to_arrow().to_pydict() == {"n": [1], "city": ["Ur"]}


def test_snapshots_are_read(catalog: Catalog) -> None:
    table = with_rows(catalog, SALES)
    table.append(SALES)
    first, second = (one.snapshot_id for one in table.snapshots())
    assert eu.scan_iceberg(table, snapshot_id=first).collect().num_rows == 4
    assert eu.scan_iceberg(table, snapshot_id=second).collect().num_rows == 8
    with pytest.raises(eu.UsageError, match="no snapshot"):
        eu.scan_iceberg(table, snapshot_id=1)


def test_renamed_dropped_and_added_columns_are_read_by_id(catalog: Catalog) -> None:
    table = with_rows(catalog, pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]}))
    with table.update_schema() as update:
        update.rename_column("a", "z")
        update.delete_column("b")
    with table.update_schema() as update:
        update.add_column("a", StringType())
        update.add_column("b", LongType())
    table.append(pa.table({"z": [3], "c": [2.5], "a": ["new"], "b": [7]}))
    eu.query({"z": [4], "b": [8]}).save_iceberg(table)
    expected = table.refresh().scan().to_arrow()
    found = eu.scan_iceberg(table).to_pyarrow()
    assert found.column_names == expected.column_names
    assert rows_of(found) == rows_of(expected)
    assert sorted(found["a"].to_pylist(), key=str) == [None, None, None, "new"]


def test_widened_columns_are_read(catalog: Catalog) -> None:
    table = with_rows(catalog, pa.table({"n": pa.array([1], pa.int32())}))
    with table.update_schema() as update:
        update.update_column("n", LongType())
    assert eu.scan_iceberg(table).schema.types == ["Int64"]
    table.append(pa.table({"n": [2**40]}))
    assert sorted(eu.scan_iceberg(table).to_pydict()["n"]) == [1, 2**40]


def test_renamed_fields_inside_of_a_column_are_refused(catalog: Catalog) -> None:
    table = with_rows(catalog, pa.table({"s": [{"a": 1}]}))
    with table.update_schema() as update:
        update.rename_column("s.a", "b")
    with pytest.raises(eu.UsageError, match=r"`s\.a` is called `s\.b` now"):
        eu.scan_iceberg(table)


def partitioned(catalog: Catalog, transform: Any, column: int = 1) -> Any:
    schema = Schema(
        NestedField(1, "city", StringType()),
        NestedField(2, "n", LongType()),
        NestedField(3, "s", StructType(NestedField(4, "x", LongType()))),
    )
    spec = PartitionSpec(PartitionField(column, 1000, transform, "p"))
    return catalog.create_table("shop.parts", schema, partition_spec=spec)


def test_tables_partitioned_by_columns_are_written_and_read(catalog: Catalog) -> None:
    table = partitioned(catalog, IdentityTransform())
    cities = ["Ur", None, "a/b", "it's"]
    rows = pa.table({"city": cities * 2, "n": range(8)})
    eu.query(rows).save_iceberg(table)
    found = table.refresh().scan().to_arrow().select(["city", "n"])
    assert rows_of(found) == rows_of(rows)
    assert {task.file.partition[0] for task in table.scan().plan_files()} == set(cities)
    one = table.scan(row_filter=EqualTo("city", "Ur"))
    assert len(list(one.plan_files())) == 1 and one.to_arrow().num_rows == 2
    query = eu.scan_iceberg(table, row_filter="city = 'Ur'").select("city", "n").sort("n")
    assert query.to_pydict() == {"city": ["Ur", "Ur"], "n": [0, 4]}


def test_a_column_in_names_of_folders_only_is_read(catalog: Catalog, tmp_path: Path) -> None:
    table = partitioned(catalog, IdentityTransform())
    eu.query({"city": ["Kish"], "n": [5]}).save_iceberg(table)
    (tmp_path / "city=Ur").mkdir()
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "city=Ur" / "a.parquet")
    from pyiceberg.io.pyarrow import parquet_file_to_data_file
    from pyiceberg.typedef import Record

    address = f"file://{tmp_path}/city=Ur/a.parquet"
    file = parquet_file_to_data_file(table.io, table.metadata, address)
    file._data[3] = Record("Ur")
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    found = eu.scan_iceberg(table).select("city", "n").sort("n").to_pydict()
    assert found == {"city": ["Ur", "Ur", "Kish"], "n": [1, 2, 5]}


@pytest.mark.parametrize("transform", [BucketTransform(4), DayTransform()])
def test_other_partitions_are_not_written(catalog: Catalog, transform: Any) -> None:
    if isinstance(transform, BucketTransform):
        table = partitioned(catalog, transform, column=2)
    else:
        schema = pa.schema([("t", pa.timestamp("us"))])
        table = catalog.create_table("shop.days", schema)
        with table.update_spec() as update:
            update.add_field("t", transform)
    with pytest.raises(eu.UsageError, match="partitioned by"):
        eu.query(eu.scan_iceberg(table)).save_iceberg(table)


def test_rows_that_do_not_fit_are_refused(catalog: Catalog) -> None:
    required = Schema(
        NestedField(1, "n", LongType(), required=True), NestedField(2, "m", StringType())
    )
    table = catalog.create_table("shop.required", required)
    for rows, expected in (
        ({"n": [1], "x": [1]}, "no column x"),
        ({"m": ["a"]}, "lack n"),
        ({"n": ["a"]}, "column n"),
        ({"n": [1, None]}, "`n` has nulls"),
    ):
        with pytest.raises(eu.UsageError, match=expected):
            eu.query(rows).save_iceberg(table)
    assert data_files(table) == [] if table.current_snapshot() else True
    with pytest.raises(eu.UsageError, match="no mode"):
        eu.query({"n": [1]}).save_iceberg(table, mode="replace")  # type: ignore[arg-type]
    with pytest.raises(eu.UsageError, match="no Iceberg table"):
        eu.scan_iceberg("shop.none", catalog=catalog)
    with pytest.raises(eu.UsageError, match="needs the catalog"):
        eu.scan_iceberg("shop.none")


def during(change: Callable[[], Any]) -> Any:
    done: list[bool] = []

    def passing(batch: Any) -> Any:
        if batch.num_rows and not done:
            done.append(True)
            change()
        return batch

    return passing


def test_an_append_is_added_to_another(catalog: Catalog) -> None:
    table = with_rows(catalog, pa.table({"n": [1]}))
    other = during(lambda: catalog.load_table("shop.sales").append(pa.table({"n": [2]})))
    eu.query({"n": [3]}).then(other).save_iceberg(table)
    assert sorted(table.refresh().scan().to_arrow()["n"].to_pylist()) == [1, 2, 3]


def test_the_losing_writer_leaves_nothing(catalog: Catalog) -> None:
    table = with_rows(catalog, pa.table({"n": [1]}))
    other = during(lambda: catalog.load_table("shop.sales").append(pa.table({"n": [2]})))
    with pytest.raises(eu.ConflictError, match="another program"):
        eu.query({"n": [3]}).then(other).save_iceberg(table, mode="overwrite")
    assert sorted(table.refresh().scan().to_arrow()["n"].to_pylist()) == [1, 2]
    assert len(data_files(table)) == 2


def test_a_run_that_fails_leaves_nothing(catalog: Catalog) -> None:
    table = with_rows(catalog, pa.table({"n": [1]}))

    def failing(batch: Any) -> Any:
        if batch.num_rows:
            raise RuntimeError("no more")
        return batch

    with pytest.raises(eu.FlowError, match="no more"):
        eu.query({"n": [3]}).then(failing).save_iceberg(table)
    assert len(data_files(table)) == 1
    assert len(table.refresh().snapshots()) == 1


def test_an_empty_table_has_its_columns(catalog: Catalog) -> None:
    table = catalog.create_table("shop.empty", SALES.schema)
    found = eu.scan_iceberg(table).to_pyarrow()
    assert (found.num_rows, found.column_names) == (0, ["city", "n"])


def test_workers_write_and_read_a_table(catalog: Catalog) -> None:
    rows = eu.generate("integers", rows=100_000)
    table = catalog.create_table("shop.n", pa.schema([("n", pa.int64())]))
    with eu.Cluster.processes(2) as cluster:
        rows.save_iceberg(table, cluster=cluster)
        total = eu.scan_iceberg(table).group_by().agg(n="sum(n)").to_pydict(cluster=cluster)
    assert total == {"n": [sum(range(100_000))]}
    assert table.refresh().scan().to_arrow().num_rows == 100_000
