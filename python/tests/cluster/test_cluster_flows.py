"""Concurrent, cancelled and failing flows on one cluster; closed clusters and invalid ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import euphrates as eu
import functions
from cluster_harness import is_alive, staged, wait_for, workers_of
from flow_outcomes import ROWS, numbers, result


def test_worker_exception_is_raised_in_the_program(cluster: eu.Cluster, tmp_path: Path) -> None:
    flow = eu.Flow("raises")
    raising = flow.place(functions.raising, id="picky")
    flow.chain(eu.generate("integers", rows=1000), raising, eu.save(tmp_path / "out.parquet"))
    with pytest.raises(eu.FlowError, match="seven is right out") as failed:
        flow.go(cluster=cluster)
    text = str(failed.value)
    assert "picky" in text and "worker w" in text and "functions.py" in text
    assert "ValueError" in text
    assert not (tmp_path / "out.parquet").exists()


def test_function_with_a_large_closure_is_shipped(cluster: eu.Cluster) -> None:
    many = bytes(40_000_000)

    def kept(batch: eu.Batch) -> eu.Batch:
        assert len(many) == 40_000_000
        return batch

    flow = eu.Flow("heavy")
    flow.chain(eu.generate("integers", rows=10), eu.map(kept), eu.collect())
    assert len(flow.go(cluster=cluster).collected()) == 10


def test_unpicklable_function_is_named_before_the_run(cluster: eu.Cluster) -> None:
    flow = eu.Flow("locked")
    kept = flow.place(eu.map(functions.keeping_a_lock()), id="keeps_a_lock")
    flow.chain(eu.generate("integers", rows=10), kept, eu.collect())
    with pytest.raises(eu.UsageError, match="lock") as refused:
        flow.go(cluster=cluster)
    assert "keeps_a_lock" in str(refused.value) and "locked" in str(refused.value)


def test_flows_run_concurrently(cluster: eu.Cluster) -> None:
    by = [{"column": "n", "descending": True}]
    flows = [numbers(300_000 + n, eu.sort(by), eu.collect()) for n in range(4)]
    for n, running in enumerate([flow.start(cluster=cluster) for flow in flows]):
        report = result(running)
        assert isinstance(report, eu.Report), report
        assert report.collected().to_pydict()["n"] == list(range(299_999 + n, -1, -1))


def test_failing_flow_does_not_affect_a_concurrent_one(cluster: eu.Cluster) -> None:
    fails = numbers(10**8, functions.raising, eu.collect()).start(cluster=cluster)
    works = numbers(ROWS, eu.filter("n % 2 = 0"), eu.count(), eu.collect()).start(cluster=cluster)
    assert isinstance(result(fails), eu.FlowError)
    report = result(works)
    assert isinstance(report, eu.Report), report
    assert report.collected().to_pylist() == [{"count": ROWS // 2}]


def test_cancelled_flow_leaves_the_cluster_usable(cluster: eu.Cluster, tmp_path: Path) -> None:
    for _ in range(3):
        running = numbers(10**11, eu.sort(["n"]), eu.write("out")).start(
            cluster=cluster, memory="96MiB"
        )
        wait_for(lambda: staged(tmp_path), "it writes")
        running.cancel()
        assert isinstance(result(running), eu.Interrupted)
        wait_for(lambda: not staged(tmp_path), "what it wrote is removed")
    counted = numbers(1000, eu.count(), eu.collect()).go(cluster=cluster)
    assert counted.collected().to_pylist() == [{"count": 1000}]


def test_dropped_flow_is_cancelled(cluster: eu.Cluster, tmp_path: Path) -> None:
    running = numbers(10**11, eu.write("out")).start(cluster=cluster)
    wait_for(lambda: staged(tmp_path), "it writes")
    del running
    wait_for(lambda: not staged(tmp_path), "what it wrote is removed")


def used(pid: int) -> tuple[int, int]:
    """The number of threads and open files of a process."""
    return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))


def test_repeated_flows_leak_no_threads_or_files(cluster: eu.Cluster) -> None:
    pids = [*workers_of(os.getpid()).values(), os.getpid()]
    flow = numbers(1000, eu.map(functions.same), eu.sort(["n"]), eu.collect())

    def run(times: int) -> None:
        for _ in range(times):
            assert flow.go(cluster=cluster).collected().to_pydict()["n"] == list(range(1000))

    run(5)
    before = [used(pid) for pid in pids]
    run(20)

    def has_not_grown() -> bool:
        now = zip(before, [used(pid) for pid in pids])
        return all(a <= b + 2 for then, at in now for b, a in zip(then, at))

    wait_for(has_not_grown, f"{before} again", 5)


def test_closed_cluster_rejects_use(tmp_path: Path) -> None:
    cluster = eu.Cluster.processes(2)
    pids = workers_of(os.getpid()).values()
    running = numbers(10**11, eu.write("out")).start(cluster=cluster)
    wait_for(lambda: staged(tmp_path), "it writes")
    cluster.close()
    assert isinstance(result(running), eu.EuphratesError)
    wait_for(lambda: not any(map(is_alive, pids)), "the workers end")
    cluster.close()
    for use in (lambda: cluster.workers, lambda: numbers(1, eu.collect()).go(cluster=cluster)):
        with pytest.raises(eu.UsageError, match="closed") as refused:
            use()
        assert "open it again" in str(refused.value)
    assert repr(cluster) == "<a closed cluster>"


def test_closing_a_cluster_removes_staged_files(tmp_path: Path) -> None:
    cluster = eu.Cluster.processes(2)
    endless = numbers(10**11, eu.sort(["n"]), eu.write("out"))
    running = endless.start(cluster=cluster, memory="96MiB")
    wait_for(lambda: staged(tmp_path), "it writes")
    cluster.close()
    result(running)
    assert not staged(tmp_path)


@pytest.mark.parametrize("words", ["processes:0", "processes:x", "procesess:2", "join", "at:x"])
def test_invalid_cluster_words_are_rejected(words: str) -> None:
    with pytest.raises(eu.UsageError) as refused:
        numbers(1, eu.collect()).go(cluster=words)
    assert refused.value.remedy


def test_non_utf8_home_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / os.fsdecode(b"\xff")))
    with pytest.raises(eu.UsageError, match="not UTF-8") as refused:
        numbers(1, eu.count(), eu.collect()).go(cluster="processes:1")
    assert refused.value.remedy
