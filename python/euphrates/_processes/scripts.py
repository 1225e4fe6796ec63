"""Python files that build flows. Each is run once, and its definitions are named by the file, so
that a document outside this process still says where its functions are.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

NAME = "__euphrates__"
"""The `__name__` of a file that builds a flow; later ones have a number."""

_loaded: dict[str, ModuleType] = {}
"""Loaded modules by real path. Objects that a flow refers to live as long as the program."""


def module_of_file(path: str | os.PathLike[str]) -> ModuleType:
    """The module of a file. It is run unless it was already, or is the running program itself."""
    path = os.path.abspath(path)
    real = os.path.realpath(path)
    program = sys.modules.get("__main__")
    of_program = getattr(program, "__file__", None)
    if program is not None and of_program and os.path.realpath(of_program) == real:
        return program
    if real not in _loaded:
        _loaded[real] = _run(path, real)
    return _loaded[real]


def _run(path: str, real: str) -> ModuleType:
    with open(path, "rb") as file:
        source = file.read()
    program = compile(source, path, "exec", dont_inherit=True)
    name = f"{NAME}{len(_loaded) + 1}" if _loaded else NAME
    module = ModuleType(name)
    module.__file__ = path
    # In `sys.modules` while it runs and after: dataclasses and pickle look their module up.
    sys.modules[name] = _loaded[real] = module
    folder = os.path.dirname(path)
    if folder not in sys.path:
        # Files beside it can be imported, as if Python had been given the file.
        sys.path.append(folder)
    try:
        exec(program, module.__dict__)
    except BaseException:
        del sys.modules[name], _loaded[real]
        raise
    return module


def file_of(module: str) -> str | None:
    """The file of a module that was loaded here, by the module's name."""
    loaded = sys.modules.get(module)
    is_ours = any(loaded is one for one in _loaded.values())
    return loaded.__file__ if loaded is not None and is_ours else None
