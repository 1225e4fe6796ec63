"""Paths and contents of the kernel's control groups, versions 1 and 2.

Version 1 has one tree per controller. A disk limit applies to its own group only, not to the groups
below. A limit on the root applies to every process outside a group of its own, and to the kernel
threads that write back buffered data. The rig therefore limits its disks in the root and in the
caller's group, and all I/O there shares one queue, as at a disk.

Version 2 has one tree. A limit applies to everything below its group, and the root takes no limit.
The rig therefore moves the caller into a group made for it. Buffered data is charged to the process
that wrote it if the `memory` controller is enabled too.
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
    """A controller of this machine: `root` is its tree, `own` the group of this process."""

    version: int
    root: Path
    own: Path


def find(name: str) -> Controller | None:
    """The controller of that name (version 1 calls `io` blkio), or None."""
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
    """The group of this process. In a container that sees part of the tree, that part is the
    root.
    """
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
    """File names and contents that limit `device` to these bytes and requests a second."""
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
    """File names and contents that limit a group to `quota` CPUs and give it `weight`."""
    # Short periods make a CPU slow rather than alternately fast and stopped. The kernel grants at
    # least 1 ms per period, and a period lasts at most 1 s.
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
    """File names and contents that limit a group's memory and leave its swap unlimited."""
    if version == 1:
        return {"memory.limit_in_bytes": str(size), "memory.swappiness": "60"}
    return {"memory.max": str(size)}


def enable(group: Path, *names: str) -> None:
    """Enables a controller for the groups below: version 2 needs this on each level."""
    on = words(group / "cgroup.subtree_control")
    for name in names:
        if name in words(group / "cgroup.controllers") and name not in on:
            write(group / "cgroup.subtree_control", f"+{name}")


def joining(groups: list[Path], command: list[str]) -> list[str]:
    """The command that enters the groups and then executes `command` in the same process."""
    script = "".join(f'echo $$ >"${number}" && ' for number in range(1, len(groups) + 1))
    inside = [str(group / "cgroup.procs") for group in groups]
    return ["sh", "-c", f'{script}shift {len(groups)} && exec "$@"', "sh", *inside, *command]


def made_for_caller(own: Path) -> Path | None:
    """The group above the caller that holds its disks' limits, or None (version 2 only)."""
    above = own.parent
    inside = own.name == "main" and above.name.startswith(f"{PREFIX}{os.getpid()}-")
    return above if inside else None
