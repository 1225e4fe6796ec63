"""The rig on the real kernel, with root; elsewhere skipped with the reason.

No rate may be exceeded by more than the kernel's burst. A lower rate on a loaded machine is
accepted.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rig
from rig import cgroups, features, measure, units
from rig.cleanup import ledger
from rig_leftovers import ROOT
from rig_requirements import needs

MB = 1_000_000
REQUEST = measure.REQUEST
RATE = 8 * MB


def at_once(rate: float) -> float:
    """The kernel's burst before it throttles: 0.2 seconds of the rate and a request."""
    return rate / 5 + REQUEST


def assert_not_faster(bytes_: int, seconds: float, rate: float) -> None:
    assert seconds >= (bytes_ - at_once(rate)) / rate


@pytest.fixture
def disk() -> Iterator[rig.Disk]:
    with rig.Disks(1, RATE, size="32MB") as disks:
        yield disks[0]


# --- parsing -------------------------------------------------------------------------------------


def test_amounts_and_rates_are_parsed() -> None:
    assert units.rate("5.45MB/s") == 5_450_000
    assert units.rate("20 MiB/s") == 20 << 20
    assert units.amount("64MB") == units.amount(64 * MB) == 64 * MB
    assert units.rate("1Gbit/s") == units.rate("125MB/s") == 125 * MB
    assert units.rate(None) is None


def test_ambiguous_bit_or_byte_rate_is_rejected() -> None:
    with pytest.raises(ValueError, match="bits or bytes"):
        units.rate("1Gb/s")


@pytest.mark.parametrize("bad", ["", "fast", "1.2.3MB", "0", 0, -1, "5 TB/s", "fastbit/s"])
def test_invalid_amounts_are_rejected(bad: str | int) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        units.rate(bad)


def test_limits_match_each_cgroup_version() -> None:
    assert cgroups.io_limits(2, "7:0", 1000, None) == {
        "io.max": "7:0 rbps=1000 wbps=1000 riops=max wiops=max"
    }
    old = cgroups.io_limits(1, "7:0", 1000, None)
    assert old["blkio.throttle.read_bps_device"] == "7:0 1000"
    assert old["blkio.throttle.write_iops_device"] == "7:0 0"
    assert cgroups.cpu_limits(2, 0.25, 100) == {"cpu.max": "5000 20000", "cpu.weight": "100"}
    assert cgroups.cpu_limits(2, 0.03, 100)["cpu.max"] == "1000 33333", "no less than 1 ms"
    assert cgroups.cpu_limits(1, None, 50)["cpu.cfs_quota_us"] == "-1"
    assert cgroups.cpu_limits(1, None, 50)["cpu.shares"] == "512"


def test_missing_root_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert rig.missing() == "needs root"
    with pytest.raises(rig.RigError, match="needs root"), rig.Disks(1):
        pass


def test_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "TOOLS", ("no-such-tool",))
    assert features.missing_for_disks() == "no no-such-tool"


def test_ledger_writable_by_others_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert not ledger.is_own(folder)
    folder.mkdir(mode=0o700)
    assert ledger.is_own(folder)
    folder.chmod(0o777)
    assert not ledger.is_own(folder)


# --- disks ---------------------------------------------------------------------------------------

Way = Callable[[Path, int], None]
WAYS: dict[str, Way] = {
    "direct writes": measure.write,
    "writes and fsync": measure.fsynced,
    "writes flushed by the kernel": measure.flushed,
    "direct reads": measure.read,
    "buffered reads": lambda path, bytes_: measure.read(path, bytes_, direct=False),
}


@needs("disks")
@pytest.mark.parametrize("way", WAYS)
def test_disk_never_exceeds_its_rate(disk: rig.Disk, way: str) -> None:
    if way == "writes flushed by the kernel" and at_own_limits_only():
        pytest.skip("the kernel's own threads are out of reach in this container")
    path, bytes_ = disk.path / "file", 6 * REQUEST
    if "reads" in way:
        disk.set_rate(None)
        measure.write(path, bytes_)
        disk.set_rate(RATE)
    assert_not_faster(bytes_, measure.seconds(lambda: WAYS[way](path, bytes_)), RATE)


def at_own_limits_only() -> bool:
    """In a container with version 1, the apparent root group is not the root."""
    io = cgroups.find("io")
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return (
        io is not None
        and io.version == 1
        and io.own == io.root
        and (not any(line.endswith(":blkio:/") for line in lines))
    )


