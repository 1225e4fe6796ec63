"""Collections written by several workers at once, each to its own disks, with mirrors on other
workers' disks, also where no worker sees another's disks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import cluster_harness as clusters
import euphrates as eu
from cluster_harness import wait_for, workers_of

ROWS = 2_000_000
"""Integers: 16 MB, or 32 MB with mirrors."""
SUM = ROWS * (ROWS - 1) // 2
NAMES = ["w0", "w1", "w2"]


@pytest.fixture(scope="module", params=clusters.KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[eu.Cluster]:
    with clusters.started(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


def name_disks(home: Path, names: list[str], each: int = 1, **options: Any) -> list[str]:
    """Names the disks of every worker."""
    home.mkdir(exist_ok=True)
    disks = [
        {"name": f"{name}-{at}", "folder": f"on-{name}-{at}", "worker": name, **options}
        for at in range(each)
        for name in names
    ]
    (home / "disks.json").write_text(json.dumps(disks))
    return [disk["name"] for disk in disks]


def writing(order: bool = False, rows: int = ROWS, count: int | None = None, **how: Any) -> eu.Flow:
    flow = eu.Flow("write")
    numbers = eu.generate("integers", rows=rows, order=order)
    flow.chain(numbers, flow.place(eu.write("kept", **how), count=count))
    return flow


def numbers(home: Path, order: bool = False, **options: Any) -> list[int]:
    flow = eu.Flow("read")
    flow.chain(eu.read("kept", order=order), eu.collect())
    return list(flow.go(home=home, **options).collected().to_pydict()["n"])


def segments(home: Path) -> list[dict[str, Any]]:
    versions = sorted((home / "catalog" / "kept" / ".v").glob("*.json"))
    return list(json.loads(versions[-1].read_text())["manifest"]["segments"])


def files(folder: Path) -> list[Path]:
    """All files there, except locks of running programs."""
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize(("copies", "each"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_workers_write_local_primaries_and_remote_mirrors(
    copies: int, each: int, order: bool, cluster: eu.Cluster, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    names = [worker.name for worker in cluster.workers]
    if copies > len(names):
        pytest.skip("there are fewer workers")
    disks = name_disks(home, names, each)
    writing(order, disks=disks, copies=copies).go(cluster=cluster, home=home)
    written = segments(home)
    assert sum(segment["rows"] for segment in written) == ROWS
    for segment in written:
        owner = segment["disk"].split("-")[0]
        assert f"-{owner}-" in segment["path"], "its own worker has written it"
        mirrors = [mirror["disk"].split("-")[0] for mirror in segment.get("mirrors", [])]
        assert len({owner, *mirrors}) == copies, "copies are at different workers"
    assert {segment["disk"] for segment in written} == set(disks)
    read = numbers(home, order, cluster=cluster)
    assert (len(read), sum(read), len(set(read))) == (ROWS, SUM, ROWS)
    assert not order or read == list(range(ROWS))
    # Every copy alone is complete.
    for way in ["primary", "alternate"][:copies]:
        flow = eu.Flow("read")
        flow.chain(eu.read("kept", mirrors=way), eu.collect())
        assert sum(flow.go(home=home).collected().to_pydict()["n"]) == SUM
    verify = [*clusters.COMMAND, "verify", "kept"]
    env = {**os.environ, "EUPHRATES_HOME": str(home)}
    verified = subprocess.run(verify, env=env, capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_replaced_collection_leaves_no_files(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    disks = name_disks(home, [worker.name for worker in cluster.workers])
    writing(disks=disks, copies=2).go(cluster=cluster, home=home)
    before = {path for disk in disks for path in files(home / f"on-{disk}")}
    writing(disks=disks, copies=2, overwrite=True).go(cluster=cluster, home=home)
    after = {path for disk in disks for path in files(home / f"on-{disk}")}
    assert len(after) == len(before) and not after & before
    at_home = [path for path in files(home / "data") if path.suffix == ".toc"]
    assert len(at_home) == len(disks), "tables of contents"


def test_workers_with_unwritable_disks_are_named(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    names = [worker.name for worker in cluster.workers]
    disks = name_disks(home, [*names, "nobody"])
    with pytest.raises(eu.ResourceError, match=r"write_1.*disks of nobody"):
        writing(disks=disks).go(cluster=cluster, home=home)
    with pytest.raises(eu.UsageError, match=r"disks of \d workers, and its count is 1"):
        writing(disks=disks[:-1], count=1).go(cluster=cluster, home=home)
    assert not files(home / "catalog")


def test_unwritable_mirror_fails_the_flow_cleanly(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    disks = name_disks(home, [worker.name for worker in cluster.workers])
    # Staging fails on the disk with the mirror of w0's.
    (home / "on-w1-0").mkdir()
    (home / "on-w1-0" / ".staging").write_text("in the way")
    with pytest.raises(eu.EuphratesError, match=r"on-w1-0/\.staging"):
        writing(disks=disks, copies=2).go(cluster=cluster, home=home)
    assert not traces(home)


def traces(home: Path) -> list[Path]:
    """Files that an unfinished `write` must not leave."""
    parts = [path for path in files(home) if path.suffix in (".arrow", ".toc")]
    return parts + files(home / "catalog")


def ends_without_trace(running: Any, home: Path, dying: str) -> None:
    """Kills a worker with disks, without which the flow cannot continue."""
    os.kill(workers_of(os.getpid())[dying], signal.SIGKILL)
    assert running.wait(30), "the flow hangs"
    with pytest.raises(eu.ResourceError, match=f"{dying} was lost"):
        running.finish()
    assert not traces(home)


def test_dead_disk_worker_fails_the_flow_cleanly(tmp_path: Path) -> None:
    home = tmp_path / "home"
    disks = name_disks(home, NAMES, rate=20_000_000)
    with clusters.processes(3) as cluster:
        running = writing(rows=10**10, disks=disks, copies=2).start(cluster=cluster, home=home)
        wait_for(lambda: any(one.rows_in > ROWS for one in running.progress().modules), "it writes")
        ends_without_trace(running, home, "w1")


def test_worker_death_during_final_wait_fails_the_flow(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    disks = name_disks(home, NAMES)
    known = json.loads((home / "disks.json").read_text())
    known[0]["rate"] = 1_000_000
    (home / "disks.json").write_text(json.dumps(known))
    with clusters.processes(3) as cluster:
        running = writing(disks=disks, copies=2).start(cluster=cluster, home=home)
        others = [home / f"on-{disk}" for disk in disks[1:]]
        tables = lambda: [one for at in others for one in at.rglob("*.toc")]  # noqa: E731
        wait_for(lambda: tables() or running.wait(0), "another has nothing left to write")
        ends_without_trace(running, home, "w0")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a small disk")
def test_full_remote_disk_fails_the_flow_cleanly(cluster: eu.Cluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    disks = name_disks(home, [worker.name for worker in cluster.workers])
    full = home / "on-w1-0"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", full], check=True)
    try:
        with pytest.raises(eu.ResourceError, match="No space left"):
            writing(disks=disks, copies=2).go(cluster=cluster, home=home)
        assert not files(home / "catalog")
        wait_for(lambda: not [path for path in files(home) if path.suffix == ".arrow"], "it goes")
        assert sorted(worker.name for worker in cluster.workers)[:2] == ["w0", "w1"], "none is lost"
    finally:
        subprocess.run(["umount", full], check=True)


def own_disk(home: Path, private: Path, name: str, command: list[str]) -> list[str]:
    """The command in a mount namespace, where no other process sees the worker's disk."""
    shadow, folder = private / name, home / f"on-{name}-0"
    shadow.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    mount = 'mount --bind "$0" "$1" && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, str(shadow), str(folder), *command]


