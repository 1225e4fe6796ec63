"""The methods of a query that write tables of Delta Lake and Iceberg."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Any, Literal

    from ..flow import Flow
    from ..report import Report


class LakeSinks:
    """The methods of a query that write lake tables."""

    if TYPE_CHECKING:
        _flow: Flow

    def save_delta(
        self,
        path: str | PathLike[str],
        *,
        mode: Literal["error", "append", "overwrite"] = "error",
        partition_by: str | Sequence[str] | None = None,
        schema_mode: Literal["merge", "overwrite"] | None = None,
        configuration: Mapping[str, str] | None = None,
        file_bytes: int | str | None = None,
        compression: str | None = None,
        row_group_bytes: int | None = None,
        partitions_max: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Report:
        """Runs the flow, and writes its rows to a Delta table in one commit. Needs
        `pip install 'euphrates[delta]'`.

        `mode` says what becomes of a table that is there. `schema_mode="merge"` adds columns that
        the table lacks; `"overwrite"` replaces its columns, with `mode="overwrite"`. If another
        program changes the table meanwhile, an `append` still succeeds unless the changes
        contradict, and an `overwrite` is a `ConflictError`. `configuration` are properties of a new
        table. On an object store, a commit has one file, and `storage_options` are those of `scan`.
        The others are options of `save_dataset`, and of `Flow.go`.

        >>> sales = eu.query({"city": ["Ur", "Kish"], "n": [1, 2]})
        >>> _ = sales.save_delta("sales", partition_by=["city"])
        >>> _ = sales.save_delta("sales", mode="append")
        >>> eu.scan_delta("sales").filter("city = 'Ur'").select("n").to_pydict()
        {'n': [1, 1]}
        """
        from .delta_commit import Writing

        layout = {
            "file_bytes": file_bytes,
            "compression": compression,
            "row_group_bytes": row_group_bytes,
            "partitions_max": partitions_max,
        }
        by = [partition_by] if isinstance(partition_by, str) else partition_by
        writing = Writing(path, mode, schema_mode, by, configuration or {}, storage_options)
        return writing.run(self._flow, layout, options)

    def save_iceberg(
        self,
        table: Any,
        *,
        catalog: Any = None,
        mode: Literal["append", "overwrite"] = "append",
        file_bytes: int | str | None = None,
        compression: str | None = None,
        row_group_bytes: int | None = None,
        **options: Any,
    ) -> Report:
        """Runs the flow, and writes its rows to an Iceberg table in one commit. Needs
        `pip install 'euphrates[iceberg]'`.

        `table` is a table of pyiceberg, or a name like `"shop.sales"` in `catalog`: a catalog of
        pyiceberg, the name of a configured one, or its properties. A named table that is missing is
        made. The other options are those of `save_delta`.

        >>> catalog = {"type": "sql", "uri": "sqlite:///ice.db", "warehouse": "ice"}
        >>> _ = eu.query({"n": [1, 2]}).save_iceberg("shop.sales", catalog=catalog)
        >>> eu.scan_iceberg("shop.sales", catalog=catalog).to_pydict()
        {'n': [1, 2]}
        """
        from .iceberg_commit import write

        layout = {
            "file_bytes": file_bytes,
            "compression": compression,
            "row_group_bytes": row_group_bytes,
        }
        return write(self._flow, (table, catalog), mode, layout, options)
