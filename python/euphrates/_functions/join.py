"""The function `join`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Any, Literal
    from .._config import Var


@configures("join", lists=["on"])
def join(
    on: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
    *,
    how: Literal['inner'] | Literal['left'] | Literal['right'] | Literal['full'] | Literal['semi'] | Literal['anti'] | Var | None = None,
    where: str | PathLike[str] | None | Var = None,
    build: Literal['auto'] | Literal['left'] | Literal['right'] | Var | None = None,
    suffix: str | PathLike[str] | Var = "_right",
) -> ModuleCall:
    """Joins its inputs `left` and `right` by equal keys.

    One side is held in memory, as a table, and what does not fit goes to scratch; the other
    streams by. It is the right that is held, unless less is read for the left or `build` says
    so. Nulls match nothing, NaN matches NaN. Columns of the left come first, then those of the
    right but its keys; keys come once, with the value of whichever side has one. Nothing is
    read of the side that streams by before the other has ended, so both must not come from one
    `tee`. A `scan` of that side leaves out rows whose keys match nothing, as far as that is
    cheaper, if only `filter`, `sort` and `partition` are between and such rows do not come out.
    The output has no order.

    Options:

    on
        The keys: names of columns that both sides have, or `{"left": "a", "right": "b"}`.
    how
        Which rows come out.
    where
        A condition in SQL that a pair must meet besides, over the columns of both sides.
    build
        The side that is held, best the smaller one. `auto` is that of which less is read, and
        the right if that is not known.
    suffix
        Stands behind names of the right that the left has too.

    Example:

    >>> flow = eu.Flow()
    >>> join = flow.place(eu.join("city"))
    >>> orders = flow.place(eu.from_arrow({"city": ["Ur", "Kish"], "price": [2, 3]}))
    >>> cities = flow.place(eu.from_arrow({"city": ["Ur"], "founded": [-3800]}))
    >>> _ = orders >> join["left"], cities >> join["right"], join >> eu.collect()
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur'], 'price': [2], 'founded': [-3800]}
    """
