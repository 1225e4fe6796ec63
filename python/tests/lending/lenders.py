"""Clusters whose workers lend memory, each as if it were on a machine of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import euphrates as eu
from cluster_harness import Command, joined_by, worker


@dataclass
class Lenders:
    """A cluster, and its workers by name."""

    cluster: eu.Cluster
    programs: dict[str, Command]
    killed: list[Command] = field(default_factory=list)

    def kill(self, name: str) -> None:
        """Kills a worker, which has no time to free anything."""
        killed = self.programs[name]
        killed.process.kill()
        killed.process.wait()
        self.killed.append(killed)

    def held_bytes(self, name: str) -> int:
        """Bytes of the memory file from which a worker lends."""
        folder = Path(f"/proc/{self.programs[name].pid}/fd")
        lent = [one for one in folder.iterdir() if "euphrates-lent" in os.readlink(one)]
        return sum(one.stat().st_blocks * 512 for one in lent)


@contextlib.contextmanager
def lenders(
    folder: Path,
    lent: Mapping[str, str | None],
    on_one_host: bool = False,
    scratch: Mapping[str, Path] | None = None,
) -> Iterator[Lenders]:
    """Workers of these names, with the memory that each lends."""
    programs: dict[str, Command] = {}
    living: list[Command] = []

    def start(address: str, token: Path) -> list[Command]:
        for name, size in lent.items():
            words = [] if size is None else ["--lend-memory", size]
            words += ["--scratch", str((scratch or {}).get(name, folder / name))]
            env = {} if on_one_host else {"EUPHRATES_HOST": name}
            programs[name] = worker(folder, address, token, name, *words, env=env)
        living.extend(programs.values())
        return living

    with joined_by(start, folder, len(lent)) as cluster:
        made = Lenders(cluster, programs)
        yield made
        # The others have to end by themselves.
        for killed in made.killed:
            living.remove(killed)


def lent_bytes(report: eu.Report) -> float:
    """Bytes that the workers of a flow have written to each other's memory."""
    return sum(disk.written_bytes for disk in report.disks if disk.name.startswith("memory of "))
