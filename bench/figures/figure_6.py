"""River, figure 6: 15 disks are written through a distributed queue, some beside a competitor.

A flow generates records and writes a parallel collection on all disks: each block goes to the least
loaded disk. For comparison the same amount is statically divided: a fifteenth per disk, written by
a flow each, all at once. Disks are of the rig and have the paper's rate. A perturbed disk has a
writing stream with the same queue depth as the flow, which takes half. The two policies take turns;
every point has its own disks, and all points are measured at once. The time runs from the first
record to the durable, visible collection, so it includes all syncs.

The bound is the time in which these disks can write that many bytes, all busy to the end. A disk
counts with its rate while it was busy, but at least 5.45 MB/s, or half of it beside a competitor: a
policy that leaves a disk idle does not lower the bound. The amount per point is chosen so that
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

TITLE = "River, figure 6: 15 disks are written, some beside a competing writer"
PANELS = 2
DISKS = 15
PERTURBED = [0, 1, 2, 4, 8, 12, 15]
QUICK = [0, 1, 4, 15]
SIZE = "155MB"
SECONDS = 17
ROUNDS = 3
SHOWN = 4
WAYS = ["static", "late_binding"]
NAMES = {"static": "divided in advance", "late_binding": "distributed queue"}


def missing() -> str | None:
    return rig.missing("disks")


def records(flow: eu.Flow, rows: int, count: int) -> list[Any]:
    """Generates batches, and so blocks, of 256 KiB: half of `generate`'s batches."""
    source = flow.place(eu.generate("integers", rows=rows), count=count)
    return [source, flow.place(eu.project(["cast(n as int) as n"]), count=count)]


def ours(cluster: Cluster, rows: int) -> list[eu.Flow]:
    flow = eu.Flow("distributed queue")
    flow.chain(
        *records(flow, rows, 2), flow.place(eu.write("records", disks=cluster.names), count=2)
    )
    return [flow]


def static(cluster: Cluster, rows: int) -> list[eu.Flow]:
    flows = []
    for at, disk in enumerate(cluster.names):
        share = rows * (at + 1) // DISKS - rows * at // DISKS
        flow = eu.Flow(f"a fifteenth, for {disk}")
        flow.chain(*records(flow, share, 1), flow.place(eu.write(f"part{at}", disk=disk), count=1))
        flows.append(flow)
    return flows


def once(cluster: Cluster, disks: list[rig.Disk], point: int, way: str) -> dict:
    """Writes with one policy beside that many competitors, and removes the output."""
    perturbed = spread(point, DISKS)
    rows = int(SECONDS * RATE * (DISKS - point / 2) / 4) // BATCH_ROWS * BATCH_ROWS
    flows = (static if way == "static" else ours)(cluster, rows)
    with competitors("write", [disks[at] for at in perturbed]) as streams:
        time.sleep(0.5)
        before = [stream.moved_bytes() for stream in streams]
        began = time.perf_counter()
        running = [flow.start(home=cluster.home) for flow in flows]
        reports = [one.finish() for one in running]
        took = time.perf_counter() - began
        beside = [stream.moved_bytes() - start for stream, start in zip(streams, before)]
    assert sum(report.modules[0].rows_out for report in reports) == rows
    # Static division has one report per disk, in order.
    reports = reports if way == "static" else reports * DISKS
    disks_done = [
        next(one for one in report.disks if one.name == name)
        for report, name in zip(reports, cluster.names)
    ]
    written = [one.written_bytes for one in disks_done]
    rates = [one.written_bytes / one.written_seconds for one in disks_done]
    cluster.clear()
    return {
        "seconds": took,
        "bytes": rows * 4,
        "perturbed": perturbed,
        "disk_bytes": written,
        "disk_rates": [round(rate) for rate in rates],
        "competitor_rates": [round(bytes_ / took) for bytes_ in beside],
    }


