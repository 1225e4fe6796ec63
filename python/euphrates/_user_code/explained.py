"""`explain`, `explain analyze`, `describe` and `summarize` before a query: their rows are lines of
text, or the query's columns.
"""

from __future__ import annotations

from typing import Any

from .. import _euphrates
from ..flow import Flow
from ..modules import ModuleCall
from ..queries import Query
from .query_sinks import is_written


def explained(query: Query, kind: str) -> Query:
    """What `explain` tells of a query: how it would run, or, with `analyze`, how it has run; the
    names and types of its columns, which `describe` tells; and `summarize` of its rows.

    >>> plan = eu.sql("explain select n + 1 as m from t", t={"n": [1]})
    >>> plan.to_pydict()["explain"][0]
    'flow `query`'
    >>> eu.sql("describe t", t={"n": [1]}).to_pydict()
    {'column_name': ['n'], 'column_type': ['Int64']}
    """
    if kind == "columns":
        from .query_tables import query as rows

        schema = query.schema
        return rows({"column_name": schema.names, "column_type": schema.types})
    if kind == "summary":
        return query.summarize()
    if kind == "run":
        return Analyzed(query)
    return _lines(str(_whole(query).explain()))


class Analyzed(Query):
    """The report of a query, which runs when the first of its lines is asked for.

    >>> report = eu.sql("explain analyze select n + 1 as m from t", t={"n": [1]})
    >>> report.columns
    ['explain']
    >>> report.to_pydict()["explain"][0]
    'flow `query` finished in ...
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._report: Flow | None = None
        self._options: dict[str, Any] = {}

    @property
    def _flow(self) -> Flow:  # type: ignore[override]
        if self._report is None:
            report = _whole(self._query).go(**self._options)
            self._report = _lines(str(report))._flow
        return self._report

    @property
    def schema(self) -> _euphrates.Schema:
        """The one column of text."""
        return _lines("").schema

    def collect(self, **options: Any) -> _euphrates.Table:
        """Runs the query with the options, and returns the lines of its report."""
        self._options = options
        return super().collect(**options)

    def __repr__(self) -> str:
        return f"<explain analyze {self._query!r}>"


def _whole(query: Query) -> Flow:
    """The flow with a sink: the statement's own, or one that keeps its rows."""
    return query.flow if is_written(query._flow) else query._complete(ModuleCall("collect", {}))


def _lines(text: str) -> Query:
    from .query_tables import query

    return query({"explain": text.splitlines() or [""]})
