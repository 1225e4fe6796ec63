"""The function `python`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any
    from .._config import Var


@configures("python")
def python(
    module: type[Any] | str | Var,
    *,
    args: Sequence[Any] | None | Var = None,
    kwargs: Mapping[str, Any] | None | Var = None,
) -> ModuleCall:
    """Runs a module written in Python: a subclass of `euphrates.Module`.

    The class declares `inputs`, `outputs` and `order`, says what comes out in `schemas(self,
    inputs)`, and works in `run(self, ports)`. Every instance has an object of its own and runs
    in a thread of its own. Usually placed as an object: `flow.place(MyModule(3))`.

    Options:

    module
        The class, or where it can be imported from: `package.module:Name`.
    args
        Arguments of its constructor, by position.
    kwargs
        Arguments of its constructor, by name.

    Example:

    >>> class First(eu.Module):
    ...     def __init__(self, rows):
    ...         self.rows = rows
    ...     def run(self, ports):
    ...         for batch in ports:
    ...             ports.put(batch.slice(0, self.rows))
    >>> first = eu.python(First, args=[2])
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=9), first, eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [0, 1]}
    """
