"""Converts the arguments of `place` (modules, objects, classes, functions) to module calls."""

from __future__ import annotations

from .._config import Gathered
from ..errors import UsageError
from ..modules import ModuleCall

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..queries import Query
    from .module import Module

    Placeable: TypeAlias = ModuleCall | Module | Query | Callable[..., Any]
    """A configured module, an object of a module class, a query, or a function over batches."""


def call_of(module: Placeable) -> ModuleCall:
    return module if isinstance(module, ModuleCall) else _call_of_own(module)


def _call_of_own(module: Module | Query | Callable[..., Any]) -> ModuleCall:
    import functools

    from .module import Module

    gathered = Gathered()
    if isinstance(module, Module):
        args, kwargs = module._arguments
        try:
            config: dict[str, Any] = {"module": gathered.hold(type(module))}
            if args:
                config["args"] = _strict([*args])
            if kwargs:
                config["kwargs"] = _strict(kwargs)
        except UsageError:
            # Arguments without a JSON form stay in this process.
            gathered = Gathered()
            held = functools.partial(type(module), *args, **kwargs)
            config = {"module": gathered.hold(held)}
        return ModuleCall("python", config, gathered)
    if isinstance(module, type) and issubclass(module, Module):
        return ModuleCall("python", {"module": gathered.hold(module)}, gathered)
    if callable(module):
        return ModuleCall("map", {"function": gathered.hold(module)}, gathered)
    remedy = "place eu.scan(…) and the like, an object of an eu.Module, or a function"
    if isinstance(module, list | tuple):
        remedy = "give modules one by one: flow.chain(a, b)"
    raise UsageError(f"{module!r} is not a module", remedy=remedy)


def _strict(value: Any) -> Any:
    """A value as JSON that converts back to the same value."""
    # Exact types only: subclasses would come back as their base type.
    kind = type(value)
    if value is None or kind in (bool, str, int, float):
        return Gathered().json(value)
    if kind is list:
        return [_strict(member) for member in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: _strict(member) for key, member in value.items()}
    raise UsageError(f"{value!r} is not JSON")


def is_live(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"$live"}


def live_numbers(value: Any) -> list[int]:
    """The numbers of the in-process objects that a configuration refers to."""
    if isinstance(value, dict):
        if is_live(value):
            return [value["$live"]]
        return [number for member in value.values() for number in live_numbers(member)]
    if isinstance(value, list):
        return [number for member in value for number in live_numbers(member)]
    return []
