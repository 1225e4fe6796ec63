"""Disks of a set rate: file systems in image files, on loop devices that the kernel throttles."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from . import cgroups, units
from .cleanup.ledger import Ledger, ledger
from .faults.perturbers import Competitor, Pattern
from .features import require
from .tools import tool


class Disk:
    """A mounted file system with a rate of its own. `path` is its mount point; a disk is path-like.

    The rate applies to reads and to writes separately: the kernel has a token bucket for each.
    """

    def __init__(self, path: Path, device: Path, number: str, limits: Limits) -> None:
        self.path = path
        self.device = device
        self.number = number
        self.rate: int | None = None
        self.iops: int | None = None
        self._limits = limits

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        rate = "no limit" if self.rate is None else f"{self.rate / 1e6:g} MB/s"
        return f"Disk({str(self.path)!r}, {rate})"

    def set_rate(self, rate: str | int | float | None, *, iops: int | None = None) -> None:
        """Changes the rate at once, also for running readers and writers; None removes the
        limit.
        """
        bytes_ = units.rate(rate)
        self._limits.set(self.number, bytes_, iops)
        self.rate, self.iops = bytes_, iops

    def competitor(
        self,
        way: str = "read",
        *,
        depth: int = 1,
        request: str | int = "1MiB",
        on: float | None = None,
        off: float = 0,
        seconds: float | None = None,
    ) -> Competitor:
        """A stream that reads or writes this disk, past the page cache, within a `with`.

        The disk serves its queue in turn, so the stream's share follows from its queue depth:
        `depth` requests of `request` bytes. One request of 1 MiB halves the rate of a program with
        one of 1 MiB.
        """
        if way not in ("read", "write"):
            raise ValueError(f"a competitor reads or writes; {way!r} is neither")
        target = self.device if way == "read" else self.path
        pattern = Pattern(on, off, seconds)
        return Competitor(way, target, depth, units.amount(request), pattern)


class Limits:
    """The kernel's I/O throttle, and the groups in which it must be set."""

    def __init__(self, version: int, groups: list[Path]) -> None:
        self.version = version
        self.groups = groups

    def set(self, device: str, rate: int | None, iops: int | None) -> None:
        for group in self.groups:
            for name, text in cgroups.io_limits(self.version, device, rate, iops).items():
                cgroups.write(group / name, text)

    def facts(self, device: str) -> dict[str, str]:
        groups = ":".join(str(group) for group in self.groups)
        return {"version": str(self.version), "groups": groups, "device": device}


class Disks(Sequence[Disk]):
    """`count` disks within a `with`; all are removed on exit.

    `size` is the size of each image, which takes space in `folder` (the temporary folder by
    default) only as it is written. `rate=None` sets no limit.
    """

    def __init__(
        self,
        count: int,
        rate: str | int | float | None = None,
        *,
        iops: int | None = None,
        size: str | int = "64MB",
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if count < 1:
            raise ValueError("a rig has at least one disk")
        self._count = count
        self._rate = units.rate(rate)
        self._iops = iops
        self._size = units.amount(size)
        self._folder = Path(folder or tempfile.gettempdir()).resolve()
        self._disks: list[Disk] = []
        self._made = contextlib.ExitStack()

    def __enter__(self) -> Disks:
        require("disks")
        book, disks = ledger(), []
        # Limits are lifted first: pending writes would otherwise be flushed at the disk's rate.
        with contextlib.ExitStack() as made, contextlib.ExitStack() as lifted:
            limits = open_limits(made, book)
            for _ in range(self._count):
                disk = open_disk(made, book, limits, self._folder, self._size)
                lifted.callback(book.undo, book.record("limits", **limits.facts(disk.number)))
                disk.set_rate(self._rate, iops=self._iops)
                disks.append(disk)
            self._made.push(made.pop_all())
            self._made.push(lifted.pop_all())
        self._disks = disks
        return self

    def __exit__(self, *_: object) -> None:
        self._disks = []
        self._made.close()

    def __len__(self) -> int:
        return len(self._disks)

    @overload
    def __getitem__(self, index: int) -> Disk: ...
    @overload
    def __getitem__(self, index: slice) -> list[Disk]: ...
    def __getitem__(self, index: int | slice) -> Disk | list[Disk]:
        return self._disks[index]

    def __iter__(self) -> Iterator[Disk]:
        return iter(self._disks)


def open_limits(made: contextlib.ExitStack, book: Ledger) -> Limits:
    """Chooses the groups for limits. In version 2 the caller moves into a group made for it."""
    io = cgroups.need("io")
    if io.version == 1:
        return Limits(1, list(dict.fromkeys([io.root, io.own])))
    above = cgroups.made_for_caller(io.own)
    if above is not None:
        return Limits(2, [above])
    top = io.root / f"{cgroups.PREFIX}{book.name()}"
    made.callback(book.undo, book.record("group", path=str(top), back=str(io.own)))
    cgroups.enable(io.root, "io", "memory", "cpu")
    (top / "main").mkdir(parents=True)
    cgroups.enable(top, "io", "memory", "cpu")
    cgroups.write(top / "main" / "cgroup.procs", str(os.getpid()))
    return Limits(2, [top])


def open_disk(
    made: contextlib.ExitStack, book: Ledger, limits: Limits, folder: Path, size: int
) -> Disk:
    """An image, a loop device on it and a file system; each is recorded before it is made."""
    name = book.name()
    image = folder / f"{cgroups.PREFIX}{name}.img"
    unlinked = book.record("image", path=str(image))
    made.callback(book.undo, unlinked)
    with open(image, "xb") as file:
        file.truncate(size)
    # Without a journal and lazily initialised tables, the disk sees only the program's writes.
    tool("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "nodiscard", str(image))
    made.callback(book.undo, book.record("loop", image=str(image)))
    device = Path(tool("losetup", "--find", "--show", "--direct-io=on", str(image)).strip())
    # The device holds the image. Without a name the image is freed with the device.
    book.undo(unlinked)
    number = (Path("/sys/block") / device.name / "dev").read_text().strip()
    path = book.folder / name
    made.callback(book.undo, book.record("mount", path=str(path)))
    path.mkdir()
    tool("mount", "-o", "noatime,noinit_itable", str(device), str(path))
    (path / "lost+found").rmdir()
    return Disk(path, device, number, limits)
