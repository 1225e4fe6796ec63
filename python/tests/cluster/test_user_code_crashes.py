"""User code that crashes its process on a worker: the flow retries or fails with an error that
names the crash; the worker and other flows are unaffected.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cluster_harness as clusters
import crashing_functions as crashing
import euphrates as eu
import functions
from cluster_harness import is_alive, wait_for, workers_of

ROWS = 1_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[eu.Cluster]:
    with clusters.processes(2) as started:
        yield started


def numbers(*modules: Any, rows: int = ROWS) -> eu.Flow:
    flow = eu.Flow("numbers")
    flow.chain(eu.generate("integers", rows=rows), *modules)
    return flow


def counted(cluster: eu.Cluster) -> list[dict[str, Any]]:
    return numbers(eu.count(), eu.collect()).go(cluster=cluster).collected().to_pylist()


@pytest.mark.parametrize("way", crashing.WAYS)
def test_crashing_function_names_its_rows_and_spares_the_worker(
    way: str, cluster: eu.Cluster, tmp_path: Path
) -> None:
    pids = workers_of(os.getpid())
    output = tmp_path / "out.parquet"
    crash = eu.map(crashing.crash, arguments={"way": way})
    with pytest.raises(eu.FlowError, match="crashed twice") as failed:
        numbers(crash, eu.save(output)).go(cluster=cluster)
    told = str(failed.value)
    assert crashing.WAYS[way][1] in told and "map_1" in told and "worker w" in told, told
    first, _, last = told.split("rows ")[1].split(" of its input")[0].partition(" to ")
    assert int(last) - int(first) < ROWS, told
    assert failed.value.remedy
    assert not output.exists()
    assert workers_of(os.getpid()) == pids and all(map(is_alive, pids.values()))
    assert len(cluster.workers) == 2
    assert counted(cluster) == [{"count": ROWS}]


def test_batch_is_retried_after_a_crash(cluster: eu.Cluster, tmp_path: Path) -> None:
    once = eu.map(crashing.crash_once, arguments={"marker": str(tmp_path / "crashed")})
    total = eu.aggregate([], values={"sum": "sum(n)", "rows": "count()"})
    report = numbers(once, total, eu.collect()).go(cluster=cluster)
    assert (tmp_path / "crashed").exists()
    assert report.collected().to_pylist() == [{"sum": ROWS * (ROWS - 1) // 2, "rows": ROWS}]
    assert "SIGSEGV" in str(report) and "restarted" in str(report)
    assert "began again" not in str(report)


def test_order_is_kept_across_a_crash(cluster: eu.Cluster, tmp_path: Path) -> None:
    once = eu.map(crashing.crash_once, arguments={"marker": str(tmp_path / "crashed")})
    flow = numbers(eu.sort(["n"]), once, eu.save(tmp_path / "out.parquet"))
    flow.go(cluster=cluster)
    read = eu.Flow("read")
    read.chain(eu.scan(tmp_path / "out.parquet", order=True), eu.collect())
    assert read.go().collected().to_pydict()["n"] == list(range(ROWS))


def test_crash_in_a_partition_names_its_rows(cluster: eu.Cluster) -> None:
    crash = eu.map(crashing.crash_in_partition)
    flow = numbers(eu.partition(["n"]), crash, eu.count(), eu.collect())
    with pytest.raises(eu.FlowError, match=r"rows \d+ to \d+ of its input.*SIGSEGV"):
        flow.go(cluster=cluster)


def test_crashed_class_restarts_with_its_flow(cluster: eu.Cluster, tmp_path: Path) -> None:
    once = crashing.Stateful(str(tmp_path / "crashed"))
    total = eu.aggregate([], values={"sum": "sum(sum)"})
    report = numbers(once, total, eu.collect()).go(cluster=cluster)
    assert report.collected().to_pylist() == [{"sum": ROWS * (ROWS - 1) // 2}]
    assert "SIGSEGV" in str(report) and "began again" in str(report)
    assert len(cluster.workers) == 2


def test_class_crashing_repeatedly_fails_after_two_attempts(cluster: eu.Cluster) -> None:
    flow = numbers(crashing.Stateful(), eu.count(), eu.collect())
    with pytest.raises(eu.FlowError, match="gave up after 2 crashes") as failed:
        flow.go(cluster=cluster)
    told = str(failed.value)
    assert "SIGSEGV" in told and "python_1" in told and "rows " in told
    assert counted(cluster) == [{"count": ROWS}]


def test_crash_does_not_affect_another_programs_flow(tmp_path: Path) -> None:
    with clusters.persistent(tmp_path, ["w0", "w1"]) as one:
        said = (tmp_path / "0.out").read_text().splitlines()
        address = next(line.split()[-1] for line in said if "join at" in line)
        other = eu.Cluster.at(address, token_file=tmp_path / "token", workers=2)
        with other:
            works = numbers(eu.map(functions.same), eu.count(), eu.collect()).start(cluster=one)
            crash = eu.map(crashing.crash, arguments={"way": "segmentation fault"})
            for _ in range(2):
                with pytest.raises(eu.FlowError, match="SIGSEGV"):
                    numbers(crash, eu.count(), eu.collect()).go(cluster=other)
            report = works.finish()
        assert report.collected().to_pylist() == [{"count": ROWS}]
        assert "lost" not in str(report) and "again" not in str(report)
        assert len(one.workers) == 2


def test_dead_worker_is_restarted_for_the_next_flow() -> None:
    with clusters.processes(2) as cluster:
        before = workers_of(os.getpid())
        os.kill(before["w1"], signal.SIGKILL)
        wait_for(lambda: len(cluster.workers) == 1, "the loss is noticed")
        report = numbers(eu.map(functions.same), eu.count(), eu.collect()).go(cluster=cluster)
        assert report.collected().to_pylist() == [{"count": ROWS}]
        assert "w1 had been lost and was restarted" in str(report)
        after = workers_of(os.getpid())
        assert after["w0"] == before["w0"] and after["w1"] != before["w1"]
        assert [worker.name for worker in cluster.workers] == ["w0", "w1"]


def test_staying_worker_is_restarted_when_it_dies(tmp_path: Path) -> None:
    token = clusters.new_token(tmp_path)
    keeper, address = clusters.keep(tmp_path, token)
    staying = clusters.worker(tmp_path, address, token, "w0", "--stay")
    try:
        wait_for(lambda: "w0 has joined" in keeper.stdout, "it joins")
        with eu.Cluster.at(address, token_file=token) as cluster:
            [first] = workers_of(staying.pid).values()
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: keeper.stdout.count("w0 has joined") == 2, "it joins again")
            [second] = workers_of(staying.pid).values()
            assert first != second and not is_alive(first)
            wait_for(lambda: not cluster.workers, "the loss is noticed")
            assert counted(cluster) == [{"count": ROWS}]
        assert "is restarted" in staying.stderr
    finally:
        staying.end()
        keeper.end()
    assert not is_alive(second)


def test_user_code_processes_end_with_their_worker(tmp_path: Path) -> None:
    before = {*workers_of(os.getpid()).values()}
    with clusters.processes(1) as cluster:
        [worker] = {*children_of(os.getpid())} - before
        running = numbers(eu.map(functions.spinning), eu.collect()).start(cluster=cluster)
        children = wait_for(lambda: [pid for pid in children_of(worker)], "it computes")
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: not any(map(is_alive, children)), "they end", 10)
        running.cancel()


def children_of(pid: int) -> list[int]:
    every = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [one for one in every if clusters.parent(one) == pid]
