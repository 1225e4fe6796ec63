"""The sort on 1 to 16 disks, compared with disks that read and write all the time.

Left, River's Figure 9 (4.2): each worker has a disk of 5.45 MB/s with records to read and sorted
ones to write: one parallel collection on all disks becomes another in order. The ideal is River's:
a sort that takes no time between reading and writing at the rate of all disks. A sort cannot write
before it has read everything, so the two times add up.

Middle, River's Figure 10: between 14 disks and the sort are 14 partitioners, each of twice a disk's
rate, some of which have lost three quarters of their speed. The bound reads at the lower rate of
disks and partitioners, and writes at that of the disks.

Right, the write perturbation at the end of River's 4.2: 14 disks, some beside a writing stream of
the same queue depth, which takes half. The bound writes at the disks' total rate: a disk counts
with its rate while it was busy, but at least its nominal rate, or half of it.

Workers are threads of one process, whose processors are mostly idle, so that several small clusters
are measured at once. The time is that of the flow; it ends when the sorted collection is durable
and visible.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

from clusters import RATE, Cluster, Consume, at_once, records, spread

import euphrates as eu
import rig

TITLE = "River, figures 9 and 10: the sort beside what its disks can do at best"
PANELS = 3
SIZES = [1, 2, 4, 8, 16]
QUICK_SIZES = [1, 4]
DISKS = 14
PERTURBED = [0, 4, 8, 14]
QUICK_PERTURBED = [0, 4]
SECONDS = 30
QUICK_SECONDS = 4
"""Seconds of reading without faults, and again of writing. The bounds exclude start and end: the
agreement on ranges, and a second for the last syncs beside a competitor.
"""
BLOCK = "880KiB"
"""The sort's write size for a disk."""
LOST = 0.75
FRACTION_MIN = 0.95


def missing() -> str | None:
    return rig.missing("disks")


@dataclasses.dataclass
class Place:
    """Disks of the rig with records on them, and a home that names them."""

    cluster: Cluster
    disks: list[rig.Disk]
    rows: int

    @property
    def count(self) -> int:
        return len(self.disks)

    @property
    def bytes(self) -> int:
        """The bytes of the records on the disks; the output is as large."""
        return sum(one["bytes"] for one in self.cluster.segments("records"))

    def limit(self, rate: int | None) -> None:
        for disk in self.disks:
            disk.set_rate(rate)

    def check(self) -> None:
        """Checks and removes the sorted collection, without rate limits to save time."""
        self.limit(None)
        records.check_and_remove(self.cluster, ["sorted"], self.rows)
        self.limit(RATE)


def opened(made: contextlib.ExitStack, home: Path, count: int, seconds: float) -> Place:
    """Disks with as many records as they read in that time.

    They are also written with a limit: the queue then sends equal amounts to each disk.
    """
    size = int(2.6 * seconds * RATE) + 16_000_000
    disks = list(made.enter_context(rig.Disks(count, size=size)))
    cluster = Cluster(home.parent, home.name, [disk.path / "data" for disk in disks])
    place = Place(cluster, disks, records.rows_of(seconds, count))
    place.limit(2 * RATE)
    records.write(cluster, "records", place.rows)
    place.limit(RATE)
    return place


def sort(place: Place, lost: int | None = None) -> dict[str, Any]:
    """Sorts once; if given, behind partitioners of which that many are slow."""
    count = place.count
    flow = eu.Flow("sort")
    stages = [flow.place(eu.read("records"), count=count, id="read")]
    perturb = []
    if lost is not None:
        stages.append(flow.place(Consume(), count=count, id="partition"))
        perturb = [eu.perturb(instance=f"partition.{at}", share=LOST) for at in spread(lost, count)]
    stages.append(flow.place(eu.sort(["key"]), count=count, id="sort"))
    target = eu.write("sorted", disks=place.cluster.names)
    stages.append(flow.place(target, count=count, id="write"))
    flow.chain(*stages)
    began = time.process_time()
    report = flow.go(home=place.cluster.home, workers=count, perturb=perturb, progress=False)
    computed = time.process_time() - began
    disks = {one.name: one for one in report.disks}
    mine = [disks[name] for name in place.cluster.names]
    reading = max(one.life_seconds for one in report.instances if one.module == "read")
    return {
        "seconds": report.seconds,
        "cores_busy": computed / report.seconds,
        "until_read_seconds": reading,
        "writing_seconds": writing(report),
        "read_bytes": [one.read_bytes for one in mine],
        "read_seconds": [one.read_seconds for one in mine],
        "written_bytes": [one.written_bytes for one in mine],
        "written_seconds": [one.written_seconds for one in mine],
    }


def writing(report: eu.Report) -> list[float]:
    """The start of the first writer and the end of the last, to a tenth of a second: a report has
    the history of the 64 busiest components, and a disk is half as busy as its writer.
    """
    rates = [one.bytes_per_second for one in report.history.series if one.module == "write"]
    busy = [end for at, end in enumerate(report.history.seconds) if any(one[at] for one in rates)]
    return [busy[0], busy[-1]]


