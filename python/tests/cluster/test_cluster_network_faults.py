"""Network faults between joined workers: partitions, cut links, and slow clients. No record is lost
or duplicated, and a flow that must give up names the reason.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cluster_harness as clusters
import euphrates as eu
import rig
from cluster_harness import Command, Program, free_port, staged, wait_for, worker
from flow_outcomes import ROWS, numbers, output_is_consistent, rows_out, saving, writing
from rig_requirements import needs

PATIENCE = 180
"""A timeout that only a hang exceeds."""


def outcome_of(running: Any) -> eu.Report:
    """The report of a flow, which must end."""
    assert running.wait(PATIENCE), "the flow hangs"
    return running.finish()


def counted(cluster: eu.Cluster) -> list[dict[str, int]]:
    return numbers(1000, eu.count(), eu.collect()).go(cluster=cluster).collected().to_pylist()


# --- links ---------------------------------------------------------------------------------------


class Machines:
    """Hosts of the rig with a worker each, and the cluster that the workers have joined."""

    def __init__(self, hosts: rig.Hosts, folder: Path) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.workers: dict[str, Program] = {}
        self.folder = folder
        self.outside = hosts.outside

    @contextlib.contextmanager
    def joined(self) -> Iterator[eu.Cluster]:
        with clusters.joined_by(
            self._start, self.folder, len(self.hosts), self.outside
        ) as self.cluster:
            yield self.cluster

    def _start(self, address: str, token: Path) -> list[Command]:
        for name, host in self.hosts.items():
            self.workers[name] = worker(self.folder, address, token, name, inside=host.inside)
        return [*self.workers.values()]

    def staging(self) -> list[str]:
        """The workers that have staged files, in host order."""
        names = [path.name for path in staged(self.folder)]
        return [worker for worker in self.hosts if any(f"-{worker}-" in name for name in names)]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with rig.Hosts(3, "20MB/s") as hosts:
        machines = Machines(hosts, tmp_path)
        with machines.joined():
            yield machines


@needs("hosts")
@pytest.mark.parametrize("way", ["both", "in", "out"])
def test_one_second_partition_loses_no_record(way: str, machines: Machines, tmp_path: Path) -> None:
    flow, read = saving(tmp_path)
    running = flow.start(cluster=machines.cluster)
    for name, rows in (("host1", ROWS // 4), ("host2", ROWS)):
        wait_for(lambda rows=rows: rows_out(running) > rows or running.wait(0), "it runs")
        with machines.hosts[name].cut(way):
            assert not running.wait(1), "it has ended without a worker that it needs"
    assert output_is_consistent(read, outcome_of(running))
    assert not staged(tmp_path)


@needs("hosts")
@pytest.mark.parametrize(
    ("output", "way"), [(saving, "both"), (writing, "both"), (saving, "out"), (writing, "in")]
)
def test_flow_continues_without_a_partitioned_worker(
    output: Any, way: str, machines: Machines, tmp_path: Path
) -> None:
    flow, read = output(tmp_path)
    running = flow.start(cluster=machines.cluster)
    [lost, *_] = wait_for(machines.staging, "it writes")
    machines.hosts[lost].cut(way)
    report = outcome_of(running)
    assert f"{lost} was lost" in str(report)
    assert output_is_consistent(read, report)
    assert lost not in [one.name for one in machines.cluster.workers]
    assert counted(machines.cluster) == [{"count": 1000}]
    assert machines.workers[lost].wait() == 0, "it notices that it is unreachable"
    assert not staged(tmp_path)
    assert output_is_consistent(read, report)


@needs("hosts")
def test_flow_waits_for_a_transient_partition_between_workers(
    machines: Machines, tmp_path: Path
) -> None:
    flow, read = writing(tmp_path)
    running = flow.start(cluster=machines.cluster)
    wait_for(lambda: rows_out(running) > ROWS // 4, "it runs")
    one, other, _ = machines.hosts.values()
    with one.part_from(other):
        # The program learns of the partition from both workers, and no data moves, for longer than
        # the modules' timeout and shorter than the heartbeat timeout of their connection.
        assert not running.wait(5), "it has ended without what these two owe each other"
    assert output_is_consistent(read, outcome_of(running))
    assert len(machines.cluster.workers) == 3


@needs("hosts")
def test_flow_drops_one_of_two_partitioned_workers(machines: Machines, tmp_path: Path) -> None:
    flow, read = writing(tmp_path)
    running = flow.start(cluster=machines.cluster)
    wait_for(lambda: rows_out(running) > ROWS // 4, "it runs")
    one, other, _ = machines.hosts.values()
    with one.part_from(other):
        told = str(report := outcome_of(running))
        assert "the connection between" in told and one.name in told and other.name in told
        assert "cannot connect to all other workers" in told
        assert output_is_consistent(read, report)
        assert not staged(tmp_path)
        # The next flow knows of the loss, and waits for no worker.
        told = str(numbers(1000, eu.sort(["n"]), eu.write("next")).go(cluster=machines.cluster))
        assert "cannot connect to all other workers" in told and "again" not in told
    assert len(machines.cluster.workers) == 3


def stream() -> Any:
    """An endless single-use table."""
    batch = pa.record_batch({"n": range(10_000)})
    return pa.RecordBatchReader.from_batches(batch.schema, itertools.repeat(batch))


@needs("hosts")
@pytest.mark.parametrize(
    "first",
    [
        lambda: [eu.from_arrow(stream())],
        lambda: [eu.generate("integers", rows=10**11), eu.exec("cat", input="csv")],
    ],
    ids=["a stream", "a program"],
)
def test_unrepeatable_flow_names_the_partitioned_worker(
    first: Callable[[], list[Any]], machines: Machines, tmp_path: Path
) -> None:
    flow = eu.Flow("once")
    flow.chain(*first(), eu.write("out"))
    running = flow.start(cluster=machines.cluster)
    [lost, *_] = wait_for(machines.staging, "it writes")
    machines.hosts[lost].cut()
    with pytest.raises(eu.ResourceError, match=f"worker {lost} is lost"):
        outcome_of(running)
    assert machines.workers[lost].wait() == 0, "it notices that it is unreachable"
    wait_for(lambda: not staged(tmp_path), "nothing is left")
    assert counted(machines.cluster) == [{"count": 1000}]


# --- slow clients --------------------------------------------------------------------------------

SLOW_CLIENTS = 200
HEARD_MAX = 64
"""The number of unauthenticated connections served at a time, from docs/security.md."""
FLOW_FILES_MAX = 32
"""A bound on the files that a flow itself opens at a worker."""


def open_files(program: Command) -> int:
    return len(os.listdir(f"/proc/{program.pid}/fd"))


def test_slow_clients_are_dropped_and_disturb_no_flow(tmp_path: Path) -> None:
    workers: list[Command] = []
    ports = [free_port(), free_port()]

    def start(address: str, token: Path) -> list[Command]:
        for port in ports:
            listening = ("--listen", f"127.0.0.1:{port}")
            workers.append(worker(tmp_path, address, token, f"w{len(workers)}", *listening))
        ports.append(int(address.split(":")[1]))
        return workers

    with clusters.joined_by(start, tmp_path, len(ports)) as cluster:
        flow = numbers(ROWS, eu.sort(["n"]), eu.count(), eu.collect())
        flow.go(cluster=cluster)
        before = [open_files(one) for one in workers]
        held: list[list[int]] = []
        running = flow.start(cluster=cluster)
        wait_for(lambda: rows_out(running) > 0, "it runs")
        addresses = [("127.0.0.1", port) for port in ports]
        with rig.SlowClients(addresses, SLOW_CLIENTS, again=1) as clients:
            for _ in range(4):
                while not running.wait(0.01):
                    held.append([*map(open_files, workers)])
                assert outcome_of(running).collected().to_pylist() == [{"count": ROWS}]
                # The first flow is attacked while it runs, the others from their start.
                running = flow.start(cluster=cluster)
            outcome_of(running)
            clients.give_up()
            wait_for(lambda: not clients.held, "all are dropped")
        most = [max(files) for files in zip(*held)]
        allowed = [files + HEARD_MAX + FLOW_FILES_MAX for files in before]
        assert all(one <= bound for one, bound in zip(most, allowed)), (before, most)
        assert len(cluster.workers) == len(workers)
