"""The function `merge`. Derived from the modules by `make derive`; not to be edited."""

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


@configures("merge", lists=["by"])
def merge(
    by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
) -> ModuleCall:
    """Makes one sorted stream of several.

    As many inputs as are attached, each a stream sorted by `by`, which is written as for
    `sort`; one that is not is an error that names the row. Of records with equal keys, those of
    the earlier input come first. A batch of each input is held, so the memory does not depend
    on how much there is.

    Options:

    by
        The columns, most significant first.

    Example:

    >>> flow = eu.Flow()
    >>> merge = flow.chain(eu.from_arrow({"n": [1, 4]}, order=True), eu.merge("n"))
    >>> _ = flow.chain(eu.from_arrow({"n": [2, 3]}, order=True), merge, eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [1, 2, 3, 4]}
    """
