"""The function `sample`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .._config import Var


@configures("sample")
def sample(
    *,
    fraction: float | None | Var = None,
    rows: int | None | Var = None,
    seed: int | Var = 0,
) -> ModuleCall:
    """Picks rows at random: a fraction of them, or a number.

    With `fraction`, every row passes with this probability, and the order of a stream is kept.
    With `rows`, that number of rows is picked, each with the same probability; they are held in
    memory until the input has ended. The same seed picks the same rows of a stream.

    Options:

    fraction
        The probability of a row to be picked, from 0 to 1.
    rows
        The number of rows to pick; all, if there are fewer.
    seed
        Another seed picks other rows.

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.sample(rows=10), eu.collect())
    >>> flow.go().collected().num_rows
    10
    """
