"""The function `aggregate`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from .._config import Var


@configures("aggregate", lists=["by"])
def aggregate(
    by: Sequence[str | PathLike[str]] | Var,
    *,
    values: Mapping[str, str | PathLike[str]] | Var = {},
) -> ModuleCall:
    """Groups its input by columns, and computes values of each group.

    `values` says what: `{"total": "sum(price)", "rows": "count()"}`. There are `count`,
    `count(distinct ...)`, `sum`, `min`, `max`, `avg`, `variance`, `stddev`, `var_pop` and
    `stddev_pop`, of columns or SQL expressions, and expressions over them: `max(a) - min(a)`.
    Nulls are skipped, but are a group of their own among keys, as are NaN; zeros of either sign
    are one. Of no values, a count is 0 and all else null. Sums of integers are 64 bits wide, of
    decimals 38 digits, and one that is larger is an error. With no keys one row comes out. A
    `pre_aggregate` is placed before it, which groups where the records are; what does not fit
    the memory goes to scratch. The output has no order.

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
    >>> totals = eu.aggregate("city", values={"total": "sum(price)", "orders": "count()"})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, totals, eu.sort("city"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk'], 'total': [7, 3], 'orders': [2, 1]}
    """
