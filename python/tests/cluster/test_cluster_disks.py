"""Collections on the disks of several workers: read locally, and by graduated declustering over the
network.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cluster_harness as clusters
import euphrates as eu
from cluster_harness import wait_for, workers_of

ROWS = 2_000_000
"""Integers: 16 MB, or 32 MB with mirrors."""
RATE = 40_000_000


@pytest.fixture(scope="module", params=clusters.KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[eu.Cluster]:
    with clusters.started(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


def name_disks(
    home: Path, cluster: eu.Cluster, each: int = 1, *, slow: int | None = None, rate: int = RATE
) -> list[str]:
    """Names the disks of every worker; one may have a rate of its own."""
    home.mkdir(exist_ok=True)
    disks = [
        {"name": f"{worker.name}-{at}", "folder": f"on-{worker.name}-{at}", "worker": worker.name}
        for at in range(each)
        for worker in cluster.workers
    ]
    for number, disk in enumerate(disks):
        disk["rate"] = slow if slow and number == 0 else rate
    (home / "disks.json").write_text(json.dumps(disks))
    return [disk["name"] for disk in disks]


def write(home: Path, cluster: eu.Cluster, copies: int, each: int = 1) -> None:
    disks = name_disks(home, cluster, each, rate=1_000_000_000)
    flow = eu.Flow("write")
    numbers = eu.generate("integers", rows=ROWS)
    flow.chain(numbers, eu.write("kept", disks=disks, copies=copies))
    flow.go(home=home)


def reading(*modules: Any, **options: Any) -> eu.Flow:
    flow = eu.Flow("read")
    flow.chain(eu.read("kept", **options), *modules, eu.collect())
    return flow


def integers(report: eu.Report) -> tuple[int, int, int]:
    """A checksum that proves that every number arrived once."""
    found = report.collected().to_pydict()["n"]
    return len(found), sum(found), len(set(found))


ALL = (ROWS, ROWS * (ROWS - 1) // 2, ROWS)


def from_disks(report: eu.Report) -> dict[str, float]:
    """MiB read from each disk, as the readers report."""
    found: dict[str, float] = {}
    for mebibytes, disk in re.findall(r"([\d.]+) MiB from ([\w-]+)", str(report)):
        found[disk] = found.get(disk, 0) + float(mebibytes)
    return found


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("copies", [1, 2])
def test_workers_read_local_disks_for_all_readers(
    copies: int, each: int, cluster: eu.Cluster, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    write(home, cluster, copies, each)
    report = reading().go(cluster=cluster, home=home)
    assert integers(report) == ALL
    told = from_disks(report)
    assert set(told) == {f"{worker.name}-{at}" for worker in cluster.workers for at in range(each)}
    assert sum(told.values()) == pytest.approx(ROWS * 8 / 2**20, rel=0.02)
    used = [disk.name.split(" of ") for disk in report.disks if disk.read_bytes > 1 << 20]
    assert used and all(disk.startswith(worker) for disk, worker in used), used


def test_remote_mirrors_relieve_a_slow_disk(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home, cluster, 2)
    disks = name_disks(home, cluster, slow=RATE // 20)
    report = reading().go(cluster=cluster, home=home)
    assert integers(report) == ALL
    told = from_disks(report)
    assert told.get(disks[0], 0) < min(told[disk] for disk in disks[1:]) / 2, told


def test_readers_on_one_worker_use_all_disks(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home, cluster, 2)
    flow = eu.Flow("one")
    flow.chain(flow.place(eu.read("kept"), workers=["w1"]), eu.collect())
    assert integers(flow.go(cluster=cluster, home=home)) == ALL
    flow = eu.Flow("few")
    flow.chain(flow.place(eu.read("kept"), count=1), eu.collect())
    assert integers(flow.go(cluster=cluster, home=home)) == ALL


def test_ordered_read_across_workers(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    disks = name_disks(home, cluster)
    flow = eu.Flow("write")
    flow.chain(
        eu.generate("integers", rows=ROWS, order=True), eu.write("kept", disks=disks, copies=2)
    )
    flow.go(home=home)
    report = reading(order=True).go(cluster=cluster, home=home)
    assert report.collected().to_pydict()["n"] == list(range(ROWS))


def spoil(home: Path, disk: str) -> None:
    """Overwrites some bytes in every block of a disk."""
    for path in (home / f"on-{disk}").rglob("*.arrow"):
        with path.open("r+b") as file:
            for at in range(5_000, path.stat().st_size, 100_000):
                file.seek(at)
                file.write(b"spoilt")


def test_damaged_block_is_read_from_a_remote_mirror(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home, cluster, 2)
    spoil(home, "w1-0")
    report = reading().go(cluster=cluster, home=home)
    assert integers(report) == ALL
    assert "read from mirrors: disk w1-0" in str(report)
    for worker in cluster.workers:
        spoil(home, f"{worker.name}-0")
    with pytest.raises(eu.CorruptError, match=r"block \d+ of kept/.* cannot be read from disks"):
        reading().go(cluster=cluster, home=home)


def test_static_division_reads_local_segments(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home, cluster, 1, each=2)
    report = reading().go(cluster=cluster, home=home, queues="static")
    assert integers(report) == ALL


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_disks_of_a_lost_worker_are_read_by_peers(name: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with clusters.processes(3) as cluster:
        write(home, cluster, 2)
        name_disks(home, cluster, rate=5_000_000)
        running = reading().start(cluster=cluster, home=home)
        wait_for(lambda: any(one.rows_out for one in running.progress().modules), "it reads")
        victim = workers_of(os.getpid())["w1"]
        os.kill(victim, getattr(signal, name))
        assert running.wait(30), "the flow hangs"
        report = running.finish()
        assert integers(report) == ALL
        assert any("w1 was lost" in loss for loss in report.losses)
        if name == "SIGSTOP":
            os.kill(victim, signal.SIGCONT)
