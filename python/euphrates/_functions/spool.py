"""The function `spool`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures


@configures("spool")
def spool() -> ModuleCall:
    """Gives every row to each of its outputs, at the pace of each.

    As many outputs as are attached. It goes at the pace of the fastest of them; rows that
    others have not taken yet are held in memory, and then on scratch. So two outputs may lead
    to one module that reads one of them to its end first, like a join; a `tee`, which holds
    nothing, would wait forever. One whose consumer has had enough is left out from then on.
    Rows come in no order.

    Example:

    >>> flow = eu.Flow()
    >>> spool = flow.chain(eu.from_arrow({"city": ["Ur", "Ur"], "n": [5, 2]}), eu.spool())
    >>> most = flow.chain(spool, eu.aggregate("city", values={"most": "max(n)"}))
    >>> join = flow.place(eu.join("city"))
    >>> _ = spool >> join["left"], most >> join["right"], join >> eu.sort("n") >> eu.collect()
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Ur'], 'n': [2, 5], 'most': [5, 5]}
    """
