"""Processes that end with the rig: each starts with a mark in its environment that children
inherit.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import Any

from ..tools import MARK
from .ledger import ledger


def marked(made: contextlib.ExitStack, command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Starts a process that ends, with its descendants, when `made` is closed or the caller
    dies.
    """
    book = ledger()
    mark = book.name()
    made.callback(book.undo, book.record("processes", mark=mark))
    environment = options.pop("env", None) or os.environ
    process = subprocess.Popen(command, env={**environment, MARK: mark}, **options)
    made.callback(reap, process, book.pid)
    return process


def reap(process: subprocess.Popen[Any], owner: int) -> None:
    """Kills a child and collects its exit code; a forked copy of the parent leaves it alone."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
