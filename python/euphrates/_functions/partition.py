"""The function `partition`. Derived from the modules by `make derive`; not to be edited."""

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


@configures("partition", lists=["by"])
def partition(
    by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
    *,
    stable: bool | Var = False,
    stable_if_ordered: bool | Var = False,
    together: bool | Var = False,
    first: int | None | Var = None,
) -> ModuleCall:
    """Keeps its input in partitions, each of one range of keys, for whoever is free.

    Its output is keyed: a consumer takes a whole partition, sorted, when it has time, and the
    partitions are in the order of their keys. There are many, of at most about 16 MiB and
    smaller towards the end, cut where samples of the data say, so that skewed keys make no
    large one. With `together`, records of equal keys are in one partition, however large it
    gets: for modules that work on groups. What does not fit the memory goes to scratch. `by` is
    written as for `sort`.

    Options:

    by
        The columns, most significant first.
    stable
        Keep the input's order among records with equal keys. The input must be a stream.
    stable_if_ordered
        The same, if the input is a stream; else there is no order to keep.
    together
        Keep records with equal keys in one partition.
    first
        Keep at least this many records that come first, and perhaps leave out others; all if
        absent. A `sort` before a `limit` asks for that.

    Example:

    >>> flow = eu.Flow()
    >>> integers = eu.generate("integers", rows=1000)
    >>> _ = flow.chain(integers, eu.partition("n"), eu.sort("n"), eu.limit(3), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [0, 1, 2]}
    """
