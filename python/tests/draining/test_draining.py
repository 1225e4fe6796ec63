"""Workers that drain: flows that run are finished and not retried, later flows run without them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

import cluster_harness as clusters
import euphrates as eu
import gated_functions
from cluster_harness import Program, free_port, wait_for, worker, workers_of

HERE = "127.0.0.1"
ROWS = 3_000_000
"""About fifty batches."""
NAMES = ["w0", "w1", "w2"]


class Gate:
    """Holds the flows of a test where they pass `gated_functions.gated`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def map(self) -> Any:
        return eu.map(gated_functions.gated, arguments={"folder": str(self.folder)})

    def begun(self, pid: int) -> int:
        """How many batches this worker has begun."""
        return len(list(self.folder.glob(f"{pid}.*")))

    def open(self, pid: int | None = None) -> None:
        (self.folder / ("open" if pid is None else f"open-{pid}")).touch()


class Kept:
    """A keeper and its workers, and a program's connections to them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, clusters.new_token(folder)
        self.keeper, self.address = clusters.keep(folder, self.token)
        self.workers: dict[str, Program] = {}
        self.cluster: eu.Cluster | None = None

    def add(self, name: str, *words: str) -> Program:
        added = worker(self.folder, self.address, self.token, name, *words)
        self.workers[name] = added
        wait_for(lambda: f"{name} has joined" in self.keeper.stdout or added.ended, "it joins")
        return added

    def open(self) -> eu.Cluster:
        self.cluster = eu.Cluster.at(self.address, token_file=self.token)
        return self.cluster

    def start(self, flow: eu.Flow, gate: Gate) -> Any:
        """Starts a flow, and waits until every worker has begun a batch."""
        running = flow.start(cluster=self.cluster)
        everywhere = lambda: all(gate.begun(one.pid) for one in self.workers.values())  # noqa: E731
        wait_for(lambda: everywhere() or running.wait(0), "all workers have begun")
        assert not running.wait(0), running.finish()
        return running

    def drain(self, *names: str) -> None:
        """Terminates workers, and waits until all processes know that they drain."""
        for name in names:
            self.workers[name].process.send_signal(signal.SIGTERM)
        for name in names:
            wait_for(lambda name=name: f"{name} drains" in self.keeper.stdout, f"{name} drains")
        # A worker answers after it has reported the drain to this program, and again after it has
        # received which modules claim nothing there.
        assert self.cluster is not None
        for _ in range(2):
            self.cluster.ps()

    def command(self, name: str, *words: str) -> Program:
        joined = (self.address, "--worker", name, "--token-file", self.token, *words)
        return Program(self.folder, "drain", *joined)

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.close()
        for program in [*self.workers.values(), self.keeper]:
            if not program.ended:
                program.end()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    keeping = Kept(tmp_path)
    try:
        yield keeping
    finally:
        keeping.close()


@pytest.fixture
def three(kept: Kept) -> Kept:
    for name in NAMES:
        kept.add(name)
    kept.open()
    return kept


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()


def flow_of(*modules: Any) -> eu.Flow:
    flow = eu.Flow("numbers")
    flow.chain(*modules)
    return flow


def count(cluster: eu.Cluster | None, rows: int = 100_000) -> list[dict[str, int]]:
    counting = flow_of(eu.generate("integers", rows=rows), eu.count(), eu.collect())
    return counting.go(cluster=cluster).collected().to_pylist()


def finished(running: Any) -> eu.Report:
    assert running.wait(120), "the flow hangs"
    return running.finish()


def nothing_was_recomputed(report: eu.Report) -> bool:
    cost = {"failed_attempts": 0, "lost_seconds": 0.0, "rows_again": 0}
    return report.restarts == cost and "lost" not in str(report)


def left_in_order(program: Program) -> bool:
    return program.wait() == 0 and "no flow uses it" in program.stderr


def sorting(gate: Gate, own: Path) -> tuple[eu.Flow, Callable[[eu.Report], bool]]:
    descending = eu.sort([{"column": "n", "descending": True}])
    made = eu.generate("integers", rows=ROWS)
    flow = flow_of(made, gate.map(), descending, eu.save(own / "out.parquet"))
    wanted = pl.int_range(ROWS - 1, -1, -1, eager=True).to_arrow()
    return flow, lambda _: pq.read_table(own / "out.parquet")["n"].combine_chunks() == wanted


def grouping(gate: Gate, _: Path) -> tuple[eu.Flow, Callable[[eu.Report], bool]]:
    flow = flow_of(
        eu.generate("integers", rows=ROWS),
        gate.map(),
        eu.project(["n % 1000 as key", "n"]),
        eu.aggregate(by=["key"], values={"rows": "count()", "sum": "sum(n)"}),
        eu.sort(["key"]),
        eu.collect(),
    )
    each = ROWS // 1000
    sums = [key * each + 1000 * each * (each - 1) // 2 for key in range(1000)]
    wanted = {"key": list(range(1000)), "rows": [each] * 1000, "sum": sums}
    return flow, lambda report: report.collected().to_pydict() == wanted


def scanning(gate: Gate, own: Path) -> tuple[eu.Flow, Callable[[eu.Report], bool]]:
    for part in range(12):
        numbers = pl.DataFrame({"n": pl.int_range(part * 1000, (part + 1) * 1000, eager=True)})
        numbers.write_parquet(own / f"in-{part:02}.parquet")
    flow = flow_of(eu.scan(own / "in-*.parquet"), gate.map(), eu.save(own / "out.parquet"))
    return (
        flow,
        lambda _: (
            sorted(pq.read_table(own / "out.parquet")["n"].to_pylist()) == list(range(12_000))
        ),
    )


@pytest.mark.parametrize("case", [sorting, grouping, scanning])
def test_worker_drained_in_the_middle_costs_nothing(
    case: Any, three: Kept, gate: Gate, tmp_path: Path
) -> None:
    flow, is_right = case(gate, tmp_path)
    running = three.start(flow, gate)
    three.drain("w1")
    # A flow that starts now runs without it, while the other flow uses it.
    assert count(three.cluster) == [{"count": 100_000}]
    assert not three.workers["w1"].ended
    gate.open()
    report = finished(running)
    assert is_right(report) and nothing_was_recomputed(report), report
    assert left_in_order(three.workers["w1"])
    wait_for(lambda: "w1 has left" in three.keeper.stdout, "the keeper notices")
    assert count(three.cluster) == [{"count": 100_000}]


def test_drained_worker_takes_no_more_batches(three: Kept, gate: Gate) -> None:
    counting = flow_of(eu.generate("integers", rows=4 * ROWS), gate.map(), eu.count(), eu.collect())
    running = three.start(counting, gate)
    three.drain("w1")
    drained = three.workers["w1"].pid
    # It could take all that the others do not.
    gate.open(drained)
    had = gate.begun(drained)
    gate.open()
    assert finished(running).collected().to_pylist() == [{"count": 4 * ROWS}]
    total = sum(gate.begun(one.pid) for one in three.workers.values())
    assert total >= 180 and gate.begun(drained) - had <= 8, (total, had, gate.begun(drained))


def test_drained_worker_claims_no_more_partitions(three: Kept, gate: Gate) -> None:
    flow = flow_of(eu.generate("integers", rows=ROWS), eu.partition(["n"]))
    flow.attach("partition_1", flow.place(gate.map()))
    flow.attach("map_1", flow.place(eu.count()))
    flow.attach("count_1", flow.place(eu.collect()))
    running = three.start(flow, gate)
    three.drain("w1")
    drained = three.workers["w1"].pid
    gate.open(drained)
    gate.open()
    report = finished(running)
    assert report.collected().to_pylist() == [{"count": ROWS}] and nothing_was_recomputed(report)
    total = sum(gate.begun(one.pid) for one in three.workers.values())
    assert gate.begun(drained) < total / 6, (gate.begun(drained), total)


def test_idle_worker_leaves_at_once(three: Kept) -> None:
    three.workers["w1"].process.send_signal(signal.SIGTERM)
    assert left_in_order(three.workers["w1"])
    wait_for(lambda: len(three.cluster.workers) == 2, "the program notices")
    assert count(three.cluster) == [{"count": 100_000}]


def test_flows_finish_if_all_workers_drain(three: Kept, gate: Gate, tmp_path: Path) -> None:
    flow, is_right = sorting(gate, tmp_path)
    running = three.start(flow, gate)
    three.drain(*NAMES)
    with pytest.raises(eu.ResourceError, match="all workers of the cluster drain"):
        count(three.cluster)
    with pytest.raises(eu.ResourceError, match="0 of 1 workers"):
        eu.Cluster.at(three.address, token_file=three.token)
    gate.open()
    report = finished(running)
    assert is_right(report) and nothing_was_recomputed(report), report
    assert all(map(left_in_order, three.workers.values()))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_flow_is_retried_if_a_draining_worker_ends(
    end: signal.Signals, three: Kept, gate: Gate, tmp_path: Path
) -> None:
    flow, is_right = sorting(gate, tmp_path)
    running = three.start(flow, gate)
    three.drain("w1")
    three.workers["w1"].process.send_signal(end)
    assert three.workers["w1"].wait() == (0 if end != signal.SIGKILL else -signal.SIGKILL)
    said = "it was terminated again" in three.workers["w1"].stderr
    assert said == (end == signal.SIGTERM)
    gate.open()
    report = finished(running)
    assert is_right(report) and report.restarts["failed_attempts"] == 1, report


def test_worker_leaves_its_flows_at_the_deadline(kept: Kept, gate: Gate, tmp_path: Path) -> None:
    kept.add("w0")
    ending = kept.add("w1", "--drain-timeout", "0")
    kept.open()
    flow, is_right = sorting(gate, tmp_path)
    running = kept.start(flow, gate)
    ending.process.send_signal(signal.SIGTERM)
    assert ending.wait() == 0 and "--drain-timeout is over" in ending.stderr
    gate.open()
    report = finished(running)
    assert is_right(report) and report.restarts["failed_attempts"] == 1, report


def test_command_drains_a_worker(three: Kept, gate: Gate, tmp_path: Path) -> None:
    flow, is_right = sorting(gate, tmp_path)
    running = three.start(flow, gate)
    command = three.command("w1")
    wait_for(lambda: "w1 drains" in three.keeper.stdout or command.ended, "it drains")
    with eu.Cluster.at(three.address, token_file=three.token) as later:
        assert [one.name for one in later.workers] == ["w0", "w2"]
        assert count(later) == [{"count": 100_000}]
    assert not command.ended
    gate.open()
    report = finished(running)
    assert is_right(report) and nothing_was_recomputed(report), report
    assert command.wait() == 0 and command.stdout == "w1 has left\n", command.stderr
    assert left_in_order(three.workers["w1"])


def test_command_names_an_unknown_worker_and_an_unreachable_keeper(kept: Kept) -> None:
    kept.add("w0")
    unknown = kept.command("w9")
    assert unknown.wait() == 2
    assert "no worker named `w9`" in unknown.stderr and "w0" in unknown.stderr
    nowhere = f"{HERE}:{free_port()}"
    named = ("--worker", "w0", "--token-file", kept.token)
    unreachable = Program(kept.folder, "drain", nowhere, *named)
    assert unreachable.wait() not in (0, 2) and nowhere in unreachable.stderr
    assert not kept.workers["w0"].ended


@pytest.mark.parametrize("way", ["signal", "command"])
def test_drained_worker_that_stays_is_not_restarted(way: str, kept: Kept) -> None:
    staying = kept.add("loyal", "--stay")
    if way == "signal":
        staying.process.send_signal(signal.SIGTERM)
    else:
        assert kept.command("loyal").wait() == 0
    assert left_in_order(staying) and "restarted" not in staying.stderr
    wait_for(lambda: "loyal has left" in kept.keeper.stdout, "it leaves")


def test_supervised_worker_drains_and_ends_at_a_second_signal(
    kept: Kept, gate: Gate, tmp_path: Path
) -> None:
    kept.add("w0")
    staying = kept.add("w1", "--stay")
    kept.open()
    flow, is_right = sorting(gate, tmp_path)
    running = flow.start(cluster=kept.cluster)
    inner = workers_of(staying.pid)["w1"]
    wait_for(lambda: gate.begun(inner) or running.wait(0), "it has begun")
    staying.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "w1 drains" in kept.keeper.stdout, "it drains")
    staying.process.send_signal(signal.SIGTERM)
    assert staying.wait() == 0 and "terminated again" in staying.stderr
    gate.open()
    report = finished(running)
    assert is_right(report) and report.restarts["failed_attempts"] == 1, report
