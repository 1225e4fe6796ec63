"""The function `count`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures


@configures("count")
def count() -> ModuleCall:
    """Counts the rows of its input.

    Output: one row with one column `count` (int64).

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'count': [1000]}
    """
