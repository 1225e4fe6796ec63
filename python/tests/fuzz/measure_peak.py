"""Runs the flow of a document, and prints the peak memory of each process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import euphrates as eu


def peak(process: int) -> int:
    """The peak resident bytes of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def children(process: int) -> list[int]:
    """The child processes of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(FileNotFoundError):
            found += map(int, (task / "children").read_text().split())
    return found


def main(document: str, budget: str, place: str) -> None:
    """Runs the flow in this process, on its workers, or on worker processes."""
    flow = eu.Flow.load(document)
    peaks = {}
    if place == "processes":
        with eu.Cluster.processes(2) as cluster:
            flow.go(memory=int(budget), cluster=cluster, progress=False)
            peaks = {f"worker {at}": peak(one) for at, one in enumerate(children(os.getpid()))}
    else:
        flow.go(memory=int(budget), workers=2 if place == "workers" else None, progress=False)
    print(json.dumps({"program": peak(os.getpid()), **peaks}))


if __name__ == "__main__":
    main(*sys.argv[1:])
