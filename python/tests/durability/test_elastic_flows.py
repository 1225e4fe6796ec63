"""A flow with `resume` goes on with workers that join while it runs, and computes nothing twice."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cluster_harness as clusters
import euphrates as eu
import functions
from cluster_harness import Program, wait_for, worker

GROUPS = 1_000
GROUP_ROWS = 20
TEXT_BYTES = 5_000
MEMORY = "16MiB"
"""Queues have room for few of the units, so that nearly all are left while the flow waits."""
EXPECTED = list(range(GROUPS * GROUP_ROWS))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / "home"))
    texts = pa.array([f"{number}".ljust(TEXT_BYTES, ".") for number in range(GROUP_ROWS)])
    table = pa.table({"n": EXPECTED, "text": pa.chunked_array([texts] * GROUPS)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=GROUP_ROWS)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    return clusters.new_token(tmp_path)


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """Programs that are ended after the test, the last first."""
    started: list[Program] = []
    yield started
    for program in reversed(started):
        program.end()


@pytest.fixture
def keeper(tmp_path: Path, token: Path, programs: list[Program]) -> str:
    program, address = clusters.keep(tmp_path, token)
    programs.append(program)
    return address


def copying(file_bytes: int = 100_000, at: Sequence[str] = ()) -> eu.Flow:
    """A flow of many units, which waits behind the first for a file `go`, and writes at workers."""
    flow = eu.Flow("copy")
    flow.chain(
        eu.scan("in.parquet"),
        eu.map(functions.after_go),
        flow.place(eu.save_dataset("out", file_bytes=file_bytes), workers=at),
    )
    return flow


def go_on_with(cluster: eu.Cluster, name: str, folder: Path) -> None:
    """Lets the flow go on once the program knows the worker."""
    wait_for(lambda: name in [one.name for one in cluster.workers], f"{name} is admitted")
    (folder / "go").touch()


def saved(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder / "out").column("n").to_pylist())


def rows_of_last_attempt(report: eu.Report) -> int:
    return next(module.rows_out for module in report.modules if module.id == "scan_1")


def rows_kept(report: eu.Report) -> int:
    """Rows in the files of earlier attempts, as the last attempt has found them."""
    kept = [re.match(r"[\d,]+ files of .* with ([\d,]+) rows", text) for text in report.losses]
    return max(int(found[1].replace(",", "")) for found in kept if found)


def reports(report: eu.Report, text: str) -> bool:
    return any(text in loss for loss in report.losses)


def test_joined_worker_takes_part_and_nothing_is_computed_twice(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    programs.append(worker(tmp_path, keeper, token, "w0"))
    wait_for(lambda: "w0 has joined" in programs[0].stdout, "w0 has joined")
    with eu.Cluster.at(keeper, token_file=token) as cluster:
        running = copying().start(cluster=cluster, resume=True, memory=MEMORY)
        programs.append(worker(tmp_path, keeper, token, "w1"))
        go_on_with(cluster, "w1", tmp_path)
        report = running.finish()
        assert [one.name for one in cluster.workers] == ["w0", "w1"]
    assert reports(report, "worker w1 joined; the flow goes on with it after"), report
    assert saved(tmp_path) == EXPECTED
    assert rows_kept(report) + rows_of_last_attempt(report) == GROUPS * GROUP_ROWS
    assert report.restarts is not None and report.restarts["failed_attempts"] == 0
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".out")]


def test_worker_joins_in_place_of_a_lost_one(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    doomed = worker(tmp_path, keeper, token, "w0")
    programs += [doomed, worker(tmp_path, keeper, token, "w1")]
    wait_for(lambda: programs[0].stdout.count("has joined") == 2, "both have joined")
    with eu.Cluster.at(keeper, token_file=token, workers=2, lost_after=2) as cluster:
        running = copying().start(cluster=cluster, resume=True, memory=MEMORY)
        os.kill(doomed.pid, signal.SIGKILL)
        programs.append(worker(tmp_path, keeper, token, "w2"))
        go_on_with(cluster, "w2", tmp_path)
        # It joins an attempt without w0, or the next one has it from the start.
        report = running.finish()
        assert [one.name for one in cluster.workers] == ["w1", "w2"]
    assert reports(report, "worker w0 was lost"), report
    assert saved(tmp_path) == EXPECTED


def test_worker_that_cannot_take_part_is_left_out(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    programs.append(worker(tmp_path, keeper, token, "w0"))
    wait_for(lambda: "w0 has joined" in programs[0].stdout, "w0 has joined")
    with eu.Cluster.at(keeper, token_file=token) as cluster:
        running = copying().start(cluster=cluster, resume=True, memory=MEMORY)
        # It does not find the module of the function, which the plan names.
        env = {"PYTHONPATH": str(Path(eu.__file__).parents[1])}
        programs.append(worker(tmp_path, keeper, token, "w1", env=env))
        go_on_with(cluster, "w1", tmp_path)
        report = running.finish()
        assert reports(report, "worker w1") and reports(report, "the flow goes on without it"), (
            report
        )
        assert saved(tmp_path) == EXPECTED
        shutil.rmtree(tmp_path / "out")
        copying().go(cluster=cluster)
    assert saved(tmp_path) == EXPECTED


def test_flow_without_units_keeps_its_workers_and_the_next_one_uses_all(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    programs.append(worker(tmp_path, keeper, token, "w0"))
    wait_for(lambda: "w0 has joined" in programs[0].stdout, "w0 has joined")
    with eu.Cluster.at(keeper, token_file=token) as cluster:
        running = copying().start(cluster=cluster, memory=MEMORY)
        (tmp_path / "go").touch()
        programs.append(worker(tmp_path, keeper, token, "w1"))
        wait_for(lambda: "w1 has joined" in programs[0].stdout, "w1 has joined")
        assert running.finish().losses == []
        assert [one.name for one in cluster.workers] == ["w0"]
        shutil.rmtree(tmp_path / "out")
        copying().go(cluster=cluster)
        assert [one.name for one in cluster.workers] == ["w0", "w1"]
    assert saved(tmp_path) == EXPECTED


def test_program_that_listens_for_workers_admits_later_ones(
    tmp_path: Path, programs: list[Program]
) -> None:
    def start(address: str, token: Path) -> list[Program]:
        later.append((address, token))
        return [worker(tmp_path, address, token, "w0")]

    later: list[tuple[str, Path]] = []
    with clusters.joined_by(start, tmp_path, 1) as cluster:
        running = copying().start(cluster=cluster, resume=True, memory=MEMORY)
        programs.append(worker(tmp_path, *later[0], "w1"))
        go_on_with(cluster, "w1", tmp_path)
        report = running.finish()
    assert reports(report, "worker w1 joined"), report
    assert saved(tmp_path) == EXPECTED


def test_what_other_workers_hold_is_kept_when_one_is_killed(tmp_path: Path) -> None:
    def is_written(running: eu.Running) -> bool:
        return any(one.id == "save_dataset_1" and one.rows_in for one in running.progress().modules)

    with clusters.processes(2) as cluster:
        # No file is full, and none ends early: no unit ends behind the first ones.
        flow = copying(file_bytes=1 << 30, at=["w0"])
        running = flow.start(cluster=cluster, resume=True, memory=MEMORY)
        wait_for(lambda: is_written(running), "rows are written")
        os.kill(clusters.workers_of(os.getpid())["w1"], signal.SIGKILL)
        (tmp_path / "go").touch()
        report = running.finish()
    assert reports(report, "worker w1 was lost") and rows_kept(report) > 0, report
    assert saved(tmp_path) == EXPECTED
