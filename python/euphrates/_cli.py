"""The `euphrates` command."""

from __future__ import annotations

import atexit
import os
import sys

# What `signal` is made of, which loads `enum` and more: a fifth of what a worker takes to begin.
from _signal import SIG_DFL, SIGINT, signal  # type: ignore[import-not-found]

from . import _euphrates


def main() -> None:
    """Runs the command line and ends the program with its exit code."""
    # The command line hears Ctrl-C itself.
    signal(SIGINT, SIG_DFL)
    code = _euphrates.cli_main(sys.argv)
    # What a flow's file wants done at the end, such as removing its temporary folders.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    # Python functions that do not return would keep the program from ending.
    os._exit(code)
