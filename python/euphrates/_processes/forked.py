"""Terminates a child process that user code has forked."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback


def leave(error: BaseException | None) -> None:
    """Ends this process with the exit code of a Python program that has finished, or raised
    `error`. It runs no `atexit` handlers: they belong to the parent.
    """
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code & 0xFF)
