"""The function `sort`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Any
    from .._config import Var


@configures("sort", lists=["by"])
def sort(
    by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
    *,
    stable: bool | Var = False,
) -> ModuleCall:
    """Sorts its input by one or more columns, spilling to disk what does not fit.

    Each key is a column name, `"price desc"`, `"name asc nulls first"`, or an object with
    `column`, `descending`, `nulls_first`. Nulls come last unless asked for first. Zeros of
    either sign are equal, and NaN comes behind all numbers; lists and structs are compared by
    their first difference, their nulls wherever the column's own would come. Before a `limit`,
    only as many records are kept. The output is a stream of runs in order: `save` and `write`
    keep it. A `partition` is placed before it unless one is there: it takes the input in, and
    the sort's instances take its partitions.

    Options:

    by
        The columns, most significant first.
    stable
        Keep the input's order among records with equal keys. The input must be a stream.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, eu.sort(["city", "price desc"]), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Ur', 'Uruk'], 'price': [5, 2, 3]}
    """
