"""Whether this machine can be a rig, in a word that a person or a skipped test can show."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import cgroups
from .tools import RigError

TOOLS = ("losetup", "mkfs.ext4", "mount", "umount")
CAP_SYS_ADMIN = 21


def missing(*wanted: str) -> str | None:
    """Why not: the first thing missing for "disks" or "cpus" (both if none is named), or None."""
    unknown = set(wanted) - {"disks", "cpus"}
    if unknown:
        raise ValueError(f"no such feature: {', '.join(sorted(unknown))} (disks, cpus)")
    why = missing_for_all()
    if why is None and (not wanted or "disks" in wanted):
        why = missing_for_disks()
    if why is None and (not wanted or "cpus" in wanted):
        why = missing_for_cpus()
    return why


def require(*wanted: str) -> None:
    """Raises with the word of `missing`."""
    why = missing(*wanted)
    if why is not None:
        raise RigError(why)


def missing_for_all() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not capabilities() >> CAP_SYS_ADMIN & 1:
        return "needs root's rights to mount (CAP_SYS_ADMIN)"
    if not hasattr(os, "pidfd_open"):
        return "no pidfd (Linux 5.3)"
    if not os.access("/run", os.W_OK):
        return "no /run to write to"
    return None


def capabilities() -> int:
    """Root in a container has few of its rights."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def missing_for_disks() -> str | None:
    absent = [name for name in TOOLS if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)}"
    try:
        os.close(os.open("/dev/loop-control", os.O_RDWR))
    except OSError:
        return "no loop devices"
    io = cgroups.find("io")
    if io is None:
        return "no io control group"
    if io.version == 1 and not (io.root / "blkio.throttle.read_bps_device").exists():
        return "no blkio throttle"
    if not os.access(io.root / "cgroup.procs", os.W_OK):
        return "io control group is read-only"
    return None


def missing_for_cpus() -> str | None:
    cpu = cgroups.find("cpu")
    if cpu is None:
        return "no cpu control group"
    if cpu.version == 1 and not (cpu.root / "cpu.cfs_quota_us").exists():
        return "no cpu quota"
    if not os.access(cpu.root / "cgroup.procs", os.W_OK):
        return "cpu control group is read-only"
    return None
