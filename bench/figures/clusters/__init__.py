"""What the figures about disks share: disks in homes, and what mirrored disks can give at best.

Disks have the paper's 5.45 MB/s (River, 3.1.1), so that a small machine has room for a cluster of
them, or for several, each a point of a figure, at once.
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
"""Integers of a batch of `generate`; as 32-bit numbers, a block of 256 KiB."""
BLOCK = "256KiB"
PACE_SECONDS = 0.003

Point = TypeVar("Point")
Measured = TypeVar("Measured")


class Consume(eu.Module):
    """Would take twice what a disk gives; what it oversleeps, it sleeps less the next time."""

    def run(self, ports: eu.Ports) -> None:
        owed = 0.0
        for batch in ports:
            owed += batch.nbytes / (2 * RATE)
            began = time.perf_counter()
            time.sleep(max(owed, 0))
            owed -= time.perf_counter() - began
            ports.put(batch)


class Cluster:
    """Disks, each of a worker of its own, and a home that names them."""

    def __init__(self, home: Path, name: str, folders: Sequence[Path], rates: Sequence[int] = ()):
        self.home = home / name
        self.folders = list(folders)
        # A process counts by these names what its disks do, whoever's home they are in.
        self.names = [f"{name}.{at}" for at in range(len(folders))]
        self.owners = list(self.names)
        self.set_rates(rates)

    def owned_by(self, workers: Sequence[str]) -> None:
        """Has each disk read by this worker."""
        self.owners = list(workers)
        self.set_rates([])

    def set_rates(self, rates: Sequence[int]) -> None:
        """Holds the disks to these bytes a second; those of the rig are held by the kernel."""
        disks: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "worker": owner, "mode": "direct"}
            for name, folder, owner in zip(self.names, self.folders, self.owners)
        ]
        for disk, rate in zip(disks, rates):
            disk["rate"] = rate
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "disks.json").write_text(json.dumps(disks))

    def write(self, collection: str, rows: int, copies: int) -> None:
        """Writes a collection in blocks of 256 KiB, with as many blocks on each disk as they come.

        It is made more slowly than the disks write, so that none ever has more to do than another.
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
        """The segments of a collection, as its manifest has them."""
        manifest = max((self.home / "catalog" / collection).rglob("*.json"))
        return json.loads(manifest.read_text())["manifest"]["segments"]

    def copies(self, collection: str) -> list[set[int]]:
        """The disks that have a copy of each segment."""
        entries = ([one, *one.get("mirrors", [])] for one in self.segments(collection))
        return [{self.names.index(copy["disk"]) for copy in copies} for copies in entries]

    def read_seconds(self, collection: str, rates: Sequence[float]) -> float:
        """When a collection has been read at best by disks of these rates.

        No set of segments is read faster than all disks that have copies of them can give, and some
        set is read no slower (Hall 1935; `crates/sim/src/disks/bound.rs` finds the same by maximal
        flows). With chained copies the sets that decide are neighbours in the ring.
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
        """Forgets all collections."""
        for path in [self.home / "catalog", *self.folders]:
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def joined(
    hosts: rig.Hosts,
    folder: Path,
    processes: dict[str, int] | None = None,
    memories: Sequence[rig.Memory] = (),
    **options: Any,
) -> Iterator[eu.Cluster]:
    """A worker in each machine; the program is outside, where the machines reach it.

    With `memories` each has one of them, and its scratch on its own disk. `options` are those of
    the processes, whose numbers go into `processes` by the machine's name.
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
            # What a sort may ask for is its own affair.
            command += ["--memory", "1TiB", "--scratch", str(host.disk.path)]
            command = memories[at].inside(command)
        worker = host.start(command, stderr=subprocess.DEVNULL, **options)
        if processes is not None:
            processes[host.name] = worker.pid
    joining.join()
    with opened[0] as cluster:
        yield cluster


def spread(count: int, disks: int) -> list[int]:
    """So many of the disks, as evenly as it goes."""
    return [at * disks // count for at in range(count)]


@contextlib.contextmanager
def competitors(way: str, disks: Sequence[rig.Disk]) -> Iterator[list[Any]]:
    """A stream on each of these disks that takes half: one request at a time, as large as a block.

    A flow has one request with a slow disk, too: a file that grows is written one by one, and what
    is read of mirrors is not asked for before the disk can begin it.
    """
    with contextlib.ExitStack() as streams:
        yield [streams.enter_context(disk.competitor(way, request=BLOCK)) for disk in disks]


def at_once(act: Callable[[Point], Measured], points: Sequence[Point]) -> list[Measured]:
    """Measures clusters that have nothing in common but two processors with time to spare."""
    with ThreadPoolExecutor(len(points)) as pool:
        return list(pool.map(act, points))
