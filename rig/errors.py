"""What the rig raises, and how it runs the system's tools so that their words are not lost."""

from __future__ import annotations

import subprocess


class RigError(Exception):
    """Something the rig needs is not there, or the kernel refused it; the message says which."""


def tool(*command: str) -> str:
    """Runs a system tool and gives what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RigError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
