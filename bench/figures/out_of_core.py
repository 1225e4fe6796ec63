"""The Beowulf's figures 3 to 6: sorting beyond memory, on four machines and more.

Machines are hosts of the rig, each with a disk of 30 MB/s, 256 MB of memory, and swap on its disk.
The sorts are the paper's (`euphrates.sorts`), and Euphrates' own. A sort may use 160 MiB a machine,
of which it needs some 64 for itself; or unlimited memory, as in the paper's runs on virtual memory.

    figure 3    the merge tree through scratch, and on virtual memory, as the records on each of
                four machines increase
    figure 4    the merge tree on 1 to 8 machines, relative to one
    figure 5    the bucket sort on virtual memory, the merge tree, and Euphrates' sort
    figure 6    four machines that sort and have disks; two that sort and two that have disks; and
                four and four

A sort beyond a time limit far above all others is stopped, and counts with the limit. One that
needs more memory than the kernel can provide is killed, and has no time.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusters import Cluster, joined, records
from figure import COLOURS

import euphrates as eu
import rig
from euphrates import sorts

HERE = Path(__file__).resolve().parent
TITLE = "Beowulf, figures 3 to 6: what memory does not hold, 30 MB/s and 256 MB a machine"
PANELS = 4
RATE = 30_000_000
MEMORY = 256_000_000
BUDGET = "160MiB"
MACHINES = 4
SIZES = [32, 64, 128, 256]
QUICK_SIZES = [32, 128]
"""Megabytes per machine."""
SCALED = [1, 2, 4, 8]
TOTALS = [128, 512]
"""Megabytes of all machines together."""
PLACES = ["4,\nboth", "2 and\n2", "4 and\n4"]
"""The number of sorting machines, and of additional machines with disks."""
SECONDS_MAX = 150
KEYS = ["key"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [HERE, HERE.parents[1]]))}


def missing() -> str | None:
    return rig.missing("hosts", "disks", "memory")


class Machines:
    """Hosts with records on their disks: a part on each, and all as one collection."""

    def __init__(self, hosts: rig.Hosts, folder: Path, memories: list[rig.Memory]) -> None:
        self.hosts, self.folder, self.memories = hosts, folder, memories
        self.names = [host.name for host in hosts]
        self.cluster = Cluster(folder, "home", [host.disk.path / "data" for host in hosts])
        # Disks are named after their machines.
        self.cluster.names = self.names
        self.cluster.owned_by(self.names)
        self.rows = 0

    def limit(self, rate: int | None) -> None:
        for host in self.hosts:
            host.disk.set_rate(rate)

    def fill(self, megabytes: float, names: list[str]) -> None:
        """Replaces the records on each of these disks by that amount."""
        self.limit(None)
        self.cluster.clear()
        each = int(megabytes * 1e6) // records.RECORD
        self.rows = each * len(names)
        for at, name in enumerate(names):
            flow = eu.Flow("part")
            part = eu.generate("records", rows=each, first=at * each)
            flow.chain(flow.place(part, count=1), eu.write(f"part{at}", disks=[name]))
            flow.go(home=self.cluster.home, progress=False)
        # The queue sends equal amounts to disks of one rate.
        self.limit(4 * RATE)
        flow = eu.Flow("records")
        source = flow.place(eu.generate("records", rows=self.rows), count=1)
        flow.chain(source, flow.place(eu.write("records", disks=names), count=1))
        flow.go(home=self.cluster.home, progress=False)
        self.limit(RATE)

    def seconds(self, sort: sorts.Variant, made: list[str]) -> float | None:
        """The seconds of a sort that makes these collections, up to the limit; None if a process
        ran out of memory.
        """
        with joined(self.hosts, self.folder, memories=self.memories, env=ENVIRONMENT) as workers:
            began = time.perf_counter()
            options = {"home": self.cluster.home, "cluster": workers, **sort.options}
            running = sort.flow.start(**options)
            if not running.wait(SECONDS_MAX):
                self.limit(None)
                running.cancel()
            try:
                running.finish()
            except eu.Interrupted:
                took = float(SECONDS_MAX)
            except eu.EuphratesError as error:
                assert "was lost" in str(error), error
                took = None
            else:
                took = time.perf_counter() - began
                self.limit(None)
                records.check_and_remove(self.cluster, made, self.rows)
        self.limit(RATE)
        return took


@contextlib.contextmanager
def machines(count: int, megabytes: float) -> Iterator[Machines]:
    size = int(12 * megabytes * 1e6) + 600_000_000
    with contextlib.ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        hosts = made.enter_context(rig.Hosts(count, disk_size=size))
        memories = [made.enter_context(rig.Memory(MEMORY)) for _ in hosts]
        for host in hosts:
            made.enter_context(rig.Swap(host.disk, "512MB"))
        yield Machines(hosts, folder, memories)


def tree(names: list[str], disks: list[str] | None = None, memory: str = BUDGET) -> sorts.Variant:
    target = eu.write("sorted", disks=(disks or names)[-2:])
    return sorts.merge_tree(
        lambda at: eu.read(f"part{at}"), target, KEYS, names, disks=disks, memory=memory
    )


def ours(names: list[str]) -> sorts.Variant:
    flow, count = eu.Flow("sort"), len(names)
    read = flow.place(eu.read("records"), count=count)
    sort = flow.place(eu.sort(KEYS), count=count)
    flow.chain(read, sort, flow.place(eu.write("sorted", disks=names), count=count))
    return sorts.Variant(flow, {"memory": BUDGET})


def bucket(names: list[str]) -> sorts.Variant:
    def target(at: int) -> Any:
        return eu.write(f"sorted{at}", disks=[names[at]])

    return sorts.bucket(eu.read("records"), target, KEYS, names)


def against_memory(at: Machines, sizes: list[int]) -> list[dict[str, Any]]:
    """Figures 3 and 5."""
    runs = []
    buckets = [f"sorted{part}" for part in range(len(at.names))]
    for size in sizes:
        at.fill(size, at.names)
        run = {
            "megabytes": size,
            "merge": at.seconds(tree(at.names), ["sorted"]),
            "merge_virtual": at.seconds(tree(at.names, memory=sorts.IN_CORE), ["sorted"]),
            "bucket_virtual": at.seconds(bucket(at.names), buckets),
            "ours": at.seconds(ours(at.names), ["sorted"]),
        }
        told = ", ".join(f"{way} {seconds(run[way])}" for way in list(run)[1:])
        print(f"    {size} MB of each of {len(at.names)}: {told}", flush=True)
        runs.append(run)
    return runs


def scaled(at: Machines, totals: list[int]) -> list[dict[str, Any]]:
    """Figure 4."""
    runs = []
    for total in totals:
        for count in SCALED:
            names = at.names[:count]
            at.fill(total / count, names)
            run = {
                "merge": at.seconds(tree(names), ["sorted"]),
                "ours": at.seconds(ours(names), ["sorted"]),
            }
            told = ", ".join(f"{way} {seconds(took)}" for way, took in run.items())
            print(f"    {total} MB on {count}: {told}", flush=True)
            runs.append({"megabytes": total, "machines": count, **run})
    return runs


def apart(at: Machines, totals: list[int]) -> list[dict[str, Any]]:
    """Figure 6."""
    four, others = at.names[:4], at.names[4:]
    places = dict(zip(PLACES, [(four, four), (four[:2], four[2:]), (four, others)]))
    runs = []
    for total in totals:
        for place, (names, disks) in places.items():
            at.fill(total / len(disks), disks)
            took = at.seconds(tree(names, disks), ["sorted"])
            print(f"    {total} MB, {' '.join(place.split())}: {seconds(took)}", flush=True)
            runs.append({"megabytes": total, "machines": place, "merge": took})
    return runs


def measure(quick: bool) -> dict[str, Any]:
    sizes, totals = (QUICK_SIZES, TOTALS[:1]) if quick else (SIZES, TOTALS)
    results: dict[str, Any] = {}
    with machines(MACHINES, sizes[-1]) as at:
        results["memory"] = against_memory(at, sizes)
    with machines(SCALED[-1], totals[-1]) as at:
        results["scaled"] = scaled(at, totals)
        results["apart"] = apart(at, totals)
    return results


def seconds(took: float | None) -> str:
    return "killed" if took is None else f"{took:.1f} s"


def claims(results: dict[str, Any]) -> Any:
    last = results["memory"][-1]
    for way, name in (("merge_virtual", "the same"), ("bucket_virtual", "the bucket sort")):
        told = f"{last['megabytes']} MB of each: the merge tree takes {seconds(last['merge'])}"
        told = f"{told}, {name} on virtual memory {seconds(last[way])}"
        yield told, last["merge"] < (last[way] or math.inf)
    times = last["merge"] / last["ours"]
    yield f"ours is {times:.1f} times as fast as the merge tree", times > 1
    by_place = {(run["megabytes"], run["machines"]): run["merge"] for run in results["apart"]}
    for total in sorted({total for total, _ in by_place}):
        both, two = by_place[total, PLACES[0]], by_place[total, PLACES[1]]
        told = f"{total} MB: four machines that do both take {seconds(both)}"
        yield f"{told}, two and two {seconds(two)}", both < two


LOOKS = {
    "merge": {"color": COLOURS["shortest"], "marker": "o", "label": "merge tree"},
    "merge_virtual": {"color": COLOURS["credit"], "marker": "s", "label": "on virtual memory"},
    "bucket_virtual": {"color": COLOURS["static"], "marker": "^", "label": "bucket sort"},
    "ours": {"color": COLOURS["late_binding"], "marker": "o", "label": "ours"},
}


def draw(axes: Any, results: dict[str, Any]) -> None:
    against(axes[0], axes[2], results["memory"])
    for total, style in zip(TOTALS, ["-", "--"]):
        scaled = [run for run in results["scaled"] if run["megabytes"] == total]
        for way in ("merge", "ours") if scaled else ():
            counts = [run["machines"] for run in scaled]
            speedups = [scaled[0][way] / run[way] for run in scaled]
            looks = {**LOOKS[way], "label": f"{LOOKS[way]['label']}, {total} MB"}
            axes[1].plot(counts, speedups, **looks, linestyle=style)
    axes[1].set(title="figure 4", xlabel="machines", ylabel="times as fast as one", xticks=SCALED)
    for at, total in enumerate(sorted({run["megabytes"] for run in results["apart"]})):
        took = [run["merge"] for run in results["apart"] if run["megabytes"] == total]
        spots = [spot + (at - 0.5) * 0.38 for spot in range(len(PLACES))]
        colour = [COLOURS["shortest"], COLOURS["bound"]][at]
        bars = axes[3].bar(spots, took, width=0.36, color=colour, label=f"{total} MB")
        axes[3].bar_label(bars, [f"{one:.0f}" for one in took], fontsize="x-small")
    axes[3].set(title="figure 6", xlabel="sort, and have disks", ylabel="seconds")
    axes[3].set_xticks(range(len(PLACES)), PLACES)
    axes[1].set_ylim(top=1.4 * axes[1].get_ylim()[1])
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False, fontsize="x-small")


def against(three: Any, five: Any, runs: list[dict[str, Any]]) -> None:
    """Figures 3 and 5, without sorts that were killed."""
    both = [run for run in runs if run["merge_virtual"] is not None]
    speedups = [run["merge_virtual"] / run["merge"] for run in both]
    looks = {**LOOKS["merge"], "label": "through scratch"}
    three.plot([run["megabytes"] for run in both], speedups, **looks)
    three.axhline(1, color=COLOURS["bound"], linestyle=":", label="on virtual memory")
    three.set(title="figure 3", xlabel="MB of each of 4", ylabel="times as fast")
    for way in ("bucket_virtual", "merge", "ours"):
        lived = [run for run in runs if run[way] is not None]
        five.plot([run["megabytes"] for run in lived], [run[way] for run in lived], **LOOKS[way])
    five.set(title="figure 5", xlabel="MB of each of 4", ylabel="seconds")
    for axis in (three, five):
        axis.set_xlim(0, 1.1 * runs[-1]["megabytes"])
