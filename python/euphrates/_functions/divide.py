"""The function `divide`. Derived from the modules by `make derive`; not to be edited."""

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


@configures("divide", lists=["by"])
def divide(
    by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
) -> ModuleCall:
    """Gives each row to the output that has its range of keys, of ranges of one size.

    As many outputs as are attached; the first has the keys that sort first. Ranges divide all
    that the type of the key could hold, not what is there; if the column is nullable, null
    takes half of the ranges. This suits keys that are spread evenly, like those of the sort
    benchmark. `by` is written as for `sort`. Use `partition` for ranges that follow the data
    and go to any free consumer; this module is for comparison.

    Options:

    by
        The columns, most significant first.

    Example:

    >>> flow = eu.Flow()
    >>> divided = flow.chain(eu.generate("records", rows=1000), eu.divide("key"))
    >>> low, high = divided >> eu.collect(), divided >> eu.collect()
    >>> report = flow.go()
    >>> report.collected(low).num_rows, report.collected(high).num_rows
    (529, 471)
    """
