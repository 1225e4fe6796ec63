"""The function `union`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures


@configures("union")
def union() -> ModuleCall:
    """Passes on the rows of all its inputs.

    As many inputs as are attached, with the same columns in the same order. Types may differ in
    how values are laid out (text in a dictionary or not, large lists, the names of items), but
    not in what they are; decimals are widened to one that has the digits of all. Rows are taken
    from whichever input has some; duplicates are kept, and no order is.

    Example:

    >>> flow = eu.Flow()
    >>> union = flow.chain(eu.from_arrow({"n": [3, 1]}), eu.union())
    >>> _ = flow.chain(eu.from_arrow({"n": [2, 1]}), union, eu.sort("n"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [1, 1, 2, 3]}
    """
