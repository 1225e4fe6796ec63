"""A child process that runs user code for a worker: `crates/py/src/isolated`."""

from __future__ import annotations

import contextlib
import os

from .. import _euphrates
from .worker import believe_master

_FIRST_TO_GO = 500
"""When memory runs out, the kernel kills the process with the highest score among equal sizes."""


def main() -> None:
    """Serves the worker's requests until the worker ends or is idle for a while."""
    believe_master()
    # The kernel should kill this process before the worker: it costs one function its process.
    with contextlib.suppress(OSError, ValueError), open("/proc/self/oom_score_adj", "r+") as own:
        score = int(own.read())
        own.seek(0)
        own.write(str(min(1000, score + _FIRST_TO_GO)))
    _euphrates.run_confined()
    # Threads of user code would delay an orderly end.
    os._exit(0)
