"""The function `pre_aggregate`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from .._config import Var


@configures("pre_aggregate", lists=["by"])
def pre_aggregate(
    by: Sequence[str | PathLike[str]] | Var,
    *,
    values: Mapping[str, str | PathLike[str]] | Var = {},
) -> ModuleCall:
    """Groups records where they are, and keeps what an `aggregate` makes values of.

    Its output is keyed: a consumer takes the states of all groups whose keys have some hashes,
    when it has time. Nobody needs to write it: it is placed before each `aggregate`, with the
    same `by` and `values`. Records that hardly share their keys are not grouped here, but
    passed on. What does not fit the memory goes to scratch.

    Options:

    by
        The columns whose values make a group. With none, all rows are one.
    values
        What comes out beside them: names, and what stands under each: a call of an aggregate
        function, like `count()`, `sum(price * amount)`, `count(distinct city)`,
        `median(price)`, `array_agg(city order by price desc)` or `max(price) filter (where
        amount > 1)`; or an SQL expression over calls and the columns of `by`, like `max(a) -
        min(a)`.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> totals = {"by": "city", "values": {"total": "sum(price)"}}
    >>> flow = eu.Flow()
    >>> groups = flow.chain(orders, eu.pre_aggregate(**totals), eu.aggregate(**totals))
    >>> _ = flow.chain(groups, eu.sort("city"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk'], 'total': [7, 3]}
    """