@needs("disks")
def test_disks_have_independent_rates() -> None:
    bytes_ = 4 * REQUEST
    with rig.Disks(2, RATE, size="32MB") as disks:
        disks[0].set_rate(RATE // 2)
        slow = measure.seconds(lambda: measure.write(disks[0].path / "file", bytes_))
        assert (disks[0].rate, disks[1].rate) == (RATE // 2, RATE)
    assert_not_faster(bytes_, slow, RATE / 2)


@needs("disks")
def test_disk_requests_per_second_are_limited() -> None:
    with rig.Disks(1, None, iops=10, size="32MB") as disks:
        path = disks[0].path / "file"
        took = measure.seconds(lambda: measure.write(path, 12 * REQUEST))
    assert took >= (12 - 2 - 1) / 10


@needs("disks")
def test_rate_change_slows_a_running_stream(disk: rig.Disk) -> None:
    """One process streams; another thread changes the rate meanwhile."""
    disk.set_rate("100MB/s")
    slow_rate = 2 * MB
    begun, slowed, done_bytes, at = threading.Event(), threading.Event(), [0], [0.0]

    def stream() -> None:
        while not slowed.is_set():
            measure.read(disk.device, REQUEST)
            begun.set()
        at[0] = time.perf_counter()
        measure.read(disk.device, 3 * REQUEST)
        done_bytes[0] = 3 * REQUEST
        at[0] = time.perf_counter() - at[0]

    reader = threading.Thread(target=stream)
    reader.start()
    begun.wait()
    disk.set_rate(slow_rate)
    slowed.set()
    reader.join()
    assert done_bytes[0]
    assert_not_faster(done_bytes[0], at[0], slow_rate)


@needs("disks")
@pytest.mark.parametrize("way", ["read", "write"])
def test_competitor_takes_its_share_of_the_rate(disk: rig.Disk, way: str) -> None:
    ours = 0
    path = disk.path / "file"
    start = time.perf_counter()
    with disk.competitor(way) as competitor:
        while competitor.moved_bytes() < 3 * REQUEST:
            measure.read(disk.device, REQUEST) if way == "read" else measure.write(path, REQUEST)
            ours += REQUEST
        theirs = competitor.moved_bytes()
        seconds = time.perf_counter() - start
    assert_not_faster(ours + theirs - REQUEST, seconds, RATE)
    assert sorted(name.name for name in disk.path.iterdir()) == (["file"] if way == "write" else [])


@needs("disks")
def test_invalid_rig_options_are_rejected(disk: rig.Disk) -> None:
    with pytest.raises(ValueError, match="reads or writes"):
        disk.competitor("erase")
    with pytest.raises(ValueError, match="multiple of 4096"):
        disk.competitor(request=1000)
    with pytest.raises(ValueError, match="`on` seconds"):
        disk.competitor(off=1)
    with pytest.raises(ValueError, match="at least one"):
        rig.Disks(0)


# --- CPUs, memory, pauses ------------------------------------------------------------------------

SPIN = "import sys, time\nwhile time.process_time() < {cpu_seconds}: pass\n"


@needs("cpus")
def test_cpu_never_exceeds_its_quota() -> None:
    with rig.Cpu(1.0) as cpu:
        cpu.set_quota(0.2)
        start = time.perf_counter()
        code = SPIN.format(cpu_seconds=0.15)
        assert cpu.start([sys.executable, "-S", "-c", code]).wait() == 0
        assert time.perf_counter() - start >= (0.15 - 0.02) / 0.2


@needs("cpus")
def test_stolen_cpu_is_slower_until_restored() -> None:
    with rig.Cpu(0.8) as cpu:
        with cpu.stolen(0.75):
            start = time.perf_counter()
            code = SPIN.format(cpu_seconds=0.15)
            cpu.start([sys.executable, "-S", "-c", code]).wait()
            assert time.perf_counter() - start >= (0.15 - 0.02) / 0.2
        cpu.set_weight(50)
        assert cpu.quota == 0.8


@needs("cpus")
def test_processes_end_with_their_cpu() -> None:
    with rig.Cpu() as cpu:
        sleeper = cpu.start(["sleep", "1000"])
    assert sleeper.wait() == -signal.SIGKILL


@needs("cpus")
def test_cpu_hog_takes_exactly_its_share() -> None:
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before, start = used(), time.perf_counter()
    with rig.cpu_hog(0.5, seconds=0.4) as hog:
        hog.wait()
    took = used() - before
    assert 0 < took <= 0.5 * (time.perf_counter() - start) + 0.1


@needs("disks", "cpus")
def test_memory_hog_holds_its_amount() -> None:
    with rig.memory_hog("32MB") as hog:
        status = Path(f"/proc/{hog.pid}/status").read_text()
        held = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        assert int(held) * 1024 >= 32 * MB
        assert Path(f"/proc/{hog.pid}/oom_score_adj").read_text().strip() == "1000"


@needs("disks", "cpus")
def test_paused_process_stops_and_resumes() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        assert cat.stdin is not None and cat.stdout is not None
        with rig.pause(cat.pid):
            # The kernel reports the stop to the parent by waitpid.
            assert os.WIFSTOPPED(os.waitpid(cat.pid, os.WUNTRACED)[1])
        cat.stdin.write(b"on\n")
        cat.stdin.flush()
        assert cat.stdout.readline() == b"on\n"
        cat.stdin.close()


@needs("disks", "cpus")
def test_pattern_ends_after_its_seconds() -> None:
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        start = time.perf_counter()
        with rig.pause(sleeper.pid, on=0.02, off=0.02, seconds=0.2) as pause:
            pause.wait()
            assert time.perf_counter() - start >= 0.15
        sleeper.kill()


# --- the command line ----------------------------------------------------------------------------


@needs("disks")
def test_disks_command_passes_the_exit_code(tmp_path: Path) -> None:
    script = 'echo data > "$0/x" && cp "$0/x" "$1/x" && df "$1" | tail -1 && exit 7'
    command = [sys.executable, "-m", "rig", "disks", "2", "--rate", "20MB/s", "--size", "32MB"]
    done = subprocess.run(
        [*command, "--", "sh", "-c", script, "{0}", "{1}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.startswith("/dev/loop")


def test_rig_command_reports_usage_errors() -> None:
    command = [sys.executable, "-m", "rig", "disks", "1", "--rate", "quick", "true"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "not an amount above zero" in done.stderr
