"""Writes of Delta tables: the engine writes files, and one commit adds them to the log."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._user_code.placed import Placed
from ..errors import UsageError
from ..flow import Flow
from ..queries import Query, copy_of
from ..report import Report
from .columns import fitted, plain, quoted, stored_type
from .delta_log import NoTableError, check_writable, errors, library, location, opened
from .object_stores import StagedObject, resolved
from .parquet_statistics import delta_statistics, null_counts
from .staged_files import DataFile, StagedFiles

_MODES = ("error", "append", "overwrite")
_SCHEMA_MODES = (None, "merge", "overwrite")


class Writing:
    """One write of a table: what the table was before, and what becomes of it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str,
        schema_mode: str | None,
        partition_by: Sequence[str] | None,
        configuration: Mapping[str, str],
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._library = library()
        self._place = location(path)
        self._mode, self._schema_mode = _checked(mode, schema_mode)
        self._storage = storage_options
        self._table = self._existing()
        self._partition_by = list(partition_by or [])
        self._configuration = dict(configuration)
        if self._table is None:
            return
        if mode == "error":
            raise UsageError(
                "there is a Delta table already",
                place=self._place,
                remedy='mode="append" or mode="overwrite"',
            )
        check_writable(self._table, self._place, replaces=mode == "overwrite")
        by = list(self._table.metadata().partition_columns)
        if partition_by is not None and self._partition_by != by:
            raise UsageError(
                f"the table is partitioned by {by}, and not by {self._partition_by}",
                place=self._place,
                remedy="leave out `partition_by`, or write a new table",
            )
        self._partition_by = by

    def run(self, flow: Flow, layout: dict[str, Any], options: dict[str, Any]) -> Report:
        """Runs the flow, and commits its rows. If that fails, nothing is left."""
        with self.staged(flow, layout) as (complete, commit):
            report = complete.go(**options)
            commit()
        return report

    @contextlib.contextmanager
    def staged(
        self, flow: Flow, layout: dict[str, Any]
    ) -> Iterator[tuple[Flow, Callable[[], None]]]:
        """The flow with the sink that writes the files, and a function that commits them. The files
        are removed if it is left without a commit.
        """
        rows, schema = self._fitted(flow)
        files: StagedFiles | StagedObject
        if "://" in self._place:
            files = StagedObject(self._place, self._storage)
        else:
            files = StagedFiles.below(self._place)
        committed = False

        def commit() -> None:
            nonlocal committed
            placed = files.place()
            self._check_nulls(placed)
            committed = self._commit(placed, schema)

        try:
            complete = copy_of(rows)
            last = str(complete._document["modules"][-1]["id"])
            complete.chain(Placed(complete, last), files.sink(self._partition_by, layout))
            yield complete, commit
        finally:
            if not committed:
                files.remove()

    # Inside

    def _existing(self) -> Any:
        if "://" in self._place:
            with contextlib.suppress(NoTableError):
                return opened(self._place, storage_options=self._storage)
            return None
        with errors(self._place):
            if not os.path.isdir(os.path.join(self._place, "_delta_log")):
                return None
        return opened(self._place)

    def _fitted(self, flow: Flow) -> tuple[Flow, Any]:
        """The flow whose rows have the columns of the table, and the table's new schema."""
        import pyarrow as pa

        given = pa.schema(Query(flow).schema)
        place = self._place
        stored = pa.schema(
            [
                pa.field(
                    field.name,
                    stored_type(
                        field.type, f"{place}: column {field.name}", has_small_integers=True
                    ),
                )
                for field in given
            ]
        )
        if self._table is None or self._schema_mode == "overwrite":
            declared = stored
        else:
            known = pa.schema(self._table.schema())
            added = [field for field in stored if known.get_field_index(field.name) < 0]
            if added and self._schema_mode != "merge":
                raise UsageError(
                    f"the table has no column {', '.join(field.name for field in added)}",
                    place=place,
                    remedy='leave it out, or add it by schema_mode="merge"',
                )
            declared = pa.schema([*known, *added])
        self._check_partitions(declared, given)
        columns = fitted(given, declared, place)
        if columns == [quoted(name) for name in given.names]:
            return flow, declared
        return Query(flow)._then("project", {"columns": columns})._flow, declared

    def _check_partitions(self, declared: Any, given: Any) -> None:
        import pyarrow as pa

        for name in self._partition_by:
            if given.get_field_index(name) < 0:
                raise UsageError(
                    f"the rows lack `{name}`, by which the table is partitioned",
                    place=self._place,
                    remedy="compute the column",
                )
            kind = plain(declared.field(name).type)
            simple = (pa.types.is_string, pa.types.is_integer, pa.types.is_date32)
            if not any(is_one(kind) for is_one in (*simple, pa.types.is_boolean)):
                raise UsageError(
                    f"a table cannot be partitioned by a column of type {kind}",
                    place=f"{self._place}: column {name}",
                    remedy="partition by texts, integers, dates or truth values",
                )

    def _check_nulls(self, files: list[DataFile]) -> None:
        """Fails if a column that the table declares as not null has nulls."""
        if self._table is None or self._schema_mode == "overwrite":
            return
        required = [field.name for field in self._table.schema().fields if not field.nullable]
        for file in files if required else []:
            counts = {**null_counts(file.metadata)}
            counts |= {name: int(value is None) for name, value in file.partition.items()}
            for name in required:
                if counts.get(name) != 0:
                    raise UsageError(
                        f"`{name}` has nulls, and the table allows none",
                        place=self._place,
                        remedy="filter or fill them",
                    )

    def _commit(self, files: list[DataFile], schema: Any) -> bool:
        actions = [add_action(file, data_change=True) for file in files]
        declared = self._library.Schema.from_arrow(schema)
        try:
            with errors(self._place):
                if self._table is None:
                    self._create(actions, declared)
                else:
                    self._change(actions, declared)
        except BaseException:
            # A checkpoint behind the commit may have failed: then the files are in the table.
            if not self._has(files):
                raise
        return True

    def _create(self, actions: list[Any], schema: Any) -> None:
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import create_table_with_add_actions

        if self._existing() is not None:
            raise CommitFailedError
        create_table_with_add_actions(
            self._place,
            schema,
            actions,
            mode="error",
            partition_by=self._partition_by,
            configuration=self._configuration,
            storage_options=resolved(self._storage, self._place),
        )

    def _change(self, actions: list[Any], schema: Any) -> None:
        known = {field.name for field in self._table.schema().fields}
        added = [field for field in schema.fields if field.name not in known]
        if self._mode == "append" and added:
            # Readers see the new columns with nulls until the rows are there.
            self._table.alter.add_columns(added)
        if self._mode == "append":
            schema, retries = self._table.schema(), 15
        else:
            # Any other commit since the table was opened is a conflict: its rows were not seen.
            retries = 0
        self._table.create_write_transaction(
            actions,
            self._mode,
            schema,
            partition_by=self._partition_by,
            commit_properties=self._library.CommitProperties(max_commit_retries=retries),
        )

    def _has(self, files: list[DataFile]) -> bool:
        with contextlib.suppress(Exception):
            names = {os.path.basename(uri) for uri in self._existing().file_uris()}
            return bool(files) and os.path.basename(files[0].path) in names
        return False


def add_action(file: DataFile, *, data_change: bool) -> Any:
    """The action that adds a file to the log."""
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values=file.partition,
        modification_time=time.time_ns() // 1_000_000,
        data_change=data_change,
        stats=delta_statistics(file.metadata),
    )


def _checked(mode: str, schema_mode: str | None) -> tuple[str, str | None]:
    if mode not in _MODES:
        raise UsageError(f"no mode `{mode}`", remedy=f"modes: {', '.join(_MODES)}")
    if schema_mode not in _SCHEMA_MODES:
        raise UsageError(f"no schema_mode `{schema_mode}`", remedy="modes: merge, overwrite")
    if schema_mode == "overwrite" and mode != "overwrite":
        raise UsageError(
            'schema_mode="overwrite" replaces all rows', remedy='give mode="overwrite", too'
        )
    return mode, schema_mode
