"""The function `external_sql`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from .._config import Var


@configures("external_sql", lists=["inputs"])
def external_sql(
    query: str | PathLike[str] | Var,
    *,
    per_batch: bool | Var = False,
    engine: str | PathLike[str] | None | Var = None,
    inputs: Sequence[str | PathLike[str]] | None | Var = None,
) -> ModuleCall:
    """Runs an SQL query over its input, with DuckDB or Polars.

    The input is a table named `input`: `eu.external_sql("select city, sum(price) from input
    group by city")`. DuckDB reads it as it flows in and keeps within this module's share of the
    memory. With `per_batch`, the query is run on every batch by itself, by several instances at
    the same time, and the order is kept: for queries that look at one row at a time. Polars
    holds the whole input in memory.

    Options:

    query
        The query; it gives one table.
    per_batch
        Run it on every batch by itself, in parallel.
    engine
        `duckdb` or `polars`; the first of them that is installed if absent.
    inputs
        Names of the inputs, each a table of the query; `input` alone if absent. Several are
        copied into tables before the query runs.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> query = "select city, max(price) as most from input group by city order by city"
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, eu.external_sql(query), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk'], 'most': [5, 3]}
    """
