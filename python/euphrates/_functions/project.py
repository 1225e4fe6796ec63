"""The function `project`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from .._config import Var


@configures("project", lists=["columns"])
def project(
    columns: Sequence[str | PathLike[str]] | Var,
) -> ModuleCall:
    """Chooses, computes and names columns.

    Each item is a column's name, `*`, `* exclude (a, b)`, or an SQL expression with a name:
    `l_extendedprice * (1 - l_discount) as revenue`. The columns come out in this order.
    Arithmetic that overflows, and a division by zero, fail.

    Options:

    columns
        Names of columns, `*`, and expressions like `a + b as sum`.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Kish"], "price": [2, 3], "n": [4, 1]})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, eu.project(["city", "price * n as revenue"]), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Kish'], 'revenue': [8, 3]}
    """
