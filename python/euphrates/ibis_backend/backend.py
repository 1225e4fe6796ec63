"""The connection: its tables, and how it runs expressions."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import ibis
import ibis.common.exceptions as exc
import ibis.expr.operations as ops
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.dataset
from ibis.backends import DirectPyArrowExampleLoader, NoUrl, SupportsTempTables
from ibis.backends.sql import SQLBackend
from ibis.formats.pyarrow import PyArrowSchema
from ibis.util import gen_name, normalize_filenames

from .. import _euphrates
from .._functions.scan import scan
from .._user_code.query_tables import planned, query
from ..modules import ModuleCall
from ..queries import Query
from . import results
from .catalog import Catalog
from .compiler import compiler

if TYPE_CHECKING:
    from .._user_code.query_tables import Rows
    from ..explanation import Explanation
    from ..flow import Flow

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


class Backend(SupportsTempTables, SQLBackend, NoUrl, DirectPyArrowExampleLoader):
    """A connection of Ibis: expressions become SQL, and the SQL becomes a flow."""

    name = "euphrates"
    compiler = compiler
    supports_arrays = True

    @property
    def version(self) -> str:
        """The version of this package."""
        return _euphrates.__version__

    def do_connect(self, tables: Mapping[str, Rows] | None = None, **options: Any) -> None:
        """Opens a connection.

        `tables` are rows by name: queries, sources, paths, Arrow data. `options` are those of
        `Flow.start` for every flow that the connection runs: `memory`, `cores`, `cluster`.
        """
        self._options = options
        self._catalog = Catalog()
        self._in_memory: weakref.WeakValueDictionary[str, ops.InMemoryTable]
        self._in_memory = weakref.WeakValueDictionary()
        for name, rows in (tables or {}).items():
            self._catalog.put(name, rows)

    def disconnect(self) -> None:
        """Forgets all tables."""
        self._catalog = Catalog()

    @cached_property
    def db_identity(self) -> str:
        """Unlike for any other connection: the tables of two are never the same."""
        return f"{self.name}_{id(self)}"

    # Tables

    def list_tables(self, *, like: str | None = None, database: str | None = None) -> list[str]:
        """The names of tables and views; collections are not among them."""
        _no_database(database)
        names: list[str] = self._filter_with_like([*self._catalog, *self._in_memory], like)
        return names

    def get_schema(
        self, table_name: str, *, catalog: str | None = None, database: str | None = None
    ) -> sch.Schema:
        """The schema of a table, a view, or a collection like `@sales`."""
        _no_database(catalog or database)
        memtable = self._in_memory.get(table_name)
        return memtable.schema if memtable is not None else _schema(self._catalog[table_name])

    def create_table(
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: sch.IntoSchema | None = None,
        database: str | None = None,
        temp: bool = False,
        overwrite: bool = False,
    ) -> ir.Table:
        """Keeps rows in memory under a name: an expression's, which runs now, or Arrow data."""
        _no_database(database)
        if obj is None and schema is None:
            raise ValueError("Either `obj` or `schema` must be specified")
        if name in self._catalog and not overwrite:
            self._catalog.put(name, {}, replace=False)
        self._catalog.put(name, self._rows(obj, schema and ibis.schema(schema)))
        return self.table(name)

    def _rows(self, obj: Any, schema: sch.Schema | None) -> pa.Table:
        """The rows of an object, in memory."""
        if obj is None:
            assert schema is not None
            return schema.to_pyarrow().empty_table()
        if isinstance(obj, ir.Expr):
            table = self.to_pyarrow(obj.as_table())
        elif isinstance(obj, pa.dataset.Dataset):
            table = obj.to_table()
        elif isinstance(obj, Query | ModuleCall | pa.RecordBatchReader):
            table = pa.table(obj)
        else:
            held = ibis.memtable(obj).op()
            table = held.data.to_pyarrow(held.schema)
        return table if schema is None else table.cast(schema.to_pyarrow())

    def drop_table(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Forgets a table. With `force` there may be none."""
        _no_database(database)
        self._catalog.drop(name, "table", force=force)

    def create_view(
        self,
        name: str,
        /,
        obj: ir.Table,
        *,
        database: str | None = None,
        overwrite: bool = False,
    ) -> ir.Table:
        """Gives the query of an expression a name. It is a part of each query that uses the view,
        with the tables that there are now.
        """
        _no_database(database)
        self._catalog.put(name, self.query(obj), kind="view", replace=overwrite)
        return self.table(name)

    def drop_view(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Forgets a view. With `force` there may be none."""
        _no_database(database)
        self._catalog.drop(name, "view", force=force)

    def rename_table(self, old_name: str, new_name: str) -> None:
        """Gives a table or a view another name."""
        self._catalog.rename(old_name, new_name)

    def truncate_table(self, name: str, /, *, database: str | None = None) -> None:
        """Leaves a table without rows."""
        _no_database(database)
        self._catalog.put(name, self.get_schema(name).to_pyarrow().empty_table())

    def insert(
        self,
        name: str,
        /,
        obj: Any,
        *,
        database: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Adds rows to a table in memory, or replaces its rows."""
        _no_database(database)
        schema = self.get_schema(name)
        if not isinstance(obj, ir.Table | pa.Table):
            obj = ibis.memtable(obj)
        added = _fitted(self._rows(obj, None), schema.to_pyarrow())
        kept = [] if overwrite else [self.to_pyarrow(self.table(name))]
        self._catalog.put(name, pa.concat_tables([*kept, added]))

    # Files

    def read_parquet(
        self, path: Paths, /, *, table_name: str | None = None, **kwargs: Any
    ) -> ir.Table:
        """A table of Parquet files: a path, a glob, an address, or several. The options are those
        of `eu.scan`.
        """
        return self._read("parquet", path, table_name, kwargs)

    def read_csv(self, path: Paths, /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """A table of CSV files. The options are those of `eu.scan`: `delimiter`, `types`."""
        return self._read("csv", path, table_name, kwargs)

    def read_json(
        self, path: Paths, /, *, table_name: str | None = None, **kwargs: Any
    ) -> ir.Table:
        """A table of files of one JSON object a line. The options are those of `eu.scan`."""
        return self._read("json", path, table_name, kwargs)

    def _read(
        self, format: str, paths: Paths, name: str | None, options: dict[str, Any]
    ) -> ir.Table:
        name = name or gen_name(f"read_{format}")
        paths = normalize_filenames(paths)
        self._catalog.put(name, scan(paths, format=format, **options), kind="view")
        return self.table(name)

    # Running

    def query(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
    ) -> Query:
        """The query of an expression: to be looked at, run, or placed in a flow."""
        self._run_pre_execute_hooks(expr)
        return self.raw_sql(self.compile(expr.as_table(), params=params, limit=limit))

    def raw_sql(self, query: Any) -> Query:
        """The query of an SQL text over the tables of this connection."""
        with contextlib.suppress(AttributeError):
            query = query.sql(dialect=self.dialect)
        self._log(query)
        return planned(query, self._memtables_of(query) | self._catalog.flows())

    def _memtables_of(self, text: str) -> dict[str, Flow]:
        tables = {name: self._in_memory.get(name) for name in _euphrates.sql_tables(text)}
        return {
            name: query(table.data.to_pyarrow(table.schema))._flow
            for name, table in tables.items()
            if table is not None
        }

    @contextlib.contextmanager
    def _safe_raw_sql(self, query: Any) -> Iterator[Query]:
        yield self.raw_sql(query)

    def _get_schema_using_query(self, query: str) -> sch.Schema:
        return _schema(self.raw_sql(query))

    def _register_in_memory_tables(self, expr: ir.Expr) -> None:
        for table in self._verify_in_memory_tables_are_unique(expr):
            if self._in_memory.get(table.name) is not table:
                self._register_in_memory_table(table)

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        self._in_memory[op.name] = op

    def explain(self, expr: ir.Expr, /, **options: Any) -> Explanation:
        """How the flow of an expression would run, and what is pushed down to its sources."""
        return self.query(expr).explain(**options)

    def to_pyarrow_batches(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        chunk_size: int = 1_000_000,
        **kwargs: Any,
    ) -> pa.RecordBatchReader:
        """The rows while the flow runs: it waits for the reader, and is cancelled when the reader
        is dropped.
        """
        rows = self.query(expr, params=params, limit=limit)
        schema = results.exact(expr.as_table().schema(), pa.schema(rows.schema))
        return results.reader(rows.batches(**self._options | kwargs), schema, chunk_size)

    def to_pyarrow(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows as a pyarrow table; of a column an array, of a scalar a scalar."""
        reader = self.to_pyarrow_batches(expr, params=params, limit=limit, **kwargs)
        schema = results.exact(expr.as_table().schema(), reader.schema)
        return expr.__pyarrow_result__(reader.read_all(), schema=schema)

    def execute(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows as a pandas frame; of a column a series, of a scalar a value."""
        reader = self.to_pyarrow_batches(expr, params=params, limit=limit, **kwargs)
        schema = results.exact(expr.as_table().schema(), reader.schema)
        return expr.__pandas_result__(results.frame(reader.read_all(), schema), schema=schema)

    def to_parquet(
        self,
        expr: ir.Table,
        /,
        path: str | PathLike[str],
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Writes the rows to a Parquet file, or to a collection like `@sales`. The flow encodes
        them, and the file appears when it is whole; options of pyarrow's writer have that write.
        """
        self._save(expr, path, "parquet", params, kwargs)

    def to_csv(
        self,
        expr: ir.Table,
        /,
        path: str | PathLike[str],
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Writes the rows to a CSV file, as `to_parquet` does."""
        self._save(expr, path, "csv", params, kwargs)

    def _save(
        self, expr: ir.Table, path: Any, format: str, params: Any, kwargs: dict[str, Any]
    ) -> None:
        if not kwargs.keys() <= {"compression"}:
            getattr(super(), f"to_{format}")(expr, path, params=params, **kwargs)
            return
        rows = self.query(expr, params=params)
        named = None if str(path).startswith("@") else format
        rows.save(path, format=named, overwrite=True, **kwargs, **self._options)


def _schema(rows: Query) -> sch.Schema:
    return PyArrowSchema.to_ibis(pa.schema(rows.schema))


def _fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a table: by name, else by position. Columns that are missing are
    null.
    """
    if not set(rows.column_names) <= set(schema.names):
        rows = rows.rename_columns(schema.names)
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _no_database(name: Any) -> None:
    if name is not None:
        raise exc.UnsupportedOperationError(
            f"there are no databases, so none is named `{name}`\n  remedy: leave it out"
        )
