"""Pickles Python objects for workers: functions by value if cloudpickle is installed."""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, ClassVar


def dumps(target: Any) -> bytes:
    """The pickle of an object for workers. Raises whatever its `__reduce__` raises."""
    found = _cloudpickle()
    if found is None:
        if getattr(target, "__module__", None) == "__main__":
            raise TypeError("it is defined in the program itself; install cloudpickle")
        return pickle.dumps(target)
    written = io.BytesIO()
    _pickler(found)(written).dump(target)
    return written.getvalue()


def _cloudpickle() -> ModuleType | None:
    """The cloudpickle module, its own or Ray's copy, or None."""
    for name in ("cloudpickle", "ray.cloudpickle"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return None


def _pickler(cloudpickle: Any) -> Any:
    """A pickler that keeps the file names of functions. Cloudpickle leaves them out from 3.1.3 on,
    and tracebacks from workers would then lack the source line.
    """
    table = cloudpickle.Pickler.dispatch_table
    reduced = table[CodeType]

    def reduce(code: CodeType) -> tuple[Any, ...]:
        make, arguments = reduced(code)
        return _of_file, (make, arguments, code.co_filename)

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar = ChainMap({CodeType: reduce}, table)

    return Pickler


def _of_file(make: Callable[..., CodeType], arguments: tuple[Any, ...], file: str) -> CodeType:
    return make(*arguments).replace(co_filename=file)
