"""River, figure 7: mirrored disks are read, some beside a competitor.

Each of 4 disks (and of 16) has a segment and the mirror of its neighbour's (chained declustering).
A perturbed disk has a reading stream with the same queue depth as the flow, which takes half of it;
perturbed disks are spread evenly over the ring. Four policies: no mirrors; mirrors for availability
only; alternate blocks from either copy; graduated declustering (2.2.3). The policies take turns;
every point has its own disks, and all points are measured at once.

The bound is the shortest time in which these disks can deliver the collection: the slowest set of
segments, over the rate of all disks with copies of them. A disk counts with its rate while it was
busy, but at least 5.45 MB/s, or half of it beside a competitor. Here the bound is all disks busy to
the end; neighbourhoods matter only where slow disks cluster. The amount per point is chosen so that
every point takes about as long if the bound is reached.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from clusters import BATCH_ROWS, RATE, Cluster, at_once, competitors, spread

import euphrates as eu
import rig

TITLE = "River, figure 7: mirrored disks are read, some beside a competing reader"
PANELS = 2
POINTS = {4: [0, 1, 2, 3, 4], 16: [0, 1, 4, 8, 12, 16]}
QUICK = {4: [0, 1, 4], 16: [0, 4]}
SECONDS = {4: 7, 16: 6}
ROUNDS = 3
WAYS = ["unmirrored", "primary", "alternate", "graduated"]
NAMES = {
    "unmirrored": "no mirrors",
    "primary": "mirrors that do not adapt",
    "alternate": "even split",
    "graduated": "graduated declustering",
}
WIDTHS = {"alternate": 5, "primary": 2.5}
"""Widths of lines that others cover."""


def missing() -> str | None:
    return rig.missing("disks")


class Bench:
    """A cluster with two collections, sized for a point of the figure."""

    def __init__(self, home: Path, disks: list[rig.Disk], point: int, seconds: float) -> None:
        name = f"{len(disks)}-{point}"
        self.disks = disks
        self.cluster = Cluster(home, name, [disk.path / "data" for disk in disks])
        self.perturbed = spread(point, len(disks))
        each = int(seconds * RATE * (1 - point / 2 / len(disks)) / 4)
        self.rows = each // BATCH_ROWS * BATCH_ROWS * len(disks)

    def write(self) -> None:
        for collection, copies in (("unmirrored", 1), ("mirrored", 2)):
            self.cluster.write(collection, self.rows, copies)

    def read(self, way: str) -> dict[str, Any]:
        collection = "unmirrored" if way == "unmirrored" else "mirrored"
        mirrors = None if way == "unmirrored" else way
        flow = eu.Flow(way)
        source = flow.place(eu.read(collection, mirrors=mirrors), count=2)
        flow.chain(source, eu.count(), eu.collect())
        with competitors("read", [self.disks[at] for at in self.perturbed]) as streams:
            time.sleep(0.5)
            before = [stream.moved_bytes() for stream in streams]
            began = time.perf_counter()
            report = flow.go(home=self.cluster.home)
            took = time.perf_counter() - began
            beside = [stream.moved_bytes() - start for stream, start in zip(streams, before)]
        assert report.collected().to_pylist() == [{"count": self.rows}]
        moved = {disk.name: disk for disk in report.disks}
        disks = [moved.get(name) for name in self.cluster.names]
        rates = [disk.read_bytes / disk.read_seconds if disk else 0 for disk in disks]
        return {
            "seconds": took,
            "disk_bytes": [disk.read_bytes if disk else 0 for disk in disks],
            "disk_rates": [round(rate) for rate in rates],
            "competitor_rates": [round(bytes_ / took) for bytes_ in beside],
            "bound_seconds": self.bound(collection, rates),
        }

    def bound(self, collection: str, rates: list[float]) -> float:
        halves = [RATE / 2 if at in self.perturbed else RATE for at in range(len(self.disks))]
        return self.cluster.read_seconds(collection, list(map(max, halves, rates)))


def measure(quick: bool) -> dict[str, Any]:
    points, rounds = (QUICK, 1) if quick else (POINTS, ROUNDS)
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as made:
        benches = []
        for disks, point in ((disks, point) for disks, some in points.items() for point in some):
            size = int(3.5 * SECONDS[disks] * RATE)
            own = list(made.enter_context(rig.Disks(disks, size=size)))
            seconds = SECONDS[disks] * (0.7 if quick else 1)
            benches.append(Bench(Path(home), own, point, seconds))
        at_once(Bench.write, benches)
        for disk in (disk for bench in benches for disk in bench.disks):
            disk.set_rate(RATE)
        runs: dict[Bench, dict[str, list]] = {bench: {way: [] for way in WAYS} for bench in benches}
        for _ in range(rounds):
            for way in WAYS:
                done = at_once(lambda bench, way=way: bench.read(way), benches)
                for bench, run in zip(benches, done):
                    runs[bench][way].append(run)
    return {str(disks): panel(disks, runs) for disks in points}


def panel(disks: int, runs: dict[Bench, dict[str, list]]) -> dict[str, Any]:
    """For each point and policy: bytes a second, relative to all disks, and relative to the
    bound.
    """
    benches = [bench for bench in runs if len(bench.disks) == disks]
    peak = disks * RATE
    found: dict[str, Any] = {"points": [len(bench.perturbed) for bench in benches], "ways": {}}
    bounds = [median(runs[bench]["graduated"], "bound_seconds") for bench in benches]
    found["bound"] = [bench.rows * 4 / bound / peak for bench, bound in zip(benches, bounds)]
    for way in WAYS:
        seconds = [median(runs[bench][way], "seconds") for bench in benches]
        found["ways"][way] = {
            "of_peak": [bench.rows * 4 / took / peak for bench, took in zip(benches, seconds)],
            "of_bound": [bound / took for bound, took in zip(bounds, seconds)],
            "runs": [runs[bench][way] for bench in benches],
        }
        told = ", ".join(f"{part:.3f}" for part in found["ways"][way]["of_bound"])
        print(f"    {disks} disks, {NAMES[way]}: {told} of the bound", flush=True)
    return found


def median(runs: list[dict[str, Any]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def claims(results: dict[str, Any]) -> Any:
    for disks, panel in results.items():
        ours, plain = (panel["ways"][way] for way in ("graduated", "unmirrored"))
        part = ours["of_peak"][0] / plain["of_peak"][0]
        yield (
            f"{disks} disks: unperturbed, {part:.3f} of reading without mirrors "
            "(at least 0.97; the paper's had 0.90 to 0.95)",
            part >= 0.97,
        )
        least = min(ours["of_bound"])
        told = f"{disks} disks: at least {least:.3f} of the bound at every point, all of them too"
        yield f"{told} (at least 0.95)", least >= 0.95


def draw(axes: Any, results: dict[str, Any]) -> None:
    from figure import COLOURS

    colours = {"unmirrored": COLOURS["shortest"], "primary": COLOURS["static"]}
    colours |= {"alternate": COLOURS["round_robin"], "graduated": COLOURS["graduated"]}
    for one, (disks, panel) in zip(axes, results.items()):
        points = panel["points"]
        percent = [100 * part for part in panel["bound"]]
        one.plot(
            points,
            percent,
            color=COLOURS["bound"],
            linestyle=":",
            label="all disks busy to the end",
        )
        for way in reversed(WAYS):
            parts = [100 * part for part in panel["ways"][way]["of_peak"]]
            dashes = "--" if way == "unmirrored" else "-"
            width = WIDTHS.get(way, 1.5)
            one.plot(
                points,
                parts,
                dashes,
                color=colours[way],
                marker="o",
                markersize=4,
                linewidth=width,
                label=NAMES[way],
            )
        one.set_ylim(0, 105)
        one.set_xticks(points)
        one.set_xlabel(f"disks of {disks} with a competing reader")
        one.set_ylabel(f"% of what {disks} free disks can give")
    axes[0].legend(frameon=False, loc="lower left")
