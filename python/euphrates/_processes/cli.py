"""The `euphrates` command."""

from __future__ import annotations

import atexit
import os
import sys

# The C module below `signal`, which would load `enum` and more: a fifth of a worker's start-up.
from _signal import SIG_DFL, SIGINT, signal  # type: ignore[import-not-found]

from .. import _euphrates


def main() -> None:
    """Runs the command line and ends the program with its exit code."""
    # The command line handles Ctrl-C itself.
    signal(SIGINT, SIG_DFL)
    code = _euphrates.cli_main(sys.argv)
    # `atexit` handlers of a flow's file, such as those that remove temporary folders.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    # Python functions that never return would keep the program from ending.
    os._exit(code)
