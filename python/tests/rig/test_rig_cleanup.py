"""A rig leaves no mount, device, group, namespace or process behind, however its process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import rig
from rig import cgroups
from rig_leftovers import ROOT, left_by, wait_for_end
from rig_requirements import needs

EVERYTHING = """
import sys, rig
from rig.cleanup.ledger import ledger
with rig.Disks(2, "2MB/s", size="32MB") as disks, rig.Cpu(0.5) as cpu:
    with disks[0].competitor("write", depth=2), rig.memory_hog("8MB"), rig.cpu_hog(0.1):
        cpu.start(["sleep", "1000"])
        (disks[1].path / "dirty").write_bytes(bytes(1 << 20))
        print(ledger().guardian.pid, flush=True)
        sys.stdin.read()
        {at_the_end}
"""


def rigged(at_the_end: str = "pass") -> tuple[subprocess.Popen[str], int]:
    """A process with one object of each kind, and the process id of its guardian."""
    process = subprocess.Popen(
        [sys.executable, "-c", EVERYTHING.format(at_the_end=at_the_end)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@needs("disks", "cpus")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_signalled_process_is_cleaned_up(how: signal.Signals) -> None:
    process, guardian = rigged()
    handle = os.pidfd_open(guardian)
    assert len(left_by(process.pid)) >= 8
    process.send_signal(how)
    process.communicate()
    wait_for_end(handle)
    assert left_by(process.pid) == []


@needs("disks", "cpus")
@pytest.mark.parametrize("at_the_end", ["pass", "raise OSError('on purpose')", "os._exit(3)"])
def test_exiting_process_is_cleaned_up(at_the_end: str) -> None:
    process, guardian = rigged(f"import os; {at_the_end}")
    handle = os.pidfd_open(guardian)
    process.communicate("")
    wait_for_end(handle)
    assert left_by(process.pid) == []


TOOL = """
import rig
from rig.cleanup.ledger import ledger
from rig.tools import tool
with rig.Cpu():
    print(ledger().guardian.pid, flush=True)
    tool("sh", "-c", "echo > /proc/$PPID/fd/1; sleep 1000")
"""


@needs("disks", "cpus")
def test_running_tool_ends_with_its_caller() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TOOL], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        handle = os.pidfd_open(int(process.stdout.readline()))
        assert process.stdout.readline() == b"\n"
        process.kill()
    wait_for_end(handle)
    assert left_by(process.pid) == []


@needs("disks", "cpus")
def test_next_start_reclaims_after_a_dead_guardian() -> None:
    process, guardian = rigged()
    handle = os.pidfd_open(guardian)
    os.kill(guardian, signal.SIGKILL)
    wait_for_end(handle)
    assert str(process.pid) not in rig.reclaim(), "its owner is alive"
    process.kill()
    process.wait()
    assert left_by(process.pid)
    # In a separate process: this one may have a ledger for the whole session.
    subprocess.run(
        [sys.executable, "-c", "import rig; rig.Cpu().__enter__()"], cwd=ROOT, check=True
    )
    assert left_by(process.pid) == []


@needs("disks")
def test_disk_in_use_is_removed_with_its_last_user() -> None:
    before = left_by(os.getpid())
    with rig.Disks(1, size="32MB") as disks:
        path = disks[0].path
        file = open(path / "file", "w")  # noqa: SIM115
    assert not os.path.ismount(path)
    file.close()
    assert left_by(os.getpid()) == before


@needs("disks")
def test_limits_are_lifted_on_exit() -> None:
    io, rare = cgroups.need("io"), 7_654_321

    def limited() -> bool:
        return any(str(rare) in path.read_text() for path in io.root.rglob("*bps_device"))

    with rig.Disks(1, rare, size="32MB"):
        assert limited() or io.version == 2
    assert not limited()
