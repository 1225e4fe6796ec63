"""Disks that vanish, fill up or fail during a flow."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import euphrates as eu
import rig
from test_failure import EUPHRATES, flow_file, in_small_disk

ROWS = 2_000_000
EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2

needs_rig = pytest.mark.skipif(rig.missing("disks") is not None, reason=str(rig.missing("disks")))


def name_disks(home: Path, *folders: Path, rate: int | None = None) -> list[str]:
    home.mkdir(parents=True, exist_ok=True)
    disks = [
        {"name": f"d{at}", "folder": str(folder), "worker": f"w{at}", "mode": "direct"}
        for at, folder in enumerate(folders)
    ]
    limit = {} if rate is None else {"rate": rate}
    (home / "disks.json").write_text(json.dumps([disk | limit for disk in disks]))
    return [disk["name"] for disk in disks]


def write(disks: list[str], copies: int) -> None:
    flow = eu.Flow("write")
    numbers = eu.generate("integers", rows=ROWS, order=True)
    flow.chain(numbers, eu.write("kept", disks=disks, copies=copies))
    flow.go()


def read(after_a_batch: Callable[[], object]) -> eu.Report:
    """Reads the collection as a stream; `meanwhile` runs after its first batch."""
    happened = []

    def pass_on(batch: eu.Batch) -> eu.Batch:
        if not happened:
            happened.append(after_a_batch())
        return batch

    flow = eu.Flow("read")
    flow.chain(eu.read("kept", order=True), flow.place(pass_on, count=1), eu.collect())
    return flow.go()


def numbers(report: eu.Report) -> list[int]:
    return [row["n"] for row in report.collected().to_pylist()]


@pytest.fixture
def rig_disks() -> Iterator[rig.Disks]:
    with rig.Disks(2, size="48MB") as disks:
        yield disks


def pull(disk: rig.Disk) -> None:
    """Makes every later request to the disk an I/O error."""
    folder = os.open(disk, os.O_RDONLY)
    fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    os.close(folder)


@needs_rig
def test_reader_survives_a_pulled_mirrored_disk(rig_disks: rig.Disks, tmp_path: Path) -> None:
    write(name_disks(tmp_path / "home", *(disk.path / "data" for disk in rig_disks)), copies=2)
    for disk in rig_disks:
        disk.set_rate("8MB/s")
    report = read(lambda: pull(rig_disks[1]))
    assert numbers(report) == list(range(ROWS))
    assert "read from mirrors: disk d1" in str(report)


@needs_rig
def test_pulled_unmirrored_disk_is_named_with_the_block(
    rig_disks: rig.Disks, tmp_path: Path
) -> None:
    write(name_disks(tmp_path / "home", *(disk.path / "data" for disk in rig_disks)), copies=1)
    for disk in rig_disks:
        disk.set_rate("8MB/s")
    with pytest.raises(eu.CorruptError, match=r"block \d+ of kept/.* from disks d1: ") as caught:
        read(lambda: pull(rig_disks[1]))
    assert "Input/output error" in str(caught.value) and "verify" in str(caught.value)


@pytest.mark.parametrize("copies", [1, 2])
def test_removed_disk_folder_is_detected_by_the_next_reader(copies: int, tmp_path: Path) -> None:
    home, folders = tmp_path / "home", [tmp_path / "one", tmp_path / "two"]
    write(name_disks(home, *folders), copies)
    name_disks(home, *folders, rate=8_000_000)
    # A process with open files keeps them.
    assert numbers(read(lambda: shutil.rmtree(folders[1]))) == list(range(ROWS))
    if copies == 1:
        with pytest.raises(eu.CorruptError, match=r"two/kept/.* is missing(.|\n)*is disk `d1` in"):
            read(lambda: None)
    else:
        report = read(lambda: None)
        assert numbers(report) == list(range(ROWS))
        assert "damaged copies, read from mirrors: disk d1" in str(report)


@pytest.mark.parametrize("copies", [1, 2])
def test_full_disk_publishes_nothing_partial(copies: int, tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    disks = name_disks(tmp_path / "home", large, small)
    document = flow_file(
        tmp_path / "flow.json",
        {"module": "generate", "config": {"what": "integers", "rows": ROWS}},
        {"module": "write", "config": {"collection": "kept", "disks": disks, "copies": copies}},
    )
    done = in_small_disk(small, [EUPHRATES, "run", str(document)], 4)
    assert done.returncode == 4, done.stderr
    assert "No space left" in done.stderr and "remedy" in done.stderr and "small" in done.stderr
    assert [name for name in done.stdout.split() if name != ".staging"] == []
    assert not [path for path in large.rglob("*") if path.is_file()]
    listed = subprocess.run([EUPHRATES, "ls"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""
