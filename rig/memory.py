"""Memory of a set size: a group of processes with a hard limit, and swap on a disk of the rig."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import cgroups, units
from .disks import Disk
from .features import require
from .ledger import ledger
from .processes import marked
from .tools import RigError, tool


class Memory:
    """Memory for as long as a `with` lasts; who still runs in it then dies.

    What a process in it needs beyond `size` goes to swap, and if there is none, its end comes. The
    page cache of the files that it reads and writes counts.
    """

    def __init__(self, size: str | int) -> None:
        self.size = units.amount(size)
        self._group: Path | None = None
        self._made = contextlib.ExitStack()

    def __enter__(self) -> Memory:
        require("memory")
        memory, book = cgroups.need("memory"), ledger()
        with contextlib.ExitStack() as made:
            # In version 2 beside the caller, so that the limits of its disks hold here, too.
            above = cgroups.made_for_caller(memory.own) or memory.root
            group = above / f"{cgroups.PREFIX}{book.name()}"
            made.callback(book.undo, book.record("group", path=str(group)))
            if memory.version == 2:
                cgroups.enable(group.parent, "memory")
            group.mkdir()
            for name, text in cgroups.memory_limits(memory.version, self.size).items():
                cgroups.write(group / name, text)
            self._group = group
            self._made = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._group = None
        self._made.close()

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command that enters this memory and then is `command`, in the same process."""
        if self._group is None:
            raise RigError("this memory is not there: use it in a `with`")
        return cgroups.joining([self._group], list(command))

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program in this memory; the options are those of `subprocess.Popen`."""
        return marked(self._made, self.inside(command), **options)


class Swap:
    """Swap on a disk of the rig, for as long as a `with` lasts. Of several, each takes its part."""

    def __init__(self, disk: Disk, size: str | int) -> None:
        self._path = disk.path / "swap"
        self._size = units.amount(size)
        self._made = contextlib.ExitStack()

    def __enter__(self) -> Swap:
        require("memory", "disks")
        book = ledger()
        with contextlib.ExitStack() as made:
            made.callback(book.undo, book.record("swap", path=str(self._path)))
            with open(self._path, "xb") as file:
                os.fchmod(file.fileno(), 0o600)
                os.posix_fallocate(file.fileno(), 0, self._size)
            tool("mkswap", str(self._path))
            tool("swapon", "--priority", "1", str(self._path))
            self._made = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()
