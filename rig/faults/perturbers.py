"""Perturbers slow a component without failing it. Each is a process that runs within a `with`.

All take a pattern: `on` seconds working and `off` seconds idle, in turns, for `seconds` in all.
Without one a perturber works all the time.
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
    """The times at which a perturber works."""

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
    """A process that perturbs a component. It works when `__enter__` returns."""

    def __init__(self, what: list[str], pattern: Pattern) -> None:
        self._command = [sys.executable, "-S", str(SCRIPT), *pattern.arguments(), *what]
        self._groups: list[Path] = []
        self._made = contextlib.ExitStack()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self: Self) -> Self:
        with contextlib.ExitStack() as made:
            self._prepare(made)
            # It has its own session: Ctrl-C is left to the caller.
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
        """Prepares what the process needs before it starts."""

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RigError("this perturber is not at work: use it in a `with`")
        return self._process.pid

    def wait(self) -> None:
        """Waits until its `seconds` have passed."""
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
        """Bytes read or written since its start."""
        for line in Path(f"/proc/{self.pid}/io").read_text().splitlines():
            name, _, bytes_ = line.partition(": ")
            if name == self._field:
                return int(bytes_)
        raise RigError("this kernel does not count the bytes of a process")


class CpuHog(Perturber):
    """A job that takes part of a processor; see `cpu_hog`."""

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
        # The greatest weight and a hard limit give it its share regardless of other load.
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
    """Takes that share of one of the machine's CPUs from all other processes (the paper: 0.75)."""
    return CpuHog(share, cpu, Pattern(on, off, seconds))


def memory_hog(
    bytes_: str | int,
    *,
    on: float | None = None,
    off: float = 0,
    seconds: float | None = None,
) -> Perturber:
    """Holds that much memory and touches it every second, so that other memory is paged out first.

    If the machine runs out of memory, the kernel kills the hog before any other process.
    """
    return Perturber(["memory-hog", str(units.amount(bytes_))], Pattern(on, off, seconds))


class Pause(Perturber):
    """Stops and resumes a process; see `pause`."""

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
    """Stops a process for `on` seconds (or to the end of the `with`) and resumes it for `off`.

    The process always resumes when the `with` or the caller ends.
    """
    return Pause(pid, Pattern(on, off, seconds))
