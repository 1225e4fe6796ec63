"""References of a flow to Python objects: by import path, by the file of a script, or as an object
of this process.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import weakref

from .._processes.scripts import file_of, module_of_file
from .._processes.worker import believes_master
from ..errors import UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_numbers = itertools.count(1)
_table: weakref.WeakValueDictionary[int, Held] = weakref.WeakValueDictionary()


class Held:
    """An object of this process that a flow keeps alive."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.number = next(_numbers)
        _table[self.number] = self

    @property
    def json(self) -> dict[str, int]:
        return {"$live": self.number}

    @property
    def remedy(self) -> str:
        """How a flow could avoid the reference to this process."""
        if callable(self.target):
            return (
                "define it by name at the top of a module that can be imported, "
                "or of the file that `euphrates show` or `code` is given"
            )
        return "read it from a file, or give a function that makes it"

    def __repr__(self) -> str:
        name = getattr(self.target, "__qualname__", None)
        return f"`{name}`" if isinstance(name, str) else f"a {type(self.target).__name__}"


def import_path(target: Any) -> str | None:
    """The importable name of an object: `package.module:name`, or `/folder/script.py:name` if a
    script that built a flow defines it; `None` if it has neither.
    """
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    # Objects defined inside a function or in the program itself cannot be imported elsewhere.
    if module == "__main__" or "<" in name or module not in sys.modules:
        return None
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{file_of(module) or module}:{name}" if found is target else None


def imported(path: str) -> Any:
    """The object at an import path."""
    module, colon, name = path.rpartition(":")
    if not colon or not module or not name:
        raise UsageError(
            f"`{path}` does not say where a Python object is",
            remedy="write `package.module:name` or `script.py:name`, or give the object itself; "
            f"eu.scan({path!r}) reads a file",
        )
    found: Any = _script(module, name) if module.endswith(".py") else _module(module)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise UsageError(
                f"`{module}` has no `{name}`", remedy="check the part after the colon"
            ) from error
    return found


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(
            f"cannot import `{name}`: {error}", remedy="install it, or add it to PYTHONPATH"
        ) from error


def _script(path: str, name: str) -> ModuleType:
    try:
        return module_of_file(path)
    except OSError as error:
        raise UsageError(
            f"`{name}` is in {path!r}, which cannot be read: {error.strerror}",
            remedy="put the file back, or say where it is now",
        ) from error


def pickled(entry: Held) -> str:
    """The pickle of an object of this process, for workers of its flow."""
    import base64

    from . import by_value

    try:
        return base64.b64encode(by_value.dumps(entry.target)).decode("ascii")
    except Exception as error:  # its `__reduce__` may raise any error
        raise UsageError(
            f"{entry} cannot be sent to workers: {error}", remedy=entry.remedy
        ) from error


def held(number: int, given: str | None = None) -> Any:
    """The object of this process with this number; at a worker, the one that its master sent."""
    if given is not None and believes_master():
        import base64
        import pickle

        return pickle.loads(base64.b64decode(given))
    entry = _table.get(number)
    if entry is None:
        raise UsageError(
            "the flow refers to a Python object of another process",
            remedy="define it in a module that can be imported",
        )
    return entry.target
