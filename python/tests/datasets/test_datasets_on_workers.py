"""Folders of files that several workers write at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import cluster_harness as clusters
import euphrates as eu
from cluster_harness import wait_for, workers_of
from dataset_cases import by_duckdb, files_in, visible

ROWS = 2_000_000


def save(out: Path, rows: int = ROWS, **options: object) -> eu.Flow:
    flow = eu.Flow("save")
    numbers = flow.place(eu.generate("integers", rows=rows), per_worker=1)
    groups = flow.place(eu.project(["n", "n % 50 as g"]), per_worker=1)
    target = flow.place(eu.save_dataset(out, **options), per_worker=1)
    flow.chain(numbers, groups, target)
    return flow


@pytest.mark.parametrize("by", [[], ["g"]])
def test_all_workers_write_files_of_one_folder(by: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with clusters.processes(2) as cluster:
        report = save(out, partition_by=by).go(cluster=cluster)
        assert report.modules[-1].count == 2
        found = by_duckdb(out)
        assert found.num_rows == ROWS
        assert sum(found["n"].to_pylist()) == ROWS * (ROWS - 1) // 2
        if by:
            assert len(files_in(out)) == len(os.listdir(out)) == 50
        save(out, partition_by=by, mode="append").go(cluster=cluster)
        query = eu.query(eu.scan(out)).group_by().agg(rows="count()", all="sum(n)")
        assert query.to_pylist(cluster=cluster) == [{"rows": 2 * ROWS, "all": ROWS * (ROWS - 1)}]
    assert visible(tmp_path) == ["out"]


def test_lost_worker_leaves_no_file_of_its_attempt(tmp_path: Path) -> None:
    out, rows = tmp_path / "out", 30_000_000
    with clusters.processes(2) as cluster:
        running = save(out, rows=rows, file_bytes=1_000_000).start(cluster=cluster)
        wait_for(lambda: len(list(tmp_path.glob(".out.*/part-*"))) > 4, "files")
        os.kill(workers_of(os.getpid())["w1"], signal.SIGKILL)
        running.wait()
    found = eu.query(eu.scan(out)).group_by().agg(rows="count()", all="sum(n)")
    assert found.to_pylist() == [{"rows": rows, "all": rows * (rows - 1) // 2}]
    assert visible(tmp_path) == ["out"]
