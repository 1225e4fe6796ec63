"""How a flow names Python objects: by import path, or as an object of this process."""

from __future__ import annotations

import importlib
import itertools
import sys
import weakref
from typing import Any

from .errors import UsageError

_numbers = itertools.count(1)
_table: weakref.WeakValueDictionary[int, Held] = weakref.WeakValueDictionary()


class Held:
    """An object of this process, as long as a flow refers to it."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.number = next(_numbers)
        _table[self.number] = self

    @property
    def json(self) -> dict[str, int]:
        return {"$live": self.number}

    def __repr__(self) -> str:
        name = getattr(self.target, "__qualname__", None)
        return f"`{name}`" if isinstance(name, str) else f"a {type(self.target).__name__}"


def import_path(target: Any) -> str | None:
    """Where anybody can import an object from; `None` if it cannot be imported."""
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    # What is defined in a function or in the program itself is not there for others.
    if module == "__main__" or "<" in name or module not in sys.modules:
        return None
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is target else None


def imported(path: str) -> Any:
    """The object at an import path."""
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise UsageError(
            f"`{path}` does not say where a Python object is",
            remedy="write `package.module:name`, or give the object itself",
        )
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"cannot import `{module}`: {error}", remedy="install it, or add it to PYTHONPATH"
        ) from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise UsageError(
                f"`{module}` has no `{name}`", remedy="check the part after the colon"
            ) from error
    return found


def held(number: int) -> Any:
    """The object of this process with this number."""
    entry = _table.get(number)
    if entry is None:
        raise UsageError(
            "the flow refers to a Python object of another process",
            remedy="define it in a module that can be imported",
        )
    return entry.target
