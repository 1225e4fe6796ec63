"""Several scratch folders: one that is full, fails or is slow, and the report of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

import euphrates as eu
import rig

ROWS = 3_000_000
MEMORY = 32 << 20
needs_rig = pytest.mark.skipif(rig.missing("disks") is not None, reason=str(rig.missing("disks")))


def sort_beyond_memory(output: Path, folders: list[Path], **options: Any) -> eu.Report:
    flow = eu.Flow("spilling")
    flow.chain(eu.generate("integers", rows=ROWS), eu.sort(["n desc"]), eu.save(str(output)))
    report = flow.go(memory=MEMORY, cores=2, scratch=folders, progress=False, **options)
    # The last rows of each instance may stay in the quarter of the memory that modules divide.
    assert sum(module.spilled_bytes for module in report.modules) > 8 * ROWS - MEMORY // 4
    expected = pl.int_range(ROWS - 1, -1, -1, eager=True).to_arrow()
    assert pq.read_table(output)["n"].combine_chunks() == expected
    return report


def left_out(report: eu.Report) -> list[str]:
    return [loss for loss in report.losses if "was left out" in loss]


def test_folder_that_fails_is_left_out_and_named(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    (bad / "blocked").write_text("")
    # A file in place of the folder: every file of it fails.
    shutil.rmtree(bad)
    bad.symlink_to("/proc/self")
    report = sort_beyond_memory(tmp_path / "n.parquet", [bad, good])
    (told,) = left_out(report)
    assert str(bad) in told and told in str(report)


def test_no_folder_is_left_out_without_a_reason(tmp_path: Path) -> None:
    report = sort_beyond_memory(tmp_path / "n.parquet", [tmp_path / "a", tmp_path / "b"])
    assert not left_out(report)


@needs_rig
def test_full_disk_is_left_out_before_it_fails(tmp_path: Path) -> None:
    with rig.Disks(2, size="256MB") as disks:
        full, free = (disk.path / "scratch" for disk in disks)
        full.mkdir()
        room = shutil.disk_usage(full).free
        with (full / "others").open("wb") as others:
            others.truncate(0)
            block = bytes(1 << 20)
            for _ in range((room >> 20) - 3):
                others.write(block)
        report = sort_beyond_memory(tmp_path / "n.parquet", [full, free])
        (told,) = left_out(report)
        assert str(full) in told and "full" in told


@needs_rig
def test_slow_disk_receives_less(tmp_path: Path) -> None:
    rows = 6_000_000
    with rig.Disks(2, size="1GB", rate="40MB/s") as disks:
        disks[1].set_rate("4MB/s")
        flow = eu.Flow("spilling")
        flow.chain(
            eu.generate("integers", rows=rows),
            eu.project(["n as k", "n * 3 as t"]),
            eu.aggregate(by=["k"], values={"s": "sum(t)"}),
            eu.count(),
            eu.collect(),
        )
        folders = [disk.path / "scratch" for disk in disks]
        report = flow.go(memory="32MiB", cores=2, scratch=folders, progress=False)
        assert not left_out(report)
        # Past the page cache, which takes the rest at once.
        written = {disk.name: disk.written_bytes for disk in report.disks}
        fast, slow = (written.get(f"device-{os.stat(disk.path).st_dev}", 0) for disk in disks)
        # By turns, both would receive the same.
        assert slow < 0.6 * fast
