"""The function `write`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from .._config import Var


@configures("write", lists=["disks"])
def write(
    collection: str | PathLike[str] | Var,
    *,
    overwrite: bool | Var = False,
    disk: str | PathLike[str] | None | Var = None,
    disks: Sequence[str | PathLike[str]] | Var = [],
    copies: int | None | Var = None,
    layout: str | PathLike[str] | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Writes a collection.

    The collection appears when the flow has ended well, whole and at once; until then, and if
    the flow fails, what was there before stays. An ordered stream is written in order, by
    several instances at once. Over several `disks`, each block goes to the disk that has least
    to do, so a slow one gets fewer. With `copies`, each segment has mirrors on other disks, of
    other workers where there are some.

    Options:

    collection
        The collection's name: letters, digits, `_`, `-` and `.`, with `/` between folders.
    overwrite
        Replace an existing collection.
    disk
        The disk to write to, of those in `disks.json`; the home folder's if absent.
    disks
        The disks to write to, all at once.
    copies
        Copies of each segment, each on another disk; 1 if absent.
    layout
        Where mirrors go: `chained`, on the next of the disks, or `spread`, evenly over all
        others; `chained` if absent.
    compression
        `none`, `lz4` or `zstd`; `none` if absent.

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.write("numbers"))
    >>> flow.go(home="data").modules[0].rows_out
    1000
    """
