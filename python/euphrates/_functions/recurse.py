"""The function `recurse`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any
    from .._config import Var


@configures("recurse")
def recurse(
    step: Any | Var,
    *,
    distinct: bool | Var = False,
    rounds_max: int | None | Var = None,
) -> ModuleCall:
    """Runs a step on the rows that it made before, until it makes none.

    SQL's `with recursive` becomes this module. Its first input has the rows to begin with,
    which are rows of the result, too; the others are tables that the step reads. The step is a
    flow, whose last module has its rows. In it, a module `given` with the `input` 0 stands for
    the rows of the round before, one with another number for the input of that number. The
    tables and the rows of a round are held in memory, with `distinct` also the rows of all
    rounds.

    Options:

    step
        The step, as the document of a flow.
    distinct
        Whether rows that were there before are left out, as by `union` without `all`.
    rounds_max
        The most rounds; more are an error. 10000 if absent.

    Example:

    >>> eu.sql('''
    ...     with recursive steps(n) as (select 1 union all select n * 2 from steps where n < 8)
    ...     select n from steps order by n
    ... ''').to_pydict()
    {'n': [1, 2, 4, 8]}
    """
