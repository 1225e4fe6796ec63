"""The function `map`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any
    from .._config import Var
    from ..modules import SchemaLike


@configures("map")
def map(
    function: Callable[..., Any] | str | Var,
    *,
    schema: SchemaLike | Var | None = None,
    arguments: Mapping[str, Any] | None | Var = None,
) -> ModuleCall:
    """Gives every batch to a Python function, and sends on what it returns.

    The function gets a `Batch` of about 1 MiB, which pyarrow, Polars, pandas and DuckDB
    understand (`batch.to_polars()`, …), and returns anything that speaks Arrow, with any number
    of rows, or `None` to send nothing. Several instances call it at the same time from
    different threads; Python runs one of them at a time, except inside libraries that release
    the GIL, as those four do. Behind a `partition`, the function gets a whole partition at a
    time. Without `schema`, the function is called once with an empty batch when the flow is
    checked, and what it returns says what the columns are. When it raises, it is called again
    with parts of that batch, for two seconds at most, to name the first row at which it does.

    Options:

    function
        The function, or where it can be imported from: `package.module:name`.
    schema
        The columns it returns: a schema, or types by name like `{"id": "int64"}`. Inferred from
        an empty batch if absent.
    arguments
        More arguments for every call, by name.

    Example:

    >>> def doubled(batch):
    ...     return batch.to_polars() * 2
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=3), eu.map(doubled), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [0, 2, 4]}
    """
