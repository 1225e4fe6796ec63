"""Striped files with parity while one disk is slow or lost, against mirrors and single copies.

Reading: a file on five disks, in stripes of 4 + 1 blocks; as mirrors, stripes of 1 + 1; and as
single copies, stripes of 1 + 0. It is read when all disks are equal, when one has a quarter of its
rate, and when one is lost. The bound is the sum of the disks' rates: any four of five blocks
restore a stripe. A reader of data blocks only, and single copies, wait for the slow disk, which has
a fifth of the blocks.

Writing: six disks, so that a stripe of five blocks can leave out one. The bound is the sum of the
rates times the share of data blocks.

The disks are loop devices that the kernel throttles, and they are used past the page cache.
"""

from __future__ import annotations

import io
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figure import COLOURS

import euphrates as eu
import rig

TITLE = "Striped files: five disks of 4 + 1 blocks, one at a quarter of its rate, and one lost"
PANELS = 2
RATE, SLOW = 25_000_000, 0.25
READ_DISKS, WRITE_DISKS = 5, 6
BYTES, QUICK_BYTES = 400_000_000, 120_000_000
SIZE = "1500MB"
ROUNDS = 5
LAYOUTS = {"parity": (4, 1), "mirrors": (1, 1), "single copies": (1, 0)}
STATES = ("equal", "slow", "lost")
CHUNK = 16 << 20


def missing() -> str | None:
    return rig.missing("disks")


class Home:
    """A home on some disks of the rig, of which the last may be slow, or missing."""

    def __init__(self, folder: Path, disks: Sequence[rig.Disk]) -> None:
        self.folder, self.disks = folder, disks
        folder.mkdir()
        self.set("equal")

    def set(self, state: str) -> None:
        self.disks[-1].set_rate(RATE * (SLOW if state == "slow" else 1))
        named = [
            {"name": f"d{at}", "folder": str(disk.path), "mode": "direct"}
            for at, disk in enumerate(self.disks)
        ]
        if state == "lost":
            named[-1]["folder"] = str(self.folder / "lost")
        (self.folder / "disks.json").write_text(json.dumps(named))

    def write(self, name: str, layout: str, content: bytes) -> float:
        data, parity = LAYOUTS[layout]
        began = time.perf_counter()
        with eu.open_striped(name, "wb", data=data, parity=parity, home=self.folder) as file:
            write_all(file, content)
        return time.perf_counter() - began

    def read(self, name: str, content: bytes) -> float:
        began = time.perf_counter()
        with eu.open_striped(name, home=self.folder) as file:
            expect_all(file, content)
        return time.perf_counter() - began


def write_all(file: io.RawIOBase, content: bytes) -> None:
    for at in range(0, len(content), CHUNK):
        part = memoryview(content)[at : at + CHUNK]
        assert file.write(part) == len(part)


def expect_all(file: io.RawIOBase, content: bytes) -> None:
    """Reads a file, which has these bytes and no others."""
    buffer, at = bytearray(CHUNK), 0
    while count := file.readinto(buffer):
        assert memoryview(buffer)[:count] == memoryview(content)[at : at + count]
        at += count
    assert at == len(content)


def rates(state: str, disks: int) -> float:
    """The sum of the disks' rates, in disks."""
    return disks - 1 + {"equal": 1, "slow": SLOW, "lost": 0}[state]


def measure(quick: bool) -> dict[str, Any]:
    content = bytes(bytearray(range(251)) * ((QUICK_BYTES if quick else BYTES) // 251))
    rounds = 1 if quick else ROUNDS
    read: dict[str, dict[str, list[float]]] = {layout: {} for layout in LAYOUTS}
    written: dict[str, dict[str, list[float]]] = {layout: {} for layout in LAYOUTS}
    with ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        disks = list(made.enter_context(rig.Disks(WRITE_DISKS, rate=RATE, size=SIZE)))
        home = Home(folder / "read", disks[:READ_DISKS])
        for layout in LAYOUTS:
            home.write(layout.replace(" ", "-"), layout, content)
        for _ in range(rounds):
            for state in STATES:
                home.set(state)
                for layout in LAYOUTS:
                    if state == "lost" and layout == "single copies":
                        continue
                    took = home.read(layout.replace(" ", "-"), content)
                    disks_ = len(content) / took / RATE
                    read[layout].setdefault(state, []).append(disks_)
                    print(f"    reading, {state}, {layout}: {disks_:.2f} disks", flush=True)
        home.set("equal")
        eu_files = [layout.replace(" ", "-") for layout in LAYOUTS]
        remove(home.folder, eu_files)
        home = Home(folder / "write", disks)
        for _ in range(rounds):
            for state in STATES[:2]:
                home.set(state)
                for layout in LAYOUTS:
                    took = home.write("f", layout, content)
                    disks_ = len(content) / took / RATE
                    written[layout].setdefault(state, []).append(disks_)
                    print(f"    writing, {state}, {layout}: {disks_:.2f} disks", flush=True)
    return {"read": read, "written": written, "rate": RATE, "slow": SLOW}


def remove(home: Path, names: Sequence[str]) -> None:
    from euphrates._files.filesystem import EuphratesFileSystem

    for name in names:
        EuphratesFileSystem(home=str(home)).rm(name)


def of(results: dict[str, Any], way: str, layout: str, state: str) -> float:
    """The median rate, in disks."""
    rate: float = statistics.median(results[way][layout][state])
    return rate


def claims(results: dict[str, Any]) -> Any:
    for state, least in (("equal", 0.93), ("slow", 0.9), ("lost", 0.9)):
        part = of(results, "read", "parity", state) / rates(state, READ_DISKS)
        yield f"reading, {state}: {part:.3f} of the rates (at least {least})", part >= least
    times = of(results, "read", "parity", "slow") / of(results, "read", "single copies", "slow")
    yield f"one disk slow: {times:.1f} times as fast as single copies (at least 3)", times >= 3
    part = of(results, "read", "parity", "slow") / of(results, "read", "mirrors", "slow")
    yield f"one disk slow: {part:.2f} of mirrors, which take 1.6 times the space", part >= 0.9
    data, parity = LAYOUTS["parity"]
    for state, least in (("equal", 0.9), ("slow", 0.85)):
        bound = rates(state, WRITE_DISKS) * data / (data + parity)
        part = of(results, "written", "parity", state) / bound
        yield f"writing, {state}: {part:.3f} of the bound (at least {least})", part >= least


def draw(axes: Any, results: dict[str, Any]) -> None:
    colours = {"parity": "graduated", "mirrors": "shortest", "single copies": "static"}
    titles = {"read": "reading, 5 disks", "written": "writing, 6 disks"}
    for one, way in zip(axes, titles):
        for at, layout in enumerate(LAYOUTS):
            states = results[way][layout]
            places = [STATES.index(state) + (at - 1) * 0.27 for state in states]
            heights = [of(results, way, layout, state) for state in states]
            one.bar(places, heights, width=0.25, color=COLOURS[colours[layout]], label=layout)
            for place, height in zip(places, heights):
                one.text(place, height, f"{height:.2f}", ha="center", va="bottom", fontsize=8)
        shown = list(results[way]["parity"])
        names = {"equal": "equal disks", "slow": "one at 1/4", "lost": "one lost"}
        one.set_xticks(range(len(shown)), [names[state] for state in shown])
        one.set_ylabel("file bytes per second, in disks")
        one.set_title(titles[way], fontsize=9)
    axes[0].legend(frameon=False)