def may_unshare() -> bool:
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return sys.platform == "linux" and tried.returncode == 0


@pytest.mark.skipif(not may_unshare(), reason="needs root, to hide disks from other workers")
def test_workers_need_no_access_to_remote_disks(tmp_path: Path) -> None:
    home, private = tmp_path / "home", tmp_path / "private"
    disks = name_disks(home, NAMES)
    hidden = partial(own_disk, home, private)
    with clusters.joined(tmp_path, NAMES, hidden) as cluster:
        writing(disks=disks, copies=2).go(cluster=cluster, home=home)
        there = {name: files(private / name) for name in NAMES}
        assert all(len(of) == 5 for of in there.values()), there  # 2 copies, 2 tables, a manifest
        assert not any(files(home / f"on-{disk}") for disk in disks), "the program sees none"
        assert sum(numbers(home, cluster=cluster)) == SUM
    (tmp_path / "again").mkdir()
    with clusters.joined(tmp_path / "again", ["w0", "w2"], hidden) as cluster:
        assert sum(numbers(home, cluster=cluster)) == SUM, "mirrors give what w1 would"
    (tmp_path / "once more").mkdir()
    with clusters.joined(tmp_path / "once more", NAMES, hidden) as cluster:
        writing(True, disks=disks, copies=1, overwrite=True).go(cluster=cluster, home=home)
        assert all(len(files(private / name)) == 2 for name in NAMES), "what was before is gone"
        assert sum(numbers(home, cluster=cluster)) == SUM
        with pytest.raises(eu.CorruptError, match="disk"):
            numbers(home)
