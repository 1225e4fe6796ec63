"""The function `from_arrow`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any
    from .._config import Var
    from ..modules import SchemaLike


@configures("from_arrow", data=["data"])
def from_arrow(
    data: Any | Var,
    *,
    order: bool | Var = False,
    schema: SchemaLike | Var | None = None,
) -> ModuleCall:
    """Brings in a table: pyarrow, Polars, pandas, DuckDB, anything that speaks Arrow.

    The rows are not copied, and a stream is read only as fast as the flow takes it. A list or
    an iterator of tables is one table; a function that returns any of these is called when the
    flow is checked.

    Options:

    data
        The table, or where it can be imported from: `package.module:name`.
    order
        Keep the order of the rows: they come as a stream.
    schema
        The columns of an iterator's tables: a schema, or types by name like `{"id": "int64"}`.

    Example:

    >>> import polars
    >>> cities = polars.DataFrame({"city": ["Ur", "Uruk"]})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.from_arrow(cities, order=True), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk']}
    """