def with_bound(
    point: dict[str, Any], bytes_: int, read_rate: float, write_rate: float
) -> dict[str, Any]:
    """Adds the bound: reading everything at one rate, and then writing it at the other."""
    bound = bytes_ / read_rate + bytes_ / write_rate
    return {**point, "bytes": bytes_, "bound_seconds": bound, "of_bound": bound / point["seconds"]}


def scaled(place: Place) -> dict[str, Any]:
    run = sort(place)
    place.check()
    return with_bound(
        {"disks": place.count, **run}, place.bytes, place.count * RATE, place.count * RATE
    )


def partitioned(place: Place, lost: int) -> dict[str, Any]:
    run = sort(place, lost)
    place.check()
    partitioners = 2 * RATE * (place.count - LOST * lost)
    disks = place.count * RATE
    return with_bound({"perturbed": lost, **run}, place.bytes, min(disks, partitioners), disks)


def written(place: Place, slow: int) -> dict[str, Any]:
    chosen = spread(slow, place.count)
    with contextlib.ExitStack() as streams:
        for at in chosen:
            streams.enter_context(place.disks[at].competitor("write", request=BLOCK))
        run = sort(place)
    place.check()
    least = [RATE / 2 if at in chosen else RATE for at in range(place.count)]
    rates = [sum_ / took for sum_, took in zip(run["written_bytes"], run["written_seconds"])]
    disks = place.count * RATE
    return with_bound({"perturbed": slow, **run}, place.bytes, disks, sum(map(max, least, rates)))


def measure(quick: bool) -> dict[str, Any]:
    sizes, points, seconds = (
        (QUICK_SIZES, QUICK_PERTURBED, QUICK_SECONDS) if quick else (SIZES, PERTURBED, SECONDS)
    )
    results: dict[str, Any] = {"scaling": [], "partitioners": [], "writers": []}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        *small, large = sizes
        with contextlib.ExitStack() as made:
            places = [opened(made, home / f"n{size}", size, seconds) for size in small]
            for run in at_once(scaled, places):
                note(results["scaling"], f"{run['disks']} disks", run)
        with contextlib.ExitStack() as made:
            run = scaled(opened(made, home / f"n{large}", large, seconds))
            note(results["scaling"], f"{large} disks", run)
        with contextlib.ExitStack() as made:
            panels = {"partitioners": partitioned, "writers": written}
            places = [opened(made, home / panel, DISKS, seconds) for panel in panels]
            for point in points:
                pairs = list(zip(panels.values(), places))
                done = at_once(lambda pair, point=point: pair[0](pair[1], point), pairs)
                for panel, run in zip(panels, done):
                    note(results[panel], f"{point} slow {panel}", run)
    return results


def note(runs: list[dict[str, Any]], name: str, run: dict[str, Any]) -> None:
    runs.append(run)
    print(f"    {name}: {run['seconds']:.1f} s, {run['of_bound']:.3f} of the bound", flush=True)


def claims(results: dict[str, Any]) -> Any:
    last = results["scaling"][-1]
    ours = last["of_bound"]
    told = f"{last['disks']} disks: {ours:.3f} of the ideal (at least {FRACTION_MIN}; River 0.86)"
    yield told, ours >= FRACTION_MIN
    for panel in ("partitioners", "writers"):
        least = min(results[panel], key=lambda run: run["of_bound"])
        told = f"{least['of_bound']:.3f} of the bound at every point (at least {FRACTION_MIN})"
        where = f"least with {least['perturbed']} of {DISKS}"
        yield f"slow {panel}: {told}, {where}", least["of_bound"] >= FRACTION_MIN


def draw(axes: Any, results: dict[str, Any]) -> None:
    from figure import COLOURS

    titles = {
        "scaling": ("disks, one a worker", "disks", "figure 9"),
        "partitioners": (f"slow partitioners of {DISKS}", "perturbed", "figure 10"),
        "writers": (f"disks of {DISKS} with a competing writer", "perturbed", "writing runs"),
    }
    for axis, (panel, (label, at, title)) in zip(axes, titles.items()):
        runs = results[panel]
        places = [run[at] for run in runs]
        for what, looks in (
            ("bound_seconds", {"color": COLOURS["bound"], "linestyle": ":", "label": "at best"}),
            ("seconds", {"color": COLOURS["late_binding"], "marker": "o", "label": "the sort"}),
        ):
            # Bytes moved in each direction, so that more is better.
            rates = [2 * run["bytes"] / run[what] / 1e6 for run in runs]
            axis.plot(places, rates, markersize=4, **looks)
        for run in runs:
            text = f"{run['of_bound']:.1%}"
            height = 2 * run["bytes"] / run["seconds"] / 1e6
            axis.annotate(text, (run[at], height), (0, -14), textcoords="offset points",
                          ha="center", fontsize=7)  # fmt: skip
        axis.margins(x=0.13)
        axis.set_ylim(0)
        axis.set_xticks(places)
        axis.set_xlabel(label)
        axis.set_title(title, fontsize="medium")
    axes[0].set_ylabel("MB read and written a second")
    axes[0].legend(frameon=False, loc="upper left")
