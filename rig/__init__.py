"""Throttled disks, CPUs, links and hosts on one machine, and faults that make them slow.

The paper's disks gave 5.45 MB/s each (River, 3.1.1), so one modern machine holds a cluster of them.
A disk is a file system in an image file whose rate the kernel limits. A CPU is a share of the
machine's CPUs. A host is a network namespace with a link of a set rate; it can have a disk and a
CPU. Perturbers slow a component the way the paper did (figures 5, 6, 7): a competing stream, a job
that takes part of a processor, occupied memory, a paused process. See docs/rig.md.
"""

from __future__ import annotations

from .cleanup.ledger import reclaim
from .cpus import Cpu
from .disks import Disk, Disks
from .faults.perturbers import Perturber, cpu_hog, memory_hog, pause
from .faults.slow_clients import SlowClients
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
    "SlowClients",
    "Swap",
    "Syscalls",
    "cpu_hog",
    "memory_hog",
    "missing",
    "pause",
    "reclaim",
]
