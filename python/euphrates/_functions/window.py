"""The function `window`. Derived from the modules by `make derive`; not to be edited."""

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


@configures("window", lists=["partition_by", "order_by"])
def window(
    partition_by: Sequence[str | PathLike[str]] | Var,
    values: Mapping[str, str | PathLike[str]] | Var,
    *,
    order_by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var = [],
) -> ModuleCall:
    """Computes values of each row from other rows of its partition: ranks, running sums.

    `values` says what: `{"rank": "rank()", "so_far": "sum(price)"}`. There are `row_number`,
    `rank`, `dense_rank`, `percent_rank`, `cume_dist`, `ntile(n)`, `lag(x, n, default)`, `lead`,
    `first_value`, `last_value`, `nth_value(x, n)`, and all functions of `aggregate`, as
    `median(x)` or `count(distinct x)`. These see the rows of the partition up to the current
    one and those that are equal to it in order, or all if there is no `order_by`; `over (rows
    between 6 preceding and current row)` says otherwise, with `rows`, `range` or `groups`.
    `ignore nulls` passes over nulls. The rows come out sorted by partition and order. A
    `partition` is placed before it; the rows of one partition must fit the memory.

    Options:

    partition_by
        The columns whose values make a partition.
    order_by
        The order within a partition, as for `sort`.
    values
        Names, and what stands under each: a function, with a frame if it is not the usual one.

    Example:

    >>> rows = {"city": ["Ur", "Ur", "Uruk"], "day": [2, 1, 1], "n": [5, 3, 4]}
    >>> so_far = eu.window(["city"], order_by=["day"], values={"total": "sum(n)"})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.from_arrow(rows), so_far, eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Ur', 'Uruk'], 'day': [1, 2, 1], 'n': [3, 5, 4], 'total': [3, 8, 4]}
    """
