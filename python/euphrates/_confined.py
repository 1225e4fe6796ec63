"""A process that runs a user's code for a worker: `crates/py/src/isolated`."""

from __future__ import annotations

import contextlib
import os

from . import _euphrates
from ._worker import believe_master

_FIRST_TO_GO = 500
"""Of processes of the same size, the kernel ends that with more of these when memory runs out."""


def main() -> None:
    """Does what the worker asks for, until it is gone or has asked for nothing for a while."""
    believe_master()
    # Better this than the worker: here it costs one function its process.
    with contextlib.suppress(OSError, ValueError), open("/proc/self/oom_score_adj", "r+") as own:
        score = int(own.read())
        own.seek(0)
        own.write(str(min(1000, score + _FIRST_TO_GO)))
    _euphrates.run_confined()
    # Threads of user code would keep an orderly end waiting.
    os._exit(0)
