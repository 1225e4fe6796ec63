"""The function `collect`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures


@configures("collect")
def collect() -> ModuleCall:
    """Keeps the rows in memory, for the program that started the flow.

    `report.collected()` gives them to anything that reads Arrow, without copying. The order of
    a stream is kept.

    Example:

    >>> flow = eu.Flow()
    >>> kept = flow.chain(eu.from_arrow({"city": ["Ur", "Uruk"]}), eu.collect())
    >>> flow.go().collected(kept).to_pydict()
    {'city': ['Ur', 'Uruk']}
    """
