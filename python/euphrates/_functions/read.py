"""The function `read`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from .._config import Var


@configures("read", lists=["columns"])
def read(
    collection: str | PathLike[str] | Var,
    *,
    columns: Sequence[str | PathLike[str]] | None | Var = None,
    order: bool | Var = False,
    mirrors: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Reads a collection.

    Each instance takes the next blocks when it has finished some, so a slow one reads fewer.
    With `order`, the records come as a stream, in the order written. Every block is compared
    with its checksum before it is used. The copies of a mirrored collection share the reading
    by the speed each disk has now (graduated declustering); a block that one copy has lost is
    read from another, and the report says so. Blocks are skipped if no row of them can pass the
    `filter`s behind it, by their statistics: minimum, maximum and number of nulls. If `columns`
    is absent, those that no module after it reads are left out, unless a sorted collection is
    read in order.

    Options:

    collection
        The name of a collection in the home folder.
    columns
        The columns to read, in this order; all if absent.
    order
        Keep the order in which the records were written.
    mirrors
        How the copies of a mirrored collection share the reading: `graduated`, or, to compare,
        `shares`, `laggard`, `arrival`, `alternate`, `random`, `fastest` or `primary`;
        `graduated` if absent.

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.from_arrow({"city": ["Ur", "Uruk"]}), eu.write("cities"))
    >>> _ = flow.go(home="data")
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.read("cities", order=True), eu.collect())
    >>> flow.go(home="data").collected().to_pydict()
    {'city': ['Ur', 'Uruk']}
    """
