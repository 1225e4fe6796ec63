"""A CPU of a set speed: a group of processes with a hard quota, or a weight beside others."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import cgroups
from .features import require
from .ledger import ledger
from .processes import marked
from .tools import RigError


class Cpu:
    """Part of the machine's CPUs for as long as a `with` lasts; who still runs in it then dies.

    `quota` is how many CPUs it has at most (0.25: a quarter of one); `weight` is its part when
    CPUs are short, 100 being anybody's. Both can be changed while it is in use.
    """

    def __init__(self, quota: float | None = None, *, weight: int = 100) -> None:
        self.quota = checked(quota)
        self.weight = weight
        self._stolen = 0.0
        self._group: Path | None = None
        self._version = 0
        self._made = contextlib.ExitStack()

    def __enter__(self) -> Cpu:
        require("cpus")
        cpu, book = cgroups.need("cpu"), ledger()
        self._version = cpu.version
        with contextlib.ExitStack() as made:
            # In version 2 beside the caller, so that the limits of its disks hold here, too.
            above = cgroups.made_for_caller(cpu.own) or cpu.root
            group = above / f"{cgroups.PREFIX}{book.name()}"
            made.callback(book.undo, book.record("group", path=str(group)))
            if cpu.version == 2:
                cgroups.enable(group.parent, "cpu")
            group.mkdir()
            self._group = group
            self._set()
            self._made = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._group = None
        self._made.close()

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command that enters this CPU and then is `command`, in the same process."""
        if self._group is None:
            raise RigError("this CPU is not there: use it in a `with`")
        return cgroups.joining([self._group], list(command))

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program on this CPU; the options are those of `subprocess.Popen`."""
        return marked(self._made, self.inside(command), **options)

    def set_quota(self, quota: float | None) -> None:
        self.quota = checked(quota)
        self._set()

    def set_weight(self, weight: int) -> None:
        self.weight = weight
        self._set()

    @contextlib.contextmanager
    def stolen(self, share: float) -> Iterator[None]:
        """As if another job took that share of this CPU (the paper: 0.75), without burning it."""
        if not 0 < share < 1:
            raise ValueError("a stolen share is above 0 and below 1")
        self._stolen = share
        self._set()
        try:
            yield
        finally:
            self._stolen = 0.0
            self._set()

    def _set(self) -> None:
        if self._group is None:
            return
        quota = self.quota
        if self._stolen:
            quota = (1.0 if quota is None else quota) * (1 - self._stolen)
        for name, text in cgroups.cpu_limits(self._version, quota, self.weight).items():
            cgroups.write(self._group / name, text)


def checked(quota: float | None) -> float | None:
    if quota is not None and quota < 0.01:
        raise ValueError("a CPU of less than a hundredth is below what the kernel can give")
    return quota
