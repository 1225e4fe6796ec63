"""The mount of striped files against the Python client, on throttled disks.

The same file is written and read in turns, with the same requests of 16 MiB: by `eu.open_striped`,
and by `open` on a mount in another process. Writing ends when `close` has published the version.
Six disks, in stripes of 4 + 1 blocks; all are equal, or one has a quarter of its rate.

The disks are loop devices that the kernel throttles, and they are used past the page cache.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mounted
from figure import COLOURS
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

import rig

TITLE = "A mount of striped files against the Python client, on six throttled disks"
PANELS = 2
STATES = ("equal", "slow")
CLIENTS = ("python", "mount")
LABELS = {"python": "Python client", "mount": "mount"}
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


def of(results: dict[str, Any], way: str, client: str, state: str) -> float:
    """The median rate, in disks."""
    rate: float = statistics.median(results[way][client][state])
    return rate


def claims(results: dict[str, Any]) -> Any:
    for way in ("read", "written"):
        for state in STATES:
            part = of(results, way, "mount", state) / of(results, way, "python", state)
            yield f"{way}, {state}: {part:.3f} of the client (at least {LEAST})", part >= LEAST


def draw(axes: Any, results: dict[str, Any]) -> None:
    for one, way in zip(axes, ("read", "written")):
        for at, client in enumerate(CLIENTS):
            heights = [of(results, way, client, state) for state in STATES]
            places = [place + (at - 0.5) * 0.35 for place in range(len(STATES))]
            colour = COLOURS["graduated" if client == "mount" else "shortest"]
            one.bar(places, heights, width=0.33, color=colour, label=LABELS[client])
            for place, height in zip(places, heights):
                one.text(place, height, f"{height:.2f}", ha="center", va="bottom", fontsize=8)
        one.set_xticks(range(len(STATES)), ["equal disks", "one at 1/4"])
        one.set_ylabel("file bytes per second, in disks")
        one.set_title(way, fontsize=9)
        one.margins(y=0.25)
    axes[0].legend(frameon=False, loc="upper right", ncols=2)
