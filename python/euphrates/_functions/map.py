"""The function `map`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike
    from typing import Any
    from .._config import Var
    from ..modules import SchemaLike


@configures("map")
def map(
    function: Callable[..., Any] | str | Var,
    *,
    schema: SchemaLike | Var | None = None,
    arguments: Mapping[str, Any] | None | Var = None,
    args: Sequence[Any] | None | Var = None,
    kwargs: Mapping[str, Any] | None | Var = None,
    rows_per_call: int | None | Var = None,
    concurrency: int | None | Var = None,
    on_error: str | PathLike[str] | None | Var = None,
    errors_max: int | None | Var = None,
    rejects: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Gives every batch to a Python function, and sends on what it returns.

    The function gets a `Batch` of about 1 MiB, which pyarrow, Polars, pandas and DuckDB
    understand (`batch.to_polars()`, …), and returns anything that speaks Arrow, or with
    `schema` a dict of columns or a list of dicts, with any number of rows; or `None` to send
    nothing. Several instances call it at the same time from different threads; Python runs one
    of them at a time, except inside libraries that release the GIL, as those four do. Behind a
    `partition`, the function gets a whole partition at a time. Without `schema`, the function
    is called once with an empty batch when the flow is checked, and what it returns says what
    the columns are. When it raises, it is called again with parts of that batch, for two
    seconds at most, to name the first row at which it does. A class with `__call__` is
    constructed once for each instance, with `args` and `kwargs`. What an `async` function
    awaits overlaps among the parts of a batch; a generator returns several results.

    Options:

    function
        The function, or where it can be imported from: `package.module:name`.
    schema
        The columns it returns: a schema, or types by name like `{"id": "int64"}`. Inferred from
        an empty batch if absent.
    arguments
        More arguments for every call, by name.
    args
        Of a class: arguments of its constructor, by position.
    kwargs
        Of a class: arguments of its constructor, by name.
    rows_per_call
        The most rows of a call; a batch if absent.
    concurrency
        Of an `async` function: the most calls that an instance awaits at a time; 16 if absent.
    on_error
        `skip` leaves out rows at which the function raises: it is called again with ever
        smaller parts of the batch, down to single rows. `fail`, which ends the flow, if absent.
    errors_max
        The most rows that are left out, by all instances together, before the flow fails after
        all; any number if absent.
    rejects
        A file for rows that are left out, which is replaced, or a folder that ends with `/`,
        which grows: the columns of the input, and the `reason`. It appears with the other
        outputs of the flow.

    Example:

    >>> def doubled(batch):
    ...     return batch.to_polars() * 2
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=3), eu.map(doubled), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [0, 2, 4]}
    """
