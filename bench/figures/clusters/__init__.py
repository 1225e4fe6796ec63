"""Shared by the figures about disks: disks in homes, and the optimum for mirrored disks.

Disks have the paper's 5.45 MB/s (River, 3.1.1), so that a small machine can hold a cluster of them,
or several at once, each a point of a figure.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import euphrates as eu
import rig

RATE = 5_450_000
"""Bytes a second of a disk (River, 3.1.1)."""
BATCH_ROWS = 65_536
"""Integers per batch of `generate`; as 32-bit numbers, a block of 256 KiB."""
BLOCK = "256KiB"
PACE_SECONDS = 0.003

Point = TypeVar("Point")
Measured = TypeVar("Measured")


class Consume(eu.Module):
    """A consumer of twice a disk's rate; it deducts oversleep from its next sleep."""

    def run(self, ports: eu.Ports) -> None:
        owed = 0.0
        for batch in ports:
            owed += batch.nbytes / (2 * RATE)
            began = time.perf_counter()
            time.sleep(max(owed, 0))
            owed -= time.perf_counter() - began
            ports.put(batch)


class Cluster:
    """Disks, each owned by a worker, and a home that names them."""

    def __init__(self, home: Path, name: str, folders: Sequence[Path], rates: Sequence[int] = ()):
        self.home = home / name
        self.folders = list(folders)
        # A process counts disk activity by these names, in whatever home they are.
        self.names = [f"{name}.{at}" for at in range(len(folders))]
        self.owners = list(self.names)
        self.set_rates(rates)

    def owned_by(self, workers: Sequence[str]) -> None:
        """Assigns the reading of each disk to this worker."""
        self.owners = list(workers)
        self.set_rates([])

    def set_rates(self, rates: Sequence[int]) -> None:
        """Limits the disks to these bytes a second; the kernel limits those of the rig."""
        disks: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "worker": owner, "mode": "direct"}
            for name, folder, owner in zip(self.names, self.folders, self.owners)
        ]
        for disk, rate in zip(disks, rates):
            disk["rate"] = rate
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "disks.json").write_text(json.dumps(disks))

    def write(self, collection: str, rows: int, copies: int) -> None:
        """Writes a collection in blocks of 256 KiB, with equally many blocks on each disk.

        The source is slower than the disks, so that every disk is always free for its next block.
        """

        def wait(batch: eu.Batch) -> eu.Batch:
            time.sleep(PACE_SECONDS)
            return batch

        flow = eu.Flow("write")
        flow.chain(
            flow.place(eu.generate("integers", rows=rows), count=1),
            flow.place(eu.project(["cast(n as int) as n"]), count=1),
            flow.place(wait, count=1),
            flow.place(eu.write(collection, disks=self.names, copies=copies), count=1),
        )
        flow.go(home=self.home)

    def segments(self, collection: str) -> list[dict[str, Any]]:
        """The segments of a collection, from its manifest."""
        manifest = max((self.home / "catalog" / collection).rglob("*.json"))
        return json.loads(manifest.read_text())["manifest"]["segments"]

    def copies(self, collection: str) -> list[set[int]]:
        """The disks with a copy of each segment."""
        entries = ([one, *one.get("mirrors", [])] for one in self.segments(collection))
        return [{self.names.index(copy["disk"]) for copy in copies} for copies in entries]

    def read_seconds(self, collection: str, rates: Sequence[float]) -> float:
        """The shortest time in which disks of these rates can read a collection.

        No set of segments can be read faster than all disks with copies of them can deliver, and
        some set reaches that bound (Hall 1935; `crates/sim/src/disks/bound.rs` computes the same by
        maximal flows). With chained copies the critical sets are neighbours in the ring.
        """
        copies, worst = self.copies(collection), 0.0
        bytes_ = [one["bytes"] for one in self.segments(collection)]
        for first in range(len(bytes_)):
            ring = [(first + at) % len(bytes_) for at in range(len(bytes_))]
            for last in range(1, len(ring) + 1):
                disks = set().union(*(copies[at] for at in ring[:last]))
                total = sum(bytes_[at] for at in ring[:last])
                worst = max(worst, total / sum(rates[disk] for disk in disks))
        return worst

    def clear(self) -> None:
        """Removes all collections."""
        for path in [self.home / "catalog", *self.folders]:
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def joined(
    hosts: rig.Hosts,
    folder: Path,
    processes: dict[str, int] | None = None,
    memories: Sequence[rig.Memory] = (),
    inside: Callable[[rig.Host, list[str]], list[str]] | None = None,
    **options: Any,
) -> Iterator[eu.Cluster]:
    """A worker on each machine; the program is outside, where the machines reach it.

    With `memories` each has a memory limit, and its scratch on its own disk. `inside` maps the
    command of a machine's worker to the one that is run. `options` are those of the processes,
    whose ids are stored in `processes` by machine name.
    """
    token, address = folder / "token", f"{hosts.outside}:7432"
    euphrates = [sys.executable, "-m", "euphrates"]
    if not token.exists():
        subprocess.run([*euphrates, "token", token], check=True)
    own = ["worker", "--join", address, "--token-file", token, "--cores", "1"]
    opened: list[eu.Cluster] = []

    def join() -> None:
        opened.append(eu.Cluster.join(address, len(hosts), token_file=token, timeout=120))

    joining = threading.Thread(target=join)
    joining.start()
    for at, host in enumerate(hosts):
        command = [*euphrates, *map(str, own)]
        command += ["--listen", f"{host.address}:0", "--name", host.name]
        if memories:
            # A sort's memory is set by its own options.
            command += ["--memory", "1TiB", "--scratch", str(host.disk.path)]
            command = memories[at].inside(command)
        if inside is not None:
            command = inside(host, command)
        worker = host.start(command, stderr=subprocess.DEVNULL, **options)
        if processes is not None:
            processes[host.name] = worker.pid
    joining.join()
    with opened[0] as cluster:
        yield cluster


def spread(count: int, disks: int) -> list[int]:
    """That many of the disks, spread as evenly as possible."""
    return [at * disks // count for at in range(count)]


@contextlib.contextmanager
def competitors(way: str, disks: Sequence[rig.Disk]) -> Iterator[list[Any]]:
    """A stream on each of these disks that takes half: one request at a time, as large as a block.

    A flow also has one request at a slow disk: a growing file is written one block at a time, and a
    read of a mirror is requested only when the disk can begin it.
    """
    with contextlib.ExitStack() as streams:
        yield [streams.enter_context(disk.competitor(way, request=BLOCK)) for disk in disks]


def at_once(act: Callable[[Point], Measured], points: Sequence[Point]) -> list[Measured]:
    """Measures clusters in parallel; they share only two processors that are mostly idle."""
    with ThreadPoolExecutor(len(points)) as pool:
        return list(pool.map(act, points))
