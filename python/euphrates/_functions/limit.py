"""The function `limit`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .._config import Var


@configures("limit")
def limit(
    rows: int | Var,
    *,
    offset: int | Var = 0,
) -> ModuleCall:
    """Passes on the first rows and ends.

    Of a stream, and of the files of a scan, these are the first rows; of anything else,
    whichever come first. What comes before it stops as soon as there are enough.

    Options:

    rows
        Number of rows to pass on.
    offset
        Number of rows to leave out before them.

    Example:

    >>> cheapest = eu.sort("price"), eu.limit(2)
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.from_arrow({"price": [5, 2, 7, 3]}), *cheapest, eu.collect())
    >>> flow.go().collected().to_pydict()
    {'price': [2, 3]}
    """
