"""Where the kernel's control groups are, and what to write into them: version 1 and version 2.

Version 1 has a tree for each controller, and a limit on a disk holds for the group it is written to
and no other, not even a group below. The root may have one: it then holds for whatever is not in a
group of its own, and for the kernel's threads that write buffered data back. So the rig limits its
disks in the root and in the caller's group, and all I/O there waits in one line, as at a disk.

Version 2 has one tree; a limit holds for everything below, and the root has none. So the caller is
moved into a group made for it. Buffered data is charged to who wrote it, if `memory` is on too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .tools import RigError

PREFIX = "euphrates-rig-"
WEIGHT_NORMAL = 100
WEIGHT_MAX = 10_000


@dataclass(frozen=True)
class Controller:
    """A controller of this machine: `root` is its tree, `own` the group this process is in."""

    version: int
    root: Path
    own: Path


def find(name: str) -> Controller | None:
    """The controller of that name (version 1 says blkio for io), or None."""
    old = {"io": "blkio"}.get(name, name)
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, options = line.split()[:4]
        root = Path(where)
        if kind == "cgroup" and old in options.split(","):
            return Controller(1, root, own_group(root, old))
        if kind == "cgroup2" and name in words(root / "cgroup.controllers"):
            return Controller(2, root, own_group(root, ""))
    return None


def need(name: str) -> Controller:
    controller = find(name)
    if controller is None:
        raise RigError(f"no control group for {name}")
    return controller


def words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def own_group(root: Path, name: str) -> Path:
    """A container may see a part of the tree only: then what it sees is all there is."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if name in controllers.split(",") and (root / path.lstrip("/")).is_dir():
            return root / path.lstrip("/")
    return root


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise RigError(f"cannot write {text!r} to {path}: {error.strerror}") from error


def io_limits(version: int, device: str, rate: int | None, iops: int | None) -> dict[str, str]:
    """What to write to which file so that `device` gives that many bytes and requests a second."""
    if version == 1:
        limits = {"bps": rate, "iops": iops}
        return {
            f"blkio.throttle.{way}_{unit}_device": f"{device} {limit or 0}"
            for way in ("read", "write")
            for unit, limit in limits.items()
        }
    bps, each = rate or "max", iops or "max"
    return {"io.max": f"{device} rbps={bps} wbps={bps} riops={each} wiops={each}"}


def cpu_limits(version: int, quota: float | None, weight: int) -> dict[str, str]:
    """What to write so that a group has at most `quota` CPUs, and `weight` beside others."""
    # Short periods, so that a slow CPU is slow and not in turns fast and gone; but the kernel
    # gives no less than a millisecond of a period, and has none longer than a second.
    period = 20_000 if quota is None else min(1_000_000, max(20_000, round(1000 / quota)))
    most = None if quota is None else max(1000, round(quota * period))
    if version == 1:
        return {
            "cpu.cfs_period_us": str(period),
            "cpu.cfs_quota_us": str(most or -1),
            "cpu.shares": str(max(2, weight * 1024 // WEIGHT_NORMAL)),
        }
    return {"cpu.max": f"{most or 'max'} {period}", "cpu.weight": str(weight)}


def memory_limits(version: int, size: int) -> dict[str, str]:
    """What to write so that a group has that much memory, and all the swap it asks for."""
    if version == 1:
        return {"memory.limit_in_bytes": str(size), "memory.swappiness": "60"}
    return {"memory.max": str(size)}


def enable(group: Path, *names: str) -> None:
    """Version 2 has a controller in the groups below only where it is asked for."""
    on = words(group / "cgroup.subtree_control")
    for name in names:
        if name in words(group / "cgroup.controllers") and name not in on:
            write(group / "cgroup.subtree_control", f"+{name}")


def joining(groups: list[Path], command: list[str]) -> list[str]:
    """The command that enters the groups and then is `command`, in the same process."""
    script = "".join(f'echo $$ >"${number}" && ' for number in range(1, len(groups) + 1))
    inside = [str(group / "cgroup.procs") for group in groups]
    return ["sh", "-c", f'{script}shift {len(groups)} && exec "$@"', "sh", *inside, *command]


def made_for_caller(own: Path) -> Path | None:
    """The group above the caller that holds its disks' limits, if it is in one (version 2)."""
    above = own.parent
    inside = own.name == "main" and above.name.startswith(f"{PREFIX}{os.getpid()}-")
    return above if inside else None
