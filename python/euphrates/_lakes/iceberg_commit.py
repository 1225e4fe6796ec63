"""Writes of Iceberg tables: the engine writes files, and one commit adds them to the table."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from .._user_code.placed import Placed
from ..errors import UsageError
from ..flow import Flow
from ..queries import Query, copy_of
from ..report import Report
from .columns import fitted, quoted, stored_type
from .iceberg_table import catalog_of, errors, library, loaded, local_path
from .parquet_statistics import null_counts
from .staged_files import DataFile, StagedFiles


def write(
    flow: Flow,
    target: tuple[Any, Any],
    mode: str,
    layout: dict[str, Any],
    options: dict[str, Any],
) -> Report:
    """Runs the flow, and commits its rows to a table."""
    if mode not in ("append", "overwrite"):
        raise UsageError(f"no mode `{mode}`", remedy="modes: append, overwrite")
    library()
    table = _table(flow, *target)
    place = ".".join(table.name())
    _check(table, place)
    rows, columns = _fitted(flow, table, place), _partition_columns(table, place)
    folder = os.path.join(local_path(table.location()), "data")
    if "://" in folder:
        raise UsageError(
            "tables on object stores cannot be written yet",
            place=place,
            remedy="write to a file system that all workers share",
        )
    files, committed = StagedFiles.below(folder), False
    try:
        last = Placed(rows, str(rows._document["modules"][-1]["id"]))
        last = _with_copies(rows, last, table, columns)
        rows.chain(last, files.sink([_copy_name(name) for name in columns], layout))
        report = rows.go(**options)
        placed = files.place()
        _check_nulls(placed, table, place)
        with errors(place):
            _commit(table, folder, placed, mode)
        committed = True
    finally:
        if not committed and not _has(table, files):
            files.remove()
    return report


def _table(flow: Flow, table: Any, catalog: Any) -> Any:
    """The table; it is created if the catalog has none."""
    if not isinstance(table, str) or catalog is None:
        return loaded(table, catalog)
    known = catalog_of(catalog)
    with errors(table):
        if known.table_exists(table):
            return known.load_table(table)
        import pyarrow as pa

        given = pa.schema(Query(flow).schema)
        fields = [
            pa.field(
                field.name,
                stored_type(field.type, f"{table}: column {field.name}", has_small_integers=False),
            )
            for field in given
        ]
        known.create_namespace_if_not_exists(table.rpartition(".")[0])
        return known.create_table(table, pa.schema(fields))


def _check(table: Any, place: str) -> None:
    if table.metadata.format_version > 2:
        raise UsageError(
            f"tables of format version {table.metadata.format_version} cannot be written yet",
            place=place,
        )


def _partition_columns(table: Any, place: str) -> list[str]:
    """The columns by whose values the table is partitioned."""
    schema, names = table.schema(), []
    for field in table.spec().fields:
        if str(field.transform) != "identity":
            raise UsageError(
                f"the table is partitioned by {field.transform}(…) as `{field.name}`; only plain"
                " columns are supported",
                place=place,
                remedy="write it with the engine that made the table",
            )
        names.append(schema.find_column_name(field.source_id))
    return names


def _copy_name(name: str) -> str:
    return f"{name}_partition"


def _with_copies(flow: Flow, last: Placed, table: Any, columns: list[str]) -> Placed:
    """Copies of the columns that name folders, which the files keep, as Iceberg wants."""
    if not columns:
        return last
    copies = [f"{quoted(name)} as {quoted(_copy_name(name))}" for name in columns]
    from ..modules import ModuleCall

    return flow.chain(last, ModuleCall("project", {"columns": ["*", *copies]}))


def _fitted(flow: Flow, table: Any, place: str) -> Flow:
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    given = pa.schema(Query(flow).schema)
    declared = schema_to_pyarrow(table.schema(), include_field_ids=False)
    added = [name for name in given.names if declared.get_field_index(name) < 0]
    if added:
        raise UsageError(
            f"the table has no column {', '.join(added)}",
            place=place,
            remedy="leave it out, or add it with table.update_schema()",
        )
    missing = [
        field.name
        for field in table.schema().fields
        if field.required and given.get_field_index(field.name) < 0
    ]
    if missing:
        raise UsageError(
            f"the rows lack {', '.join(missing)}, which the table requires",
            place=place,
            remedy="compute the columns",
        )
    columns = fitted(given, declared, place, has_small_integers=False)
    if columns == [quoted(name) for name in given.names]:
        return copy_of(flow)
    return copy_of(Query(flow)._then("project", {"columns": columns})._flow)


def _check_nulls(files: list[DataFile], table: Any, place: str) -> None:
    required = [field.name for field in table.schema().fields if field.required]
    for file in files if required else []:
        counts = null_counts(file.metadata)
        for name in required:
            if counts.get(name) != 0:
                raise UsageError(
                    f"`{name}` has nulls, and the table allows none",
                    place=place,
                    remedy="filter or fill them",
                )


def _commit(table: Any, folder: str, files: list[DataFile], mode: str) -> None:
    """Adds the files in one snapshot. `Table.add_files` would read their footers again, and fails
    on lists and maps, whose parts have other names in files of Arrow than in Iceberg's own.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.table import TableProperties

    added = [_data_file(table, os.path.join(folder, file.path), file) for file in files]
    with table.transaction() as transaction:
        if table.metadata.name_mapping() is None:
            # The files have no ids of columns: their names say which they are.
            mapping = table.schema().name_mapping.model_dump_json()
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        if mode == "overwrite":
            transaction.delete(AlwaysTrue())
        if added:
            with transaction.update_snapshot().fast_append() as append:
                for one in added:
                    append.append_data_file(one)


def _data_file(table: Any, path: str, file: DataFile) -> Any:
    """The entry of a file, with the statistics of its footer."""
    from pyiceberg.io import pyarrow as reading
    from pyiceberg.manifest import DataFile as Entry
    from pyiceberg.manifest import DataFileContent, FileFormat

    schema, metadata = table.schema(), table.metadata
    ids = reading.parquet_path_to_id_mapping(schema)
    for name, known in list(ids.items()):
        alias = name.replace(".list.element", ".list.item").replace(".key_value.", ".entries.")
        ids.setdefault(alias, known)
    statistics = reading.data_file_statistics_from_parquet_metadata(
        parquet_metadata=file.metadata,
        stats_columns=reading.compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=ids,
    )
    return Entry.from_args(
        content=DataFileContent.DATA,
        file_path=_address(table, path),
        file_format=FileFormat.PARQUET,
        partition=statistics.partition(metadata.spec(), schema),
        file_size_in_bytes=file.bytes,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _address(table: Any, path: str) -> str:
    """The path as the table writes its own: with `file://` or without."""
    scheme, separator, _ = table.location().partition("://")
    return f"{scheme}://{path}" if separator else path


def _has(table: Any, files: StagedFiles) -> bool:
    """Whether the table has the files, although the commit seemed to fail."""
    with contextlib.suppress(Exception):
        names = {
            os.path.basename(task.file.file_path) for task in table.refresh().scan().plan_files()
        }
        return bool(files.placed) and os.path.basename(files.placed[0].path) in names
    return False
