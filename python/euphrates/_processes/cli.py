"""The `euphrates` command."""

from __future__ import annotations

import atexit
import os
import sys

# The C module below `signal`, which would load `enum` and more: a fifth of a worker's start-up.
from _signal import SIG_DFL, SIGINT, signal  # type: ignore[import-not-found]

from .. import _euphrates

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Runs the command line and ends the program with its exit code."""
    # The command line handles Ctrl-C itself.
    signal(SIGINT, SIG_DFL)
    code = _main_of(sys.argv)(sys.argv)
    # `atexit` handlers of a flow's file, such as those that remove temporary folders.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    # Python functions that never return would keep the program from ending.
    os._exit(code)


def _main_of(arguments: list[str]) -> Callable[[list[str]], int]:
    """The native command line; commands on Delta tables need a Python package around it."""
    if any("delta://" in word or "delta_scan(" in word.lower() for word in arguments):
        from .._lakes import command

        if command.concerns(arguments):
            return command.main
    return _euphrates.cli_main
