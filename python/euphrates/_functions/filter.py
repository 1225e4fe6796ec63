"""The function `filter`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from os import PathLike
    from .._config import Var


@configures("filter")
def filter(
    where: str | PathLike[str] | Var,
) -> ModuleCall:
    """Keeps the rows for which a condition is true.

    The condition is SQL, like `l_quantity > 30 and l_shipmode in ('AIR', 'RAIL')`. A row for
    which it is null is left out. Arithmetic that overflows, and a division by zero, fail. A
    `scan` before it skips row groups without such rows, if the condition compares columns with
    literals.

    Options:

    where
        A condition in SQL.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, eu.filter("city = 'Ur' and price > 2"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur'], 'price': [5]}
    """
