"""The function `tee`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures


@configures("tee")
def tee() -> ModuleCall:
    """Gives every row to each of its outputs.

    As many outputs as are attached; nothing is copied. It goes at the pace of the slowest of
    them; one whose consumer has had enough is left out from then on. Do not lead two of its
    outputs to a module that reads one of them to its end first.

    Example:

    >>> flow = eu.Flow()
    >>> tee = flow.chain(eu.from_arrow({"price": [5, 2, 7]}), eu.tee())
    >>> rows = flow.chain(tee, eu.count(), eu.collect())
    >>> cheapest = flow.chain(tee, eu.sort("price"), eu.limit(1), eu.collect())
    >>> report = flow.go()
    >>> report.collected(rows).to_pydict(), report.collected(cheapest).to_pydict()
    ({'count': [3]}, {'price': [2]})
    """
