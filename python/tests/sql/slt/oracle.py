"""The results of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from .records import Record, is_ordered
from .values import letter, written

# Errors of a query that is written wrongly: they are never what a matrix is after.
WRONG = (duckdb.ParserException, duckdb.CatalogException)


class RecordError(Exception):
    """DuckDB does not do what a record says."""


class Oracle:
    """A database of one file. It runs records that are not `skipif duckdb`."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})

    def results(self, query: str) -> tuple[str, list[list[str]]]:
        """The letters of the columns, and the rows."""
        table = self.connection.sql(query).to_arrow_table()
        columns = [
            [written(value, column.type) for value in column.to_pylist()]
            for column in table.columns
        ]
        letters = "".join(letter(column.type) for column in table.columns)
        return letters, [list(row) for row in zip(*columns, strict=True)]

    def fill(self, record: Record) -> None:
        """Writes a query's results, or runs a statement."""
        if not record.head or record.has_condition("skipif duckdb"):
            return
        if record.is_error:
            self._fail(record)
        elif record.is_query:
            self._fill_query(record)
        else:
            self.connection.execute(record.sql)

    def fill_all(self, records: Iterable[Record], error: str | None = None) -> list[Record]:
        """The records with their results. With `error`, queries may fail, and must say so."""
        filled = list(records)
        for record in filled:
            try:
                self.fill(record)
            except duckdb.Error as failure:
                if error is None or not record.is_query or isinstance(failure, WRONG):
                    raise RecordError(f"{record.sql}\n{failure}") from failure
                record.head = f"statement error {error}"
        return filled

    def _fill_query(self, record: Record) -> None:
        letters, rows = self.results(record.sql)
        ordered = is_ordered(record.sql) or len(rows) < 2
        record.head = f"query {letters}" + ("" if ordered else " rowsort")
        record.results = [" ".join(row) for row in (rows if ordered else sorted(rows))]

    def _fail(self, record: Record) -> None:
        try:
            self.connection.sql(record.sql).fetchall()
        except (duckdb.Error, AttributeError):
            return
        raise RecordError(f"DuckDB runs what should fail:\n{record.sql}")
