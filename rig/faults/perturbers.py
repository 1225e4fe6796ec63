"""What makes a component slow without failing it: each a process, for as long as a `with` lasts.

All take a pattern: `on` seconds at work and `off` seconds idle, in turns, for `seconds` in all.
Without one a perturber is at work all the time.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .. import cgroups, units
from ..cleanup import undo
from ..cleanup.ledger import ledger
from ..cleanup.marked import marked
from ..features import require
from ..tools import RigError

SCRIPT = Path(__file__).with_name("perturber_process.py")
Self = TypeVar("Self", bound="Perturber")


@dataclass(frozen=True)
class Pattern:
    """When a perturber is at work."""

    on: float | None = None
    off: float = 0
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.off < 0 or any(time is not None and time <= 0 for time in (self.on, self.seconds)):
            raise ValueError("the times of a pattern are above zero")
        if self.off and self.on is None:
            raise ValueError("a pattern with `off` seconds needs `on` seconds, too")

    def arguments(self) -> list[str]:
        on, seconds = self.on or 0, self.seconds or 0
        return [f"--on={on}", f"--off={self.off}", f"--seconds={seconds}"]


class Perturber:
    """A process that gets in the way. It is at work when the `with` begins."""

    def __init__(self, what: list[str], pattern: Pattern) -> None:
        self._command = [sys.executable, "-S", str(SCRIPT), *pattern.arguments(), *what]
        self._groups: list[Path] = []
        self._made = contextlib.ExitStack()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self: Self) -> Self:
        with contextlib.ExitStack() as made:
            self._prepare(made)
            # In a session of its own: a Ctrl-C is the caller's to act upon.
            command = cgroups.joining(self._groups, self._command)
            self._process = marked(
                made, command, stdout=subprocess.PIPE, start_new_session=True, text=True
            )
            assert self._process.stdout is not None
            made.callback(self._process.stdout.close)
            if self._process.stdout.readline() != "ready\n":
                raise RigError(f"a perturber did not start: {' '.join(self._command)}")
            self._made = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._process = None
        self._made.close()

    def _prepare(self, made: contextlib.ExitStack) -> None:
        """What must be there before the process is."""

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RigError("this perturber is not at work: use it in a `with`")
        return self._process.pid

    def wait(self) -> None:
        """Until its `seconds` are over."""
        assert self._process is not None, "this perturber is not at work: use it in a `with`"
        self._process.wait()


class Competitor(Perturber):
    """A stream on a disk; see `Disk.competitor`."""

    def __init__(self, way: str, target: Path, depth: int, request: int, pattern: Pattern) -> None:
        if depth < 1 or request % 4096:
            raise ValueError("a competitor has 1 or more requests, of a multiple of 4096 bytes")
        what = [f"competitor-{way}", str(target), str(depth), str(request)]
        super().__init__(what, pattern)
        self._field = {"read": "read_bytes", "write": "write_bytes"}[way]

    def moved_bytes(self) -> int:
        """What it has read or written so far."""
        for line in Path(f"/proc/{self.pid}/io").read_text().splitlines():
            name, _, bytes_ = line.partition(": ")
            if name == self._field:
                return int(bytes_)
        raise RigError("this kernel does not count the bytes of a process")


class CpuHog(Perturber):
    """A job that steals part of a processor; see `cpu_hog`."""

    def __init__(self, share: float, cpu: int, pattern: Pattern) -> None:
        if not 0 < share <= 1:
            raise ValueError("a share of a CPU is above 0 and at most 1")
        super().__init__(["cpu-hog", str(cpu)], pattern)
        self.share = share

    def _prepare(self, made: contextlib.ExitStack) -> None:
        require("cpus")
        cpu, book = cgroups.need("cpu"), ledger()
        group = cpu.root / f"{cgroups.PREFIX}{book.name()}"
        made.callback(book.undo, book.record("group", path=str(group)))
        if cpu.version == 2:
            cgroups.enable(cpu.root, "cpu")
        group.mkdir()
        # The greatest weight and a hard limit: it gets its share whoever else is there.
        limits = cgroups.cpu_limits(cpu.version, self.share, cgroups.WEIGHT_MAX)
        for name, text in limits.items():
            cgroups.write(group / name, text)
        self._groups = [group]


def cpu_hog(
    share: float,
    cpu: int = 0,
    *,
    on: float | None = None,
    off: float = 0,
    seconds: float | None = None,
) -> CpuHog:
    """Takes that share of one CPU of the machine from whoever runs there (the paper: 0.75)."""
    return CpuHog(share, cpu, Pattern(on, off, seconds))


def memory_hog(
    bytes_: str | int,
    *,
    on: float | None = None,
    off: float = 0,
    seconds: float | None = None,
) -> Perturber:
    """Holds that much memory and touches it again each second, so that it is not paged out first.

    If the machine runs out of memory the kernel ends the hog before anybody else.
    """
    return Perturber(["memory-hog", str(units.amount(bytes_))], Pattern(on, off, seconds))


class Pause(Perturber):
    """Stops a process and lets it go on; see `pause`."""

    def __init__(self, pid: int, pattern: Pattern) -> None:
        super().__init__(["pause", str(pid)], pattern)
        self.target = pid

    def _prepare(self, made: contextlib.ExitStack) -> None:
        started = undo.started(self.target)
        if started is None:
            raise RigError(f"no process {self.target} to pause")
        book = ledger()
        facts = {"pid": str(self.target), "started": started}
        made.callback(book.undo, book.record("stopped", **facts))


def pause(
    pid: int,
    *,
    on: float | None = None,
    off: float = 0,
    seconds: float | None = None,
) -> Pause:
    """Stops a process for `on` seconds (or to the end of the `with`), and lets it go on for `off`.

    It goes on in any case when the `with` ends, or the caller.
    """
    return Pause(pid, Pattern(on, off, seconds))
