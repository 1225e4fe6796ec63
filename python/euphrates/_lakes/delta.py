"""Scans of Delta tables: the log lists the files, and the module `scan` reads them."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from .._other_names.answers import answering
from ..errors import CorruptError, UsageError
from ..flow import Flow
from ..modules import ModuleCall
from ..queries import Query
from .columns import cast, quoted, reads_as, words
from .deletion_vectors import Undeleted, vectors_of
from .delta_log import check_readable, location, opened
from .staged_files import values_of


@answering
def scan_delta(
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: str | datetime.datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Query:
    """A query of the rows of a Delta table, as it is now, or as it was at a version or a time.
    Needs `pip install 'euphrates[delta]'`.

    The files are taken from the log when this is called. Columns of partitions come last, and
    filters on them leave out files. `storage_options` are those of `scan`.

    >>> _ = eu.query({"n": [1]}).save_delta("numbers")
    >>> _ = eu.query({"n": [2]}).save_delta("numbers", mode="append")
    >>> eu.scan_delta("numbers").sort("n").to_pydict()
    {'n': [1, 2]}
    >>> eu.scan_delta("numbers", version=0).to_pydict()
    {'n': [1]}
    """
    place = location(path)
    table = opened(path, version, timestamp, storage_options)
    return rows_of(table, place, storage_options)


def rows_of(table: Any, place: str, storage: Mapping[str, str] | None = None) -> Query:
    """The rows of an opened table."""
    import pyarrow as pa

    check_readable(table, place)
    schema = pa.schema(table.schema())
    by = list(table.metadata().partition_columns)
    files = active_files(table)
    if not files:
        return _without_rows(schema)
    _check_folders(files, by, place)
    vectors = vectors_of(table, place)
    plain, changed = [], []
    for file in files:
        path = _path(place, file["path"])
        if path in vectors:
            changed.append((path, vectors[path], {name: file[f"partition.{name}"] for name in by}))
        else:
            plain.append(path)
    if len(changed) != len(vectors):
        raise CorruptError(
            "the deletion vectors are of files that the table does not have", place=place
        )
    parts = [_Scan(place, schema, plain, by, storage).query()] if plain else []
    if changed:
        flow = Flow("query")
        flow.place(Undeleted(schema, changed, storage))
        parts.append(Query(flow))
    return parts[0] if len(parts) == 1 else parts[0].union(parts[1])


def active_files(table: Any) -> list[dict[str, Any]]:
    """The add actions of the table's files, the newest first."""
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True))
    wanted = ("path", "size_bytes", "modification_time")
    kept = [name for name in actions.column_names if name in wanted or "partition." in name]
    files: list[dict[str, Any]] = actions.select(kept).to_pylist()
    return sorted(files, key=lambda file: (-file["modification_time"], file["path"]))


def _path(place: str, path: str) -> str:
    """The path or address of a file of the log, where paths are written like those of URLs."""
    text = unquote(path)
    if "://" in path or text.startswith("/"):
        return text.removeprefix("file://")
    return f"{place.rstrip('/')}/{text}"


def _check_folders(files: list[dict[str, Any]], by: list[str], place: str) -> None:
    """Fails if the values of a file's partition are not those in the names of its folders, from
    which the scan takes them.
    """
    for file in files:
        found = values_of(unquote(file["path"]))
        declared = {name: file[f"partition.{name}"] for name in by}
        differs = any(
            (found.get(name) is None) != (value is None)
            or (
                isinstance(value, str | int) and found[name] not in (str(value), str(value).lower())
            )
            for name, value in declared.items()
        )
        if differs or set(found) != set(by):
            raise UsageError(
                f"{unquote(file['path'])} is in no folder of its partition {declared}, which is not"
                " supported",
                place=place,
                remedy="use the engine that made the table",
            )


def _without_rows(schema: Any) -> Query:
    """No rows, in a form that workers and documents can have."""
    flow = Flow("query")
    flow.place(ModuleCall("generate", {"what": "integers", "rows": 0}))
    columns = [f"{cast('null', one.type, one.name)} as {quoted(one.name)}" for one in schema]
    return Query(flow)._then("project", {"columns": columns})


class _Scan:
    """The files of a table, and the rows and columns that a scan reads of them."""

    def __init__(
        self,
        place: str,
        schema: Any,
        paths: list[str],
        partitions: list[str],
        storage: Mapping[str, str] | None,
    ) -> None:
        self._place = place
        self._storage = storage
        self._schema = schema
        self._paths = paths
        self._partitions = partitions
        self._empty = {name for name in partitions if any(f"/{name}=/" in path for path in paths)}

    def query(self) -> Query:
        """The scan; behind it a projection, only where the files have other types than the table,
        since a filter behind one does not reach the scan.
        """
        import pyarrow as pa

        # If one file has all columns in their types, no other needs to be opened to know them.
        newest = pa.schema(self._scan(self._paths[:1], None).schema)
        if self._is_whole(newest):
            query = self._scan(self._paths, False)
            types = {field.name: field.type for field in newest}
        else:
            query = self._scan(self._paths, True)
            types = {field.name: field.type for field in pa.schema(query.schema)}
        types.update(self._partition_types())
        return self._declared(query, types)

    def _scan(self, paths: list[str], union_by_name: bool | None) -> Query:
        config: dict[str, Any] = {"path": paths, "format": "parquet"}
        config["hive"] = bool(self._partitions)
        if self._partitions:
            config["hive_types"] = {
                name: words(kind, self._place) for name, kind in self._partition_types().items()
            }
        if union_by_name is not None:
            config["union_by_name"] = union_by_name
        if self._storage:
            config["storage_options"] = dict(self._storage)
        flow = Flow("query")
        flow.place(ModuleCall("scan", config))
        return Query(flow)

    def _partition_types(self) -> dict[str, Any]:
        """The types of the columns that names of folders hold. Empty names mean null, so they are
        read as texts first.
        """
        import pyarrow as pa

        return {
            name: pa.string() if name in self._empty else self._schema.field(name).type
            for name in self._partitions
        }

    def _is_whole(self, found: Any) -> bool:
        names = set(found.names)
        return all(
            field.name in self._partitions
            or (field.name in names and reads_as(found.field(field.name).type, field.type))
            for field in self._schema
        )

    def _declared(self, query: Query, types: dict[str, Any]) -> Query:
        """The query with the columns of the table."""
        columns = [self._column(field, types) for field in self._schema]
        own = [field.name for field in self._schema]
        others = set(types) - set(own)
        folders = values_of(self._paths[0]) if self._partitions else {}
        if columns == [quoted(name) for name in own] and not others | (set(folders) - set(own)):
            return query
        return query._then("project", {"columns": columns})

    def _column(self, field: Any, types: dict[str, Any]) -> str:
        name, place = quoted(field.name), f"{self._place}: column {field.name}"
        found = types.get(field.name)
        if found is None:
            return f"{cast('null', field.type, place)} as {name}"
        if field.name in self._empty:
            without_empty = f"nullif({name}, '')"
            return f"{cast(without_empty, field.type, place)} as {name}"
        if reads_as(found, field.type):
            return name
        return f"{cast(name, field.type, place)} as {name}"
