"""Objects that a rig's process has left on the machine."""

from __future__ import annotations

import os
import select
from pathlib import Path

from rig import cgroups
from rig.cleanup import ledger, undo

ROOT = Path(__file__).resolve().parents[3]


def left_by(pid: int) -> list[str]:
    """All objects on the machine that carry the name of a rig's process."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines()
              if f"{ledger.STATE}/{pid}/" in line]  # fmt: skip
    loops = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        loops += [str(path)] if f"{cgroups.PREFIX}{pid}-" in path.read_text() else []
    controllers = [cgroups.need(name) for name in ("io", "cpu")]
    groups = [str(path) for one in controllers for path in one.root.glob(f"*rig-{pid}-*")]
    namespaces = [str(path) for path in undo.NAMESPACES.glob(f"{cgroups.PREFIX}{pid}-*")]
    marks = f"EUPHRATES_RIG={pid}-".encode()
    marked = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            marked += [str(path)] if marks in path.read_bytes() else []
        except OSError:
            continue
    state = [str(path) for path in ledger.STATE.glob(str(pid))]
    return mounts + loops + groups + namespaces + marked + state


def wait_for_end(handle: int) -> None:
    assert select.select([handle], [], [], 120)[0], "did not end"
    os.close(handle)
