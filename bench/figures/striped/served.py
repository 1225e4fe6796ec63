"""Striped files on disks that two workers serve against the same disks as folders, all throttled.

The same file is written and read in turns, with the same requests of 16 MiB, by one program: with
the folders of all disks, and by TLS connections to the workers that serve them. Five disks, in
stripes of 4 + 1 blocks; all are equal, or one has a quarter of its rate.

The disks are loop devices that the kernel throttles, and they are used past the page cache. All is
on one machine, so the network costs processor time and no waiting.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from clusters.persistent import kept
from striped import (
    BYTES,
    QUICK_BYTES,
    READ_DISKS,
    ROUNDS,
    SIZE,
    SLOW,
    Home,
    expect_all,
    remove,
    write_all,
)
from two_clients import STATES, WAYS, draw_bars, shares

import euphrates as eu
import rig

TITLE = "Served disks against the same disks as folders: five throttled disks at two workers"
PANELS = 2
RATE = 20_000_000
LABELS = {"folders": "folders", "served": "served"}
CLIENTS = (*LABELS,)
LEAST = 0.93
WORKERS = 2


def missing() -> str | None:
    return rig.missing("disks")


@contextlib.contextmanager
def served(
    folder: Path, named: list[dict[str, str]], count: int = WORKERS, words: Sequence[str] = ()
) -> Iterator[str]:
    """The home of a client of this number of workers, started with these words, which serve the
    disks.
    """
    folder.mkdir()
    workers: list[list[str | Path]] = []
    for number in range(count):
        home = folder / f"w{number}"
        home.mkdir()
        (home / "disks.json").write_text(json.dumps(named[number::count]))
        catalog = ["--serve-catalog"] if number == 0 else []
        workers.append(["--name", home.name, "--serve", home, *catalog, *words])
    # What is known of the cluster goes away with it.
    own = {"EUPHRATES_HOME": str(folder / "client")}
    with mock.patch.dict(os.environ, own), kept(folder, workers) as (address, token):
        yield eu.striped_home(f"at:{address}", token_file=token)


def write(home: str, name: str, content: bytes) -> float:
    began = time.perf_counter()
    with warnings.catch_warnings():
        # Two machines are too few for the loss of one; here it is one machine anyway.
        warnings.simplefilter("ignore")
        with eu.open_striped(name, "wb", data=4, parity=1, home=home) as file:
            write_all(file, content)
    return time.perf_counter() - began


def read(home: str, name: str, content: bytes) -> float:
    began = time.perf_counter()
    with eu.open_striped(name, home=home) as file:
        expect_all(file, content)
    return time.perf_counter() - began


def measure(quick: bool) -> dict[str, Any]:
    content = bytes(bytearray(range(251)) * ((QUICK_BYTES if quick else BYTES) // 251))
    results: dict[str, Any] = {
        way: {client: {state: [] for state in STATES} for client in CLIENTS} for way in WAYS
    }
    with ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        disks = list(made.enter_context(rig.Disks(READ_DISKS, rate=RATE, size=SIZE)))
        direct = Home(folder / "home", disks)
        named = json.loads((direct.folder / "disks.json").read_text())
        homes = {
            "folders": str(direct.folder),
            "served": made.enter_context(served(folder / "cluster", named)),
        }
        for _ in range(1 if quick else ROUNDS):
            for state in STATES:
                disks[-1].set_rate(RATE * (SLOW if state == "slow" else 1))
                for client, home in homes.items():
                    took = {"written": write(home, client, content)}
                    took["read"] = read(home, client, content)
                    for way, seconds in took.items():
                        rate = len(content) / seconds / RATE
                        results[way][client][state].append(rate)
                        print(f"    {way}, {state}, {client}: {rate:.2f} disks", flush=True)
                    remove(Path(home), [client])
    return {**results, "rate": RATE, "slow": SLOW}


def claims(results: dict[str, Any]) -> Any:
    return shares(results, "folders", "served", LEAST, "folders")


def draw(axes: Any, results: dict[str, Any]) -> None:
    draw_bars(axes, results, LABELS)
