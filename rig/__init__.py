"""A real cluster's disks, CPUs and links on one machine, and what makes them slow.

The paper's disks gave 5.45 MB/s each (River, 3.1.1), so one machine of today holds a cluster of
them. A disk is a file system in an image file whose rate the kernel limits; a CPU is a share of the
machine's; a host is a network namespace with a link of a set rate, and has both. Perturbers make
them slow the way the paper did (figures 5, 6, 7): a competing stream, a job that steals part of a
processor, memory that is gone, a pause. See docs/rig.md.
"""

from __future__ import annotations

from .cleanup.ledger import reclaim
from .cpus import Cpu
from .disks import Disk, Disks
from .faults.perturbers import Perturber, cpu_hog, memory_hog, pause
from .faults.slow_clients import Strangers
from .faults.syscalls import Fault, Syscalls
from .features import missing
from .hosts import Host, Hosts
from .memory import Memory, Swap
from .ray import RayCluster
from .tools import RigError

__all__ = [
    "Cpu",
    "Disk",
    "Disks",
    "Fault",
    "Host",
    "Hosts",
    "Memory",
    "Perturber",
    "RayCluster",
    "RigError",
    "Strangers",
    "Swap",
    "Syscalls",
    "cpu_hog",
    "memory_hog",
    "missing",
    "pause",
    "reclaim",
]
