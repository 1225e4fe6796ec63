"""How the rig runs the tools of the system, and what it raises: their words are not lost."""

from __future__ import annotations

import os
import subprocess

MARK = "EUPHRATES_RIG"


class RigError(Exception):
    """Something the rig needs is not there, or the kernel refused it; the message says which."""


def tool(*command: str) -> str:
    """Runs a system tool and gives what it printed."""
    # Marked, so that a guardian ends it before it looks for what it made.
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, MARK: f"{os.getpid()}-tool"},
    )
    if done.returncode != 0:
        raise RigError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
