"""Modules written in Python: classes with their own ports."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from types import SimpleNamespace

from .. import _euphrates
from ..errors import UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ClassVar

    from .._euphrates import Ports, Schema


class Empty(enum.Enum):
    """The type of `EMPTY`."""

    EMPTY = "EMPTY"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "euphrates.EMPTY"


EMPTY = Empty.EMPTY
"""The result of `ports.try_get` when no batch is available."""


class Module:
    """A user-defined module: `flow.place(MyModule(3))`.

    An object is only a description. Every instance of the module gets an object of its own,
    constructed with the same arguments, and calls its `run` in a thread of its own; `run` may
    block.

    >>> import pyarrow as pa
    >>> class EveryNth(eu.Module):
    ...     def __init__(self, n):
    ...         self.n = n
    ...
    ...     def run(self, ports):
    ...         for number, batch in enumerate(ports):
    ...             if number % self.n == 0:
    ...                 ports.put(batch)
    >>> flow = eu.Flow()
    >>> every_second = flow.place(EveryNth(2), count=1)
    >>> source = flow.place(eu.from_arrow([pa.table({"n": [n]}) for n in range(5)]))
    >>> source >> every_second >> eu.collect()
    <collect_1 in 'flow'>
    >>> flow.go().collected().to_pydict()
    {'n': [0, 2, 4]}
    """

    inputs: Sequence[str] = ("in",)
    """Names of the inputs; `()` for a source."""
    outputs: Sequence[str] = ("out",)
    """Names of the outputs; `()` for a sink."""
    order: str = "any"
    """The order that it needs of its input: `any` (none; the output has no order), `keeps` (none,
    but rows that came in runs leave in the same runs) or `ordered` (the whole stream in order, so
    there is one instance).
    """
    parallel: bool = True
    """Whether it may have more than one instance."""
    streams: bool = False
    """Whether it orders its outputs itself, with `begin_run` and `end_run`."""

    _arguments: ClassVar[tuple[tuple[Any, ...], dict[str, Any]]] = ((), {})

    def __new__(cls, *args: Any, **kwargs: Any) -> Module:
        made = super().__new__(cls)
        # The arguments of `__init__`, from which every instance is constructed.
        made.__dict__["_arguments"] = (args, kwargs)
        return made

    def schemas(self, inputs: list[Schema]) -> Any:
        """The schemas of the outputs, in order, given those of the inputs: pyarrow schemas, types
        by name like `{"id": "int64"}`, or `inputs` themselves. By default every output has the
        schema of the first input. Can also check inputs without reading data.

        >>> import pyarrow as pa
        >>> class Lengths(eu.Module):
        ...     def schemas(self, inputs):
        ...         return {"length": "int64"}
        ...
        ...     def run(self, ports):
        ...         for batch in ports:
        ...             words = batch.to_pydict()["word"]
        ...             ports.put(pa.table({"length": [len(word) for word in words]}))
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.from_arrow({"word": ["Ur", "Uruk"]}), Lengths(), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'length': [2, 4]}
        """
        if not inputs and self.outputs:
            raise UsageError(
                f"`{type(self).__qualname__}` does not say what it makes",
                remedy="define schemas(self, inputs)",
            )
        return [inputs[0] for _ in self.outputs]

    def run(self, ports: Ports) -> None:
        """Reads the input to its end.

        >>> import pyarrow as pa
        >>> class Letters(eu.Module):
        ...     inputs = ()
        ...     parallel = False
        ...
        ...     def schemas(self, inputs):
        ...         return {"letter": "string"}
        ...
        ...     def run(self, ports):
        ...         ports.put(pa.table({"letter": ["a", "b"]}))
        >>> flow = eu.Flow()
        >>> _ = flow.chain(Letters(), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'letter': ['a', 'b']}
        """
        raise NotImplementedError(f"`{type(self).__qualname__}` has no run(self, ports)")


def described(make: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> SimpleNamespace:
    """The properties of a class and its constructor arguments that the engine needs."""
    bound = functools.partial(make, *args, **kwargs)
    module = bound()
    if not isinstance(module, Module):
        raise UsageError(
            f"`{getattr(make, '__qualname__', make)}` makes {type(module).__name__}, not a module",
            remedy="derive the class from euphrates.Module",
        )
    return SimpleNamespace(
        make=bound,
        inputs=_names(module, "inputs"),
        outputs=_names(module, "outputs"),
        order=module.order,
        parallel=module.parallel,
        streams=module.streams,
    )


def _names(module: Module, side: str) -> list[str]:
    names = getattr(module, side)
    if isinstance(names, str):
        names = [names]
    names = list(names)
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise UsageError(
            f"`{side}` of `{type(module).__qualname__}` are {names!r}",
            remedy="give each a name of its own",
        )
    return names


def promised(module: Module, inputs: list[Schema], outputs: list[str]) -> list[Any]:
    """The schemas of the outputs as Arrow-compatible objects."""
    given = module.schemas(inputs)
    if given is None:
        given = []
    elif isinstance(given, Mapping) and outputs and set(given) == set(outputs):
        given = [given[name] for name in outputs]
    elif isinstance(given, Mapping) or hasattr(given, "__arrow_c_schema__"):
        given = [given]
    given = [_euphrates.schema(dict(one)) if isinstance(one, Mapping) else one for one in given]
    if len(given) != len(outputs):
        raise UsageError(
            f"`schemas` of `{type(module).__qualname__}` returned {len(given)} schemas "
            f"for {len(outputs)} outputs",
            remedy="return one for each output, in order",
        )
    return given