def bound_rate(run: dict[str, Any]) -> float:
    """Bytes a second of all disks, as measured in this run."""
    halves = [RATE / 2 if at in run["perturbed"] else RATE for at in range(DISKS)]
    return sum(map(max, halves, run["disk_rates"]))


def measure(quick: bool) -> dict[str, Any]:
    points, rounds = (QUICK, 1) if quick else (PERTURBED, ROUNDS)
    runs: dict[str, dict[int, list]] = {way: {point: [] for point in points} for way in WAYS}
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as made:
        places = []
        for point in points:
            disks = list(made.enter_context(rig.Disks(DISKS, rate=RATE, size=SIZE)))
            folders = [disk.path / "data" for disk in disks]
            places.append((Cluster(Path(home), f"k{point}", folders), disks, point))
        for _ in range(rounds):
            for way in WAYS:
                done = at_once(lambda place, way=way: once(*place, way), places)
                for point, run in zip(points, done):
                    runs[way][point].append(run)
    return summary(points, runs)


def summary(points: list[int], runs: dict[str, dict[int, list]]) -> dict[str, Any]:
    """For each point and policy: bytes a second, relative to 15 disks, and relative to the
    bound.
    """
    results: dict[str, Any] = {"points": points, "peak": DISKS * RATE, "ways": {}, "bound": []}
    for point in points:
        bounds = [bound_rate(run) for run in runs["late_binding"][point]]
        results["bound"].append(statistics.median(bounds) / (DISKS * RATE))
    for way in WAYS:
        rates = [
            statistics.median(run["bytes"] / run["seconds"] for run in runs[way][point])
            for point in points
        ]
        parts = [rate / results["peak"] for rate in rates]
        results["ways"][way] = {
            "of_peak": parts,
            "of_bound": [part / bound for part, bound in zip(parts, results["bound"])],
            "runs": runs[way],
        }
        for point, part, bound in zip(points, parts, results["ways"][way]["of_bound"]):
            print(
                f"    {point:2} perturbed, {NAMES[way]}: {part:.3f} of peak, {bound:.3f} of bound"
            )
    return results


def claims(results: dict[str, Any]) -> Any:
    ours, static = (results["ways"][way] for way in ("late_binding", "static"))
    least = min(ours["of_bound"])
    yield f"at least {least:.3f} of the bound at every point (at least 0.95)", least >= 0.95
    over = [one / other for one, other in zip(ours["of_peak"], static["of_peak"])]
    told = f"{min(over):.2f} to {max(over):.2f} times as fast as dividing in advance"
    yield f"{told}, never slower", min(over) >= 1


def draw(axes: Any, results: dict[str, Any]) -> None:
    from figure import COLOURS

    left, right = axes
    points = results["points"]
    percent = [100 * part for part in results["bound"]]
    left.plot(
        points, percent, color=COLOURS["bound"], linestyle=":", label="all disks busy to the end"
    )
    for way in reversed(WAYS):
        parts = [100 * part for part in results["ways"][way]["of_peak"]]
        left.plot(points, parts, color=COLOURS[way], marker="o", markersize=4, label=NAMES[way])
    left.set_ylim(0, 105)
    left.set_xticks(points)
    left.set_xlabel("disks of 15 with a competing writer")
    left.set_ylabel("% of what 15 free disks can write")
    left.legend(frameon=False, loc="lower left")
    shown = SHOWN if SHOWN in points else points[-1]
    for at, way in enumerate(reversed(WAYS)):
        run = results["ways"][way]["runs"][shown][0]
        places = [disk + (at - 0.5) * 0.4 for disk in range(DISKS)]
        megabytes = [bytes_ / 1e6 for bytes_ in run["disk_bytes"]]
        right.bar(places, megabytes, width=0.4, color=COLOURS[way])
    run = results["ways"]["late_binding"]["runs"][shown][0]
    marks = ["slow" if disk in run["perturbed"] else "" for disk in range(DISKS)]
    right.set_xticks(range(DISKS), marks)
    right.set_xlabel(f"each of the 15 disks, {shown} with a competitor")
    right.set_ylabel("MB written")
