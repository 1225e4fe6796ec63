"""Which features of the rig this machine supports, with a short reason for each that it lacks."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from . import cgroups
from .tools import RigError

TOOLS = ("losetup", "mkfs.ext4", "mount", "umount")
SWAP_TOOLS = ("mkswap", "swapon", "swapoff")
NETWORK_TOOLS = ("ip", "tc", "nsenter", "unshare")
CAP_NET_ADMIN = 12
CAP_SYS_ADMIN = 21
# Tries each part of a network of hosts, in a namespace that ends with the script.
PROBE = """
try() { word=$1; shift; "$@" >/dev/null 2>&1 || { echo "no $word"; exit 1; }; }
try "virtual links (veth)" ip link add name a type veth peer name b
try "network bridges" ip link add name c type bridge
try "token buckets (tc tbf)" tc qdisc replace dev a root tbf rate 1mbit burst 64k limit 64k
try "black holes (tc blackhole)" tc qdisc replace dev a root blackhole
"""


def missing(*wanted: str) -> str | None:
    """The reason why the named features (all, if none is named) are unavailable, or None."""
    named = {
        "disks": missing_for_disks,
        "cpus": missing_for_cpus,
        "hosts": missing_for_hosts,
        "memory": missing_for_memory,
        "syscalls": missing_for_syscalls,
    }
    unknown = set(wanted) - set(named)
    if unknown:
        raise ValueError(f"no such feature: {', '.join(sorted(unknown))} ({', '.join(named)})")
    why = missing_for_all()
    for name, missing_for in named.items():
        if why is None and (not wanted or name in wanted):
            why = missing_for()
    return why


def require(*wanted: str) -> None:
    """Raises `RigError` with the reason from `missing`."""
    why = missing(*wanted)
    if why is not None:
        raise RigError(why)


def missing_for_all() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not capabilities() >> CAP_SYS_ADMIN & 1:
        return "needs root's rights to mount (CAP_SYS_ADMIN)"
    return missing_for_ledger()


def missing_for_ledger() -> str | None:
    """The reason why no guardian can run, or None: processes need no root, but always a
    guardian.
    """
    if not hasattr(os, "pidfd_open"):
        return "no pidfd (Linux 5.3)"
    if os.geteuid() == 0 and not os.access("/run", os.W_OK):
        return "no /run to write to"
    return None


def capabilities() -> int:
    """The effective capabilities of this process: root in a container has few of them."""
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


def missing_for_memory() -> str | None:
    absent = [name for name in SWAP_TOOLS if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)}"
    memory = cgroups.find("memory")
    if memory is None:
        return "no memory control group"
    if not os.access(memory.root / "cgroup.procs", os.W_OK):
        return "memory control group is read-only"
    return None


def missing_for_syscalls() -> str | None:
    system = os.uname()
    if system.machine != "x86_64":
        return "the numbers of system calls are known for x86-64 only"
    release = tuple(int(number) for number in re.findall(r"\d+", system.release)[:2])
    return None if release >= (5, 19) else "no seccomp notifications that signals leave alone"


def missing_for_hosts() -> str | None:
    if not capabilities() >> CAP_NET_ADMIN & 1:
        return "needs root's rights to networks (CAP_NET_ADMIN)"
    absent = [name for name in NETWORK_TOOLS if shutil.which(name) is None]
    return f"no {', '.join(absent)}" if absent else missing_for_networks()


@functools.cache
def missing_for_networks() -> str | None:
    """The network feature that the kernel refuses, or None; asked once per process."""
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
        return "no network namespaces"
    tried = subprocess.run(["unshare", "--net", "sh", "-c", PROBE], capture_output=True, text=True)
    return tried.stdout.strip() or None
