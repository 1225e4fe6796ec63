"""Measures the actual rates of disks, CPUs and links of the rig, for `python -m rig doctor`."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import cgroups
from .cpus import Cpu
from .disks import Disk, Disks
from .hosts import Host, Hosts
from .tools import tool

REQUEST = 1 << 20
STREAM = Path(__file__).with_name("stream.py")
SPIN = """
import time
end = time.monotonic() + {seconds}
while time.monotonic() < end: pass
print(time.process_time() / {seconds})
"""


@dataclass(frozen=True)
class Measured:
    """A requested value and the measured one."""

    what: str
    asked: float
    got: float
    unit: str

    def __str__(self) -> str:
        return f"{self.what}: asked {self.asked:g} {self.unit}, got {self.got:.3g} {self.unit}"


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def write(path: Path, bytes_: int, *, direct: bool = True, flags: int = 0) -> None:
    """Writes a file in requests of one size, past the page cache or through it."""
    flags |= os.O_CREAT | os.O_WRONLY | (os.O_DIRECT if direct else 0)
    with mmap.mmap(-1, REQUEST) as buffer:
        file = os.open(path, flags, 0o600)
        for place in range(0, bytes_, REQUEST):
            os.pwritev(file, [buffer], place)
        os.close(file)


def read(path: Path, bytes_: int, *, direct: bool = True) -> None:
    """Reads a file in requests of one size, past the page cache or through an empty one."""
    with mmap.mmap(-1, REQUEST) as buffer:
        file = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        for place in range(0, bytes_, REQUEST):
            os.preadv(file, [buffer], place)
        os.close(file)


def fsynced(path: Path, bytes_: int) -> None:
    write(path, bytes_, direct=False)
    file = os.open(path, os.O_WRONLY)
    os.fsync(file)
    os.close(file)


def flushed(path: Path, bytes_: int) -> None:
    """Syncs the whole file system: the kernel's own threads write it back."""
    write(path, bytes_, direct=False)
    tool("sync", "--file-system", str(path))


def ways(disk: Disk, bytes_: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every way of transferring bytes, with its name."""
    file = disk.path / "measured"
    yield "direct writes", lambda: write(file, bytes_)
    yield "direct reads", lambda: read(file, bytes_)
    yield "buffered writes and fsync", lambda: fsynced(file, bytes_)
    yield "buffered writes, flushed by the kernel", lambda: flushed(file, bytes_)
    yield "buffered reads", lambda: read(file, bytes_, direct=False)
    yield "reads of the device itself", lambda: read(disk.device, bytes_)


def disk_rates(rate: int = 20_000_000, bytes_: int = 10 * REQUEST) -> list[Measured]:
    """A disk's rate in every way, a changed rate, and the rate left by a competitor."""
    found = []
    with Disks(1, rate) as disks:
        disk = disks[0]
        for name, action in ways(disk, bytes_):
            found.append(Measured(name, rate / 1e6, bytes_ / seconds(action) / 1e6, "MB/s"))
        file = disk.path / "measured"
        disk.set_rate(rate / 2)
        slow = bytes_ / seconds(lambda: read(file, bytes_)) / 1e6
        found.append(Measured("direct reads after set_rate", rate / 2e6, slow, "MB/s"))
        disk.set_rate(rate)
        for name, action in list(ways(disk, bytes_))[:2]:
            with disk.competitor("read" if "read" in name else "write"):
                left = bytes_ / seconds(action) / 1e6
            found.append(Measured(f"{name} beside a competitor", rate / 2e6, left, "MB/s"))
    return found


def cpu_shares(quotas: tuple[float, ...] = (0.5, 0.25, 0.1)) -> list[Measured]:
    """CPU seconds per second of a program that would use a whole CPU."""
    found = []
    for quota in quotas:
        with Cpu(quota) as cpu:
            command = [sys.executable, "-S", "-c", SPIN.format(seconds=1)]
            process = cpu.start(command, stdout=subprocess.PIPE, text=True)
            used = float(process.communicate()[0])
        found.append(Measured(f"a CPU of {quota:g}", quota, used, "CPUs"))
    return found


class Stream:
    """A stream from one host to another for some seconds, at full speed."""

    def __init__(self, sender: Host, receiver: Host, seconds: float, each: int = 1 << 62) -> None:
        script = [sys.executable, "-S", str(STREAM)]
        self._receiver = receiver.start(
            [*script, "receive", "--each", str(each)], stdout=subprocess.PIPE, text=True
        )
        port = self._line()
        self.sender = sender.start([*script, "send", receiver.address, port, str(seconds)])

    def _line(self) -> str:
        assert self._receiver.stdout is not None
        return str(self._receiver.stdout.readline().strip())

    def came(self) -> tuple[int, float]:
        """Waits for `each` more bytes or the end: total bytes, and seconds since the first byte."""
        bytes_, seconds = self._line().split()
        return int(bytes_), float(seconds)

    def end(self) -> tuple[int, float]:
        """Waits for the end: total bytes, and seconds since the first byte."""
        bytes_, seconds = self._receiver.communicate()[0].splitlines()[-1].split()
        return int(bytes_), float(seconds)


def link_rates(rates: tuple[int, ...] = (5, 20, 50, 125), seconds: float = 1.0) -> list[Measured]:
    """The rate of one stream, of one in each direction at once, and of two into one host."""
    found = []
    with Hosts(3) as hosts:
        one, other, third = hosts

        def streamed(what: str, rate: float, *pairs: tuple[Host, Host]) -> None:
            streams = [Stream(sender, receiver, seconds) for sender, receiver in pairs]
            for stream in streams:
                bytes_, took = stream.end()
                found.append(Measured(what, rate, bytes_ / took / 1e6, "MB/s"))

        for rate in rates:
            for host in hosts:
                host.set_link_rate(rate * 1e6)
            streamed("a stream between hosts", rate, (one, other))
        for host in hosts:
            host.set_link_rate(20e6)
        streamed("a stream each way", 20, (one, other), (other, one))
        streamed("two streams into one host", 10, (one, third), (other, third))
    return found


def control_groups() -> list[str]:
    """The control group version of each controller."""
    found = []
    for name in ("io", "cpu"):
        controller = cgroups.find(name)
        where = f"version {controller.version}, {controller.root}" if controller else "none"
        found.append(f"control group for {name}: {where}")
    return found
