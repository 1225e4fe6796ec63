"""The mount of striped files against the Python client, on throttled disks.

The same file is written and read in turns, with the same requests of 16 MiB: by `eu.open_striped`,
and by `open` on a mount in another process. Writing ends when `close` has published the version.
Six disks, in stripes of 4 + 1 blocks; all are equal, or one has a quarter of its rate.

The disks are loop devices that the kernel throttles, and they are used past the page cache.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mounted
from striped import (
    BYTES,
    QUICK_BYTES,
    RATE,
    ROUNDS,
    SIZE,
    SLOW,
    WRITE_DISKS,
    Home,
    expect_all,
    remove,
    write_all,
)
from two_clients import STATES, draw_bars, shares

import rig

TITLE = "A mount of striped files against the Python client, on six throttled disks"
PANELS = 2
LABELS = {"python": "Python client", "mount": "mount"}
CLIENTS = (*LABELS,)
LEAST = 0.9


def missing() -> str | None:
    return rig.missing("disks") or mounted.missing()


def write(path: Path, content: bytes) -> float:
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        write_all(file, content)
    return time.perf_counter() - began


def read(path: Path, content: bytes) -> float:
    began = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        expect_all(file, content)
    return time.perf_counter() - began


def measure(quick: bool) -> dict[str, Any]:
    content = bytes(bytearray(range(251)) * ((QUICK_BYTES if quick else BYTES) // 251))
    results: dict[str, Any] = {
        way: {client: {state: [] for state in STATES} for client in CLIENTS}
        for way in ("read", "written")
    }
    with ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        home = Home(folder / "home", made.enter_context(rig.Disks(WRITE_DISKS, RATE, size=SIZE)))
        # The mount finds the disks when it starts; their rates change below it.
        path = made.enter_context(mounted.mounted(home.folder, folder / "mount"))
        for _ in range(1 if quick else ROUNDS):
            for state in STATES:
                home.set(state)
                took = {
                    ("written", "python"): home.write("python", "parity", content),
                    ("written", "mount"): write(path / "mount", content),
                    # Each reads what the other one has written.
                    ("read", "python"): home.read("mount", content),
                    ("read", "mount"): read(path / "python", content),
                }
                for (way, client), seconds in took.items():
                    disks = len(content) / seconds / RATE
                    results[way][client][state].append(disks)
                    print(f"    {way}, {state}, {client}: {disks:.2f} disks", flush=True)
                home.set("equal")
                remove(home.folder, CLIENTS)
    return {**results, "rate": RATE, "slow": SLOW}


def claims(results: dict[str, Any]) -> Any:
    return shares(results, "python", "mount", LEAST, "client")


def draw(axes: Any, results: dict[str, Any]) -> None:
    draw_bars(axes, results, LABELS)
