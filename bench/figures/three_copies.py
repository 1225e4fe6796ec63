"""One disk of six is ten times slower: every read policy, with two copies and with three.

Disks are folders whose rates the engine limits, so nothing but Euphrates is needed. `primary` is
the policy of HDFS without failures: every reader of a block uses one copy, the same for all, and
another one only when that is lost. `fastest` knows the disks' rates from `disks.json`; no other
policy does.

The bound is the shortest time in which these disks can deliver the collection: the slowest set of
segments, over the rate of all disks with copies of them. With chained copies and one slow disk the
bound is all disks busy to the end.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from clusters import BATCH_ROWS, Cluster, at_once

import euphrates as eu

TITLE = "One disk of six is 10 times slower: fraction of the bound, with 2 and 3 copies"
PANELS = 2
DISKS, FAST, SLOW = 6, 40_000_000, 4_000_000
RATES = [SLOW] + [FAST] * (DISKS - 1)
COPIES = [2, 3]
WAYS = ["primary", "random", "alternate", "fastest", "arrival", "laggard", "shares", "graduated"]
NAMES = {
    "primary": "primary only, as HDFS",
    "random": "a random copy",
    "alternate": "even split",
    "fastest": "copy of the fastest disk",
    "arrival": "first come, first served",
    "laggard": "the laggard first",
    "shares": "shares that move (River)",
    "graduated": "graduated declustering",
}
SECONDS = 2
ROUNDS = 3


def made(home: Path, copies: int) -> Cluster:
    """A collection with that many copies, on disks that are limited to their rates from then on."""
    cluster = Cluster(home, f"copies{copies}", [home / f"{copies}-{at}" for at in range(DISKS)])
    cluster.write("mirrored", rows(), copies)
    cluster.set_rates(RATES)
    return cluster


def rows() -> int:
    """Rows of blocks of 256 KiB, equally many per disk, that take `SECONDS` with all disks busy."""
    return int(SECONDS * sum(RATES) / 4 / DISKS) // BATCH_ROWS * BATCH_ROWS * DISKS


def read(cluster: Cluster, way: str) -> dict[str, Any]:
    flow = eu.Flow(way)
    source = flow.place(eu.read("mirrored", mirrors=way), count=2)
    flow.chain(source, eu.count(), eu.collect())
    began = time.perf_counter()
    report = flow.go(home=cluster.home)
    took = time.perf_counter() - began
    assert report.collected().to_pylist() == [{"count": rows()}]
    moved = {disk.name: disk.read_bytes for disk in report.disks}
    return {"seconds": took, "disk_bytes": [moved.get(name, 0) for name in cluster.names]}


def measure(quick: bool) -> dict[str, Any]:
    ways = ["primary", "alternate", "graduated"] if quick else WAYS
    with tempfile.TemporaryDirectory() as home:
        clusters = [made(Path(home), copies) for copies in COPIES]
        runs: dict[str, list[list]] = {way: [[] for _ in COPIES] for way in ways}
        for _ in range(1 if quick else ROUNDS):
            for way in ways:
                done = at_once(lambda cluster, way=way: read(cluster, way), clusters)
                for own, run in zip(runs[way], done):
                    own.append(run)
        bounds = [cluster.read_seconds("mirrored", RATES) for cluster in clusters]
    results: dict[str, Any] = {"bound_seconds": bounds, "ways": {}}
    for way in ways:
        seconds = [statistics.median(run["seconds"] for run in own) for own in runs[way]]
        parts = [bound / took for bound, took in zip(bounds, seconds)]
        results["ways"][way] = {"of_bound": parts, "runs": runs[way]}
        print(f"    {NAMES[way]}: {parts[0]:.3f} with 2 copies, {parts[1]:.3f} with 3", flush=True)
    return results


def claims(results: dict[str, Any]) -> Any:
    ours, primary = (results["ways"][way]["of_bound"] for way in ("graduated", "primary"))
    for at, copies in enumerate(COPIES):
        times = ours[at] / primary[at]
        yield (
            f"{copies} copies: {ours[at]:.3f} of the bound (at least 0.95), "
            f"{times:.1f} times as fast as reading primaries",
            ours[at] >= 0.95,
        )


def draw(axes: Any, results: dict[str, Any]) -> None:
    from figure import COLOURS

    colours = {"primary": COLOURS["static"], "graduated": COLOURS["graduated"]}
    ways = list(results["ways"])
    for at, (one, copies) in enumerate(zip(axes, COPIES)):
        for place, way in enumerate(ways):
            part = results["ways"][way]["of_bound"][at]
            one.barh(place, part, color=colours.get(way, COLOURS["shortest"]), height=0.7)
            one.text(part, place, f" {part:.2f}", va="center")
        one.set_yticks(range(len(ways)), [NAMES[way] for way in ways] if at == 0 else [])
        one.invert_yaxis()
        one.set_xlim(0, 1.12)
        one.axvline(1, color=COLOURS["bound"], linewidth=1, linestyle=":")
        one.set_xlabel(f"fraction of the bound, {copies} copies")
