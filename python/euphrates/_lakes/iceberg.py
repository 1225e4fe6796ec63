"""Scans of Iceberg tables: the manifests list the files, and the module `scan` reads them."""

from __future__ import annotations

from typing import Any

from .._other_names.answers import answering
from .._user_code.placed import Placed
from ..errors import UsageError
from ..flow import Flow
from ..modules import ModuleCall
from ..queries import Query
from .columns import cast, quoted, reads_as
from .delta import _without_rows
from .iceberg_table import columns_in_file, errors, loaded, local_path, names_are_ids


@answering
def scan_iceberg(
    table: Any,
    *,
    catalog: Any = None,
    snapshot_id: int | None = None,
    row_filter: str | None = None,
) -> Query:
    """A query of the rows of an Iceberg table, as it is now or in a snapshot. Needs
    `pip install 'euphrates[iceberg]'`.

    `table` is a table of pyiceberg, the path of a metadata file, or a name like `"shop.sales"` in
    `catalog`: a catalog of pyiceberg, the name of a configured one, or its properties.
    `row_filter` is a condition by which manifests leave out files; rows are filtered by it, too.

    >>> catalog = {"type": "sql", "uri": "sqlite:///scanned.db", "warehouse": "scanned"}
    >>> _ = eu.query({"n": [1, 2, 3]}).save_iceberg("shop.n", catalog=catalog)
    >>> eu.scan_iceberg("shop.n", catalog=catalog, row_filter="n > 1").to_pydict()
    {'n': [2, 3]}
    """
    known = loaded(table, catalog)
    place = ".".join(known.name())
    with errors(place):
        given = {"row_filter": row_filter} if row_filter is not None else {}
        scan = known.scan(snapshot_id=snapshot_id, **given)
        if snapshot_id is not None and known.snapshot_by_id(snapshot_id) is None:
            raise UsageError(
                f"there is no snapshot {snapshot_id}",
                place=place,
                remedy="table.snapshots() has them",
            )
        planned = _Planned(place, known, scan.projection())
        query = planned.query(list(scan.plan_files()))
    return query.filter(row_filter) if row_filter is not None else query


class _Planned:
    """A table whose files are known."""

    def __init__(self, place: str, table: Any, projection: Any) -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        self._place = place
        self._metadata = table.metadata
        self._io = table.io
        self._fields = projection.fields
        self._types = schema_to_pyarrow(projection, include_field_ids=False)
        self._by_names = names_are_ids(self._metadata)
        identity = [
            (field.source_id, spec.spec_id, at)
            for spec in self._metadata.partition_specs
            for at, field in enumerate(spec.fields)
            if str(field.transform) == "identity"
        ]
        self._identity = {(spec, source): at for source, spec, at in identity}

    def query(self, tasks: list[Any]) -> Query:
        """The rows of all files. Files whose columns have other names, or are in names of folders
        only, are scans of their own.
        """
        groups: dict[Any, list[str]] = {}
        for task in sorted(tasks, key=lambda task: task.file.file_path):
            self._check(task)
            groups.setdefault(self._columns(task), []).append(local_path(task.file.file_path))
        if not groups:
            return _without_rows(self._types)
        parts = [self._part(key, paths) for key, paths in groups.items()]
        if len(parts) == 1:
            return parts[0]
        flow = Flow("query")
        inputs = [Placed(flow, flow._embed(part._flow)) for part in parts]
        union = flow.place(ModuleCall("union", {}))
        for one in inputs:
            flow.attach(one, union)
        return Query(flow)

    def _check(self, task: Any) -> None:
        if task.delete_files:
            raise UsageError(
                "rows are deleted by delete files, which are not supported",
                place=self._place,
                remedy="compact the table (rewrite_data_files)",
            )
        kind = str(getattr(task.file.file_format, "value", task.file.file_format))
        if kind.upper() != "PARQUET":
            raise UsageError(f"files of {kind} are not supported", place=self._place)

    def _columns(self, task: Any) -> Any:
        """What distinguishes the columns of a file: their names by id, and values of its partition
        that it has not as columns. `None` if it has the table's own names.
        """
        absent = [
            source
            for (spec, source) in self._identity
            if spec == task.file.spec_id and source not in (task.file.value_counts or {})
        ]
        if self._by_names and not absent:
            return None
        import pyarrow.parquet as pq

        with self._io.new_input(task.file.file_path).open() as stream:
            schema = pq.read_schema(stream)
        names = columns_in_file(schema, self._metadata, task.file.file_path)
        values = []
        for source in absent:
            if source not in names:
                at = self._identity[task.file.spec_id, source]
                values.append((source, task.file.partition[at]))
        return tuple(sorted(names.items())), tuple(values)

    def _part(self, key: Any, paths: list[str]) -> Query:
        import pyarrow as pa

        flow = Flow("query")
        config = {"path": paths, "format": "parquet", "hive": False, "union_by_name": True}
        flow.place(ModuleCall("scan", config))
        query = Query(flow)
        found = {field.name: field.type for field in pa.schema(query.schema)}
        if key is None:
            names = {field.field_id: field.name for field in self._fields}
            values: dict[int, Any] = {}
        else:
            names, values = dict(key[0]), dict(key[1])
        columns = [
            self._column(field, names.get(field.field_id), found, values) for field in self._fields
        ]
        if columns == [quoted(name) for name in found]:
            return query
        return query._then("project", {"columns": columns})

    def _column(
        self, field: Any, stored: str | None, found: dict[str, Any], values: dict[int, Any]
    ) -> str:
        name, place = quoted(field.name), f"{self._place}: column {field.name}"
        declared = self._types.field(field.name).type
        if stored in found:
            value = quoted(stored)
            if not reads_as(found[stored], declared):
                value = cast(value, declared, place)
        elif field.field_id in values:
            value = cast(_literal(values[field.field_id]), declared, place)
        else:
            if field.initial_default is not None:
                raise UsageError(
                    "some files lack the column, and its default is not supported",
                    place=place,
                    remedy="rewrite the files",
                )
            value = cast("null", declared, place)
        return value if value == name else f"{value} as {name}"


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    return "'" + str(value).replace("'", "''") + "'"
