"""Outlives the process that uses the rig and undoes what it left. The ledger starts it.

It runs in a session of its own, so Ctrl-C does not reach it, and it ignores SIGTERM and SIGINT. A
pidfd tells it of the caller's end; a line on its input tells it of a regular exit.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
from pathlib import Path

from .ledger import undo_all


def main(folder: Path, owner: int) -> None:
    for asked in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(asked, signal.SIG_IGN)
    with open(folder / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(BrokenPipeError):  # the caller may be dead already
            os.write(1, b"watching\n")
        waiting = select.poll()
        waiting.register(owner, select.POLLIN)
        waiting.register(sys.stdin, select.POLLIN)
        waiting.poll()
        # The caller's death closes the pipe, unless a forked child of it still holds the other end.
        owner_is_dead = bool(select.select([owner], [], [], 0)[0])
        said = "" if owner_is_dead else os.read(sys.stdin.fileno(), 16).decode()
        if said != "bye":
            undo_all(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
