"""Memory limits, and swap on a disk of the rig; skipped with the reason where unsupported.

Swap is global to the machine: it is not tested where there is other swap.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rig

WHY = rig.missing("memory", "disks")
SWAPS = Path("/proc/swaps")
pytestmark = [
    pytest.mark.skipif(WHY is not None, reason=WHY or ""),
    pytest.mark.skipif(len(SWAPS.read_text().splitlines()) > 1, reason="the machine has swap"),
]

NEEDS = """
import pathlib
held = bytearray(48_000_000)
held[::4096] = b"x" * len(held[::4096])
status = pathlib.Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmSwap")))
"""


def test_oversized_process_swaps() -> None:
    needing = [sys.executable, "-c", NEEDS]
    with rig.Disks(1, size="96MB") as disks, rig.Memory("24MB") as memory:
        with rig.Swap(disks[0], "64MB"):
            assert "swap" in SWAPS.read_text()
            swapping = memory.start(needing, stdout=subprocess.PIPE, text=True)
            kibibytes, _ = swapping.communicate()
            assert swapping.returncode == 0
            assert int(kibibytes) > 20_000
        assert len(SWAPS.read_text().splitlines()) == 1, "the swap is gone"
        killed = memory.start(needing, stdout=subprocess.DEVNULL)
        assert killed.wait() == -signal.SIGKILL


def test_processes_end_with_their_memory_group() -> None:
    with rig.Memory("64MB") as memory:
        sleeper = memory.start(["sleep", "1000"])
    assert sleeper.wait() == -signal.SIGKILL


def test_entering_a_closed_memory_group_is_rejected() -> None:
    with pytest.raises(rig.RigError, match="not there"):
        rig.Memory("64MB").inside(["true"])
