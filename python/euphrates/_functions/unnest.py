"""The function `unnest`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from .._config import Var


@configures("unnest", lists=["columns"])
def unnest(
    columns: Sequence[str | PathLike[str]] | Var,
    *,
    keep_empty: bool | Var = False,
) -> ModuleCall:
    """Makes a row of each item of a list.

    The other columns are repeated for each item. Lists of several columns are read side by
    side: where one is shorter, its items are null. A row whose lists are all empty or null
    makes no row, unless `keep_empty` gives it one, with nulls.

    Options:

    columns
        Columns of lists.
    keep_empty
        Whether a row without items makes a row, with nulls in their place.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Kish"], "low": [2, 5], "high": [3, 6]})
    >>> flow = eu.Flow()
    >>> lists = flow.chain(orders, eu.project(["city", "[low, high] as price"]))
    >>> _ = flow.chain(lists, eu.unnest(["price"]), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Ur', 'Kish', 'Kish'], 'price': [2, 3, 5, 6]}
    """
