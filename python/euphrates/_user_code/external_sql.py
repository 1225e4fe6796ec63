"""`eu.external_sql`: a query in DuckDB or Polars over the input."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
from collections.abc import Iterator, Sequence
from typing import Any

from .._euphrates import Batch, Ports, Schema, table
from ..errors import UsageError
from .module import Module

ENGINES = ("duckdb", "polars")


class Sql(Module):
    """The implementation of the module `external_sql`."""

    def __init__(
        self,
        query: str,
        per_batch: bool = False,
        engine: str | None = None,
        inputs: Sequence[str] | None = None,
    ) -> None:
        self.query = query
        self.per_batch = per_batch
        self.engine = chosen(engine)
        self.inputs = list(inputs or ["input"])
        self.order = "keeps" if per_batch else "any"
        self.parallel = per_batch
        if per_batch and len(self.inputs) != 1:
            raise UsageError("`per_batch` is for one input", remedy="leave one of them out")

    def schemas(self, inputs: list[Schema]) -> Any:
        empty = {name: table([], schema) for name, schema in zip(self.inputs, inputs, strict=True)}
        if self.engine == "polars":
            return [polars_query(empty, self.query)]
        connection = connect(threads=1)
        for name, rows in empty.items():
            connection.register(name, rows)
        return [connection.sql(self.query)]

    def run(self, ports: Ports) -> None:
        if self.engine == "polars":
            self._polars(ports)
            return
        # A query per batch runs in one instance per core.
        connection = (
            connect(threads=1) if self.per_batch else connect(ports.memory_bytes, ports.scratch)
        )
        ports.on_stop(connection.interrupt)
        with contextlib.closing(connection):
            (self._duckdb_each if self.per_batch else self._duckdb)(connection, ports)

    def _duckdb_each(self, connection: Any, ports: Ports) -> None:
        for batch in ports:
            connection.register(self.inputs[0], batch)
            ports.put(connection.sql(self.query))
            connection.unregister(self.inputs[0])

    def _polars(self, ports: Ports) -> None:
        if self.per_batch:
            for batch in ports:
                ports.put(polars_query({self.inputs[0]: batch}, self.query))
            return
        batches: dict[str, list[Batch]] = {name: [] for name in self.inputs}
        for name, batch in each(ports, self.inputs):
            batches[name].append(batch)
        tables = {name: table(batches[name], ports.schema(name)) for name in self.inputs}
        ports.put(polars_query(tables, self.query))

    def _duckdb(self, connection: Any, ports: Ports) -> None:
        for name in self.inputs:
            connection.register("_empty", table([], ports.schema(name)))
            connection.execute(f"create table {quoted(name)} as select * from _empty")
            connection.unregister("_empty")
        if len(self.inputs) == 1 and scans(connection, self.query) <= 1:
            connection.execute(f"drop table {quoted(self.inputs[0])}")
            connection.register(self.inputs[0], ports.stream())
        else:
            # An input that is read twice, or beside another one, must be materialised first.
            for name, batch in each(ports, self.inputs):
                connection.register("_batch", batch)
                connection.execute(f"insert into {quoted(name)} select * from _batch")
                connection.unregister("_batch")
        ports.put(connection.sql(self.query))


def chosen(engine: str | None) -> str:
    """The query engine to use."""
    known = ENGINES if engine is None else (engine,)
    if engine is not None and engine not in ENGINES:
        raise UsageError(f"no engine is called `{engine}`", remedy="engines: duckdb, polars")
    for name in known:
        if importlib.util.find_spec(name) is not None:
            return name
    raise UsageError(f"{' or '.join(known)} is not installed", remedy=f"pip install {known[0]}")


def connect(memory_bytes: int = 0, scratch: Sequence[str] = (), threads: int | None = None) -> Any:
    """An in-memory DuckDB database."""
    connection = importlib.import_module("duckdb").connect()
    # Rows have no order unless the query orders them, so DuckDB need not preserve one.
    connection.execute("set preserve_insertion_order = false")
    connection.execute("set enable_progress_bar = false")
    if threads is not None:
        connection.execute(f"set threads = {threads}")
    if memory_bytes:
        connection.execute(f"set memory_limit = '{max(memory_bytes, 64 << 20)}B'")
    if scratch:
        folder = f"{scratch[0]}/duckdb".replace("'", "''")
        connection.execute(f"set temp_directory = '{folder}'")
    return connection


def scans(connection: Any, query: str) -> int:
    """How often the query's plan scans a table."""
    rows = connection.sql(f"explain (format json) {query}").fetchall()
    try:
        plans = [json.loads(row[-1]) for row in rows]
    except ValueError:
        return 2

    def count(plan: Any) -> int:
        if isinstance(plan, list):
            return sum(map(count, plan))
        here = "SCAN" in str(plan.get("name", "")).upper()
        return int(here) + count(plan.get("children", []))

    return count(plans)


def each(ports: Ports, inputs: Sequence[str]) -> Iterator[tuple[str, Batch]]:
    """The batches of several inputs, in order of arrival."""
    left = list(inputs)
    while left:
        name = ports.select(left) or left[0]
        batch = ports.get(name)
        if batch is None:
            left.remove(name)
        else:
            yield name, batch


def polars_query(tables: dict[str, Any], query: str) -> Any:
    """The Polars query over tables."""
    polars = importlib.import_module("polars")
    frames = {name: polars.DataFrame(one) for name, one in tables.items()}
    return polars.SQLContext(frames).execute(query, eager=True)


def quoted(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'
