"""The tables of queries: Python objects that are accepted as rows, and names in an SQL text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .. import _euphrates
from .._other_names.answers import answering
from ..errors import UsageError
from ..flow import Flow
from ..modules import ModuleCall
from ..queries import Query, copy_of
from .rows import are_dicts, columns_of

Rows: TypeAlias = "Query | Flow | ModuleCall | str | os.PathLike[str] | Mapping[str, Any] | Any"
"""A query, a source like `eu.scan(…)`, the path of files, `@` and the name of a collection, a dict
of columns, a list of dicts, or anything that speaks Arrow.
"""


@answering
def query(rows: Rows) -> Query:
    """A query of all rows of a file, a collection, a source module, or data of this program.

    >>> eu.query({"n": [1, 2, 3]}).filter("n > 1").to_pydict()
    {'n': [2, 3]}
    >>> eu.query(eu.generate("integers", rows=3)).to_pydict()
    {'n': [0, 1, 2]}
    """
    if isinstance(rows, Query):
        return rows
    if isinstance(rows, Flow):
        return Query(_with_open_end_last(copy_of(rows)))
    if isinstance(rows, str | os.PathLike) and (table := _lake_table(os.fspath(rows))):
        return table
    flow = Flow("query")
    flow.place(_source(rows))
    return Query(flow)


@answering
def sql(query: str, **tables: Rows) -> Query:
    """The query of an SQL text.

    `tables` are its tables by name. Other names are paths of files in quotes (`from
    'sales/*.parquet'`, `from 's3://bucket/sales.parquet'`), collections (`from "@sales"`), or
    variables of the calling function that hold queries, sources or data. A name in single quotes
    is a path if there is such a file or folder.

    >>> sales = {"city": ["Ur", "Kish", "Ur"], "price": [2, 3, 5]}
    >>> eu.sql("select city, sum(price) as paid from sales group by city order by paid").to_pydict()
    {'city': ['Kish', 'Ur'], 'paid': [3, 7]}
    """
    from .explained import explained

    if not isinstance(query, str):
        error = f"{type(query).__name__} is not a text in SQL"
        raise UsageError(error, remedy='write eu.sql("select * from rows", rows=…), or eu.query(…)')
    given = {name: _flow_of(rows) for name, rows in tables.items()}
    kind, query = _euphrates.sql_explained(query)
    for name in _euphrates.sql_tables(query):
        if name not in given and name.isidentifier():
            is_path = f"'{name}'" in query and os.path.exists(name)
            value = name if is_path else _variable(name, 3)  # behind `sql` and its arguments
            if value is not None:
                given[name] = _flow_of(value)
    rows = planned(query, tables_of(query, given))
    return rows if kind == "rows" else explained(rows, kind)


def planned(query: str, tables: Mapping[str, Flow], storage: Sequence[str] = ()) -> Query:
    """The query of an SQL text whose tables are all given: names of variables mean nothing.

    `storage` are options of the stores of paths, as the command line takes them.
    """
    documents = {name: flow._json() for name, flow in tables.items()}
    return _with_objects(_euphrates.sql(query, documents, "{}", storage), tables.values())


def tables_of(query: str, given: Mapping[str, Flow]) -> dict[str, Flow]:
    """The given tables, and those of the query that only this package can open: lake tables, and
    files of Hugging Face.
    """
    found = dict(given)
    for name in _euphrates.sql_tables(query):
        if name not in found and (not name.isidentifier() or f"'{name}'" in query):
            value = _lake_table(name) or _hub_table(name)
            if value is not None:
                found[name] = _flow_of(value)
    return found


def _with_open_end_last(flow: Flow) -> Flow:
    """The flow, whose only module without a consumer is the last: a query's rows are its output."""
    modules = flow._document["modules"]
    consumed = {queue["from"] for queue in flow._document["queues"]}
    ends = [node for node in modules if node["id"] not in consumed]
    if len(ends) == 1:
        modules.remove(ends[0])
        modules.append(ends[0])
    return flow


def _flow_of(rows: Rows) -> Flow:
    return query(rows)._flow


def _lake_table(path: str) -> Query | None:
    """The table of `delta://` and a path, or of a folder with the log of one."""
    from .._lakes.delta_paths import is_table

    if not is_table(path):
        return None
    from .._lakes.delta import scan_delta

    return scan_delta(path)


def _hub_table(path: str) -> ModuleCall | None:
    """The scan of an address of Hugging Face."""
    if not path.startswith("hf://"):
        return None
    from .._functions.scan import scan

    return scan(path)


def _source(rows: Any) -> ModuleCall:
    if isinstance(rows, ModuleCall):
        return rows
    if isinstance(rows, str | os.PathLike):
        path = os.fspath(rows)
        if path.startswith("@"):
            return ModuleCall("read", {"collection": path[1:]})
        if path.lower().startswith(("select ", "with ", "from ")) and not os.path.exists(path):
            raise UsageError(f"`{path}` is no path", remedy="write eu.sql(…) for a query in SQL")
        return _hub_table(path) or ModuleCall("scan", {"path": path})
    if are_dicts(rows):
        rows = columns_of(rows)
    is_stream = isinstance(rows, list) and rows and all(map(_speaks_arrow, rows))
    if isinstance(rows, Mapping) or _speaks_arrow(rows) or is_stream:
        from .._functions.from_arrow import from_arrow

        return from_arrow(rows)
    from .._other_names.tables import remedy_of

    what = f"eu.{rows.__name__}" if isinstance(rows, type) else type(rows).__name__
    raise UsageError(f"{what} is not a table", remedy=remedy_of(rows))


def _speaks_arrow(value: Any) -> bool:
    if isinstance(value, type) or type(value).__name__ in ("Series", "Array", "ChunkedArray"):
        return False
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")


def _variable(name: str, depth: int) -> Any:
    """A variable of the caller that holds rows."""
    import sys

    frame = sys._getframe(depth)
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    is_rows = isinstance(value, Query | ModuleCall | Mapping) or _speaks_arrow(value)
    return value if is_rows or are_dicts(value) else None


def _with_objects(document: str, flows: Iterable[Flow]) -> Query:
    import json

    flow = Flow("query")
    flow._document = json.loads(document)
    for other in flows:
        flow._held.update(other._held)
    return Query(flow)
