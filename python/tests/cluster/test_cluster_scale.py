"""Many workers: each stays within the documented bounds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import cluster_harness as clusters
import euphrates as eu
from cluster_harness import Command, Program, wait_for, workers_of

WORKERS = 64
ROWS = 640_000
CONNECTIONS_MAX = WORKERS + 8
"""One to each other worker, one to the program, and the baseline of a process."""
RESIDENT_MAX = 120 << 20
"""Resident bytes of a worker that sorts 10,000 integers with 64 connections."""


def open_sockets(pid: int) -> int:
    found = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        # A file may be closed during the scan.
        with suppress(FileNotFoundError):
            found += os.readlink(entry).startswith("socket:")
    return found


def resident(pid: int) -> int:
    """Its peak resident memory in bytes."""
    [kilobytes] = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kilobytes) << 10


def sorting(rows: int) -> eu.Flow:
    flow = eu.Flow("sort")
    numbers = eu.generate("integers", rows=rows)
    flow.chain(numbers, eu.project(["n * 7919 % 640007 as n"]), eu.sort(["n"]), eu.collect())
    return flow


def sockets_while(running: Any, pids: Iterable[int]) -> int:
    """The peak number of open sockets of any of these processes during the flow."""
    pids, most = list(pids), 0
    while not running.wait(0.1):
        most = max(most, *map(open_sockets, pids))
    return most


def test_sixty_four_workers_sort_within_documented_bounds() -> None:
    with clusters.processes(WORKERS) as cluster:
        pids = workers_of(os.getpid()).values()
        assert len(cluster.workers) == len(pids) == WORKERS
        running = sorting(ROWS).start(cluster=cluster)
        most = sockets_while(running, pids)
        found = running.finish().collected().to_pydict()["n"]
        assert found == sorted(n * 7919 % 640007 for n in range(ROWS))
        assert WORKERS <= most <= CONNECTIONS_MAX
        assert max(map(resident, pids)) <= RESIDENT_MAX
    wait_for(lambda: not workers_of(os.getpid()), "all have ended")


def sockets_between_two(cores: int, folder: Path) -> int:
    """The sockets that one of two workers opens to sort, if both report that many cores."""
    rows, workers = 3_000_000, list[Command]()

    def start(address: str, token: Path) -> list[Command]:
        joining = ("--join", address, "--token-file", token, "--cores", cores)
        for name in ("w0", "w1"):
            workers.append(Program(folder, "worker", *joining, "--name", name))
        return workers

    with clusters.joined_by(start, folder, 2) as cluster:
        running = sorting(rows).start(cluster=cluster)
        most = sockets_while(running, [one.pid for one in workers])
        found = running.finish().collected().to_pydict()["n"]
    assert found == sorted(n * 7919 % 640007 for n in range(rows))
    return most


def test_large_machines_open_several_batch_connections(tmp_path: Path) -> None:
    # Two more: one to the other worker, one to the program, which collects the output.
    for name in ("large", "small"):
        (tmp_path / name).mkdir()
    most = sockets_between_two(24, tmp_path / "large")
    assert most == sockets_between_two(1, tmp_path / "small") + 4
