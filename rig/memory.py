"""Memory of a set size: a control group with a hard limit, and swap on a disk of the rig."""

from __future__ import annotations

import contextlib
import os

from . import cgroups, units
from .cleanup.ledger import ledger
from .disks import Disk
from .features import require
from .groups import Group
from .tools import tool


class Memory(Group):
    """A memory limit within a `with`; on exit the processes still in it are killed.

    Memory beyond `size` is swapped out; without swap the kernel kills the process. The page cache
    of files that its processes read and write counts.
    """

    controller = "memory"
    feature = "memory"

    def __init__(self, size: str | int) -> None:
        super().__init__()
        self.size = units.amount(size)

    def limits(self, version: int) -> dict[str, str]:
        return cgroups.memory_limits(version, self.size)


class Swap:
    """Swap on a disk of the rig within a `with`. Several share the load."""

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
