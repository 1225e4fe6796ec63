"""Runs the system's tools, and raises `RigError` with their messages."""

from __future__ import annotations

import os
import subprocess

MARK = "EUPHRATES_RIG"


class RigError(Exception):
    """The rig lacks a requirement, or the kernel refused a request; the message says which."""


def tool(*command: str) -> str:
    """Runs a system tool and returns its output."""
    # The mark lets a guardian kill it before looking for what it made.
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
