"""River, Figure 1: a statically divided sort and Euphrates', when one machine is slow.

Eight machines are hosts of the rig, each with a disk of 10.9 MB/s, and twice the processor share
that the static sort needs. (Slower disks would need a smaller share, of which a machine's fixed
overhead would be a large part, and the kernel would grant a quarter of it in coarse slices.) The
static sort is NOW-Sort (Berkeley NOW, 6): every machine reads the records on its own disk, sends
each to the machine that owns its key range, where ranges are of equal size, sorts what it receives,
and writes it to its own disk. No queue has a choice. Euphrates' sort reads the same records from a
mirrored collection (chained declustering), sorts, and writes a collection to all disks.

One machine is perturbed (River, 1.1):

    layout    its disk gives 60 %, as on inner tracks
    hot disk  another stream reads and writes its disk, with twice the queue depth
    cpu       another job takes three quarters of its processor
    memory    it pages: its worker is paused four fifths of the time

The cluster then loses an eighth of that part. The claim is about perturbations that slow the static
sort to 1.5 times or more: Euphrates' sort slows by the lost part, plus 5 %.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from clusters import RATE as PAPER_RATE
from clusters import Cluster, joined, records
from figure import COLOURS

import euphrates as eu
import rig

HERE = Path(__file__).resolve().parent
TITLE = "River, figure 1: eight machines sort, one of them perturbed"
MACHINES = 8
RATE = 2 * PAPER_RATE
CPU_TIMES = 2
"""The processor share relative to the static sort's need, which is measured first: processors
differ, and one processor varies from day to day.
"""
SLOW = 3
SECONDS = 24
"""Seconds of reading without faults, and again of writing. The claim is about a rate: a machine
that is awake once in half a second takes a second to start and end, whatever the input.
"""
ROUNDS = {"static": 1, "ours": 3}
"""Runs per perturbed scenario; unperturbed, both sorts run as often as ours. Medians count. A
shared processor's speed varies by a third and more from minute to minute.
"""
WAYS = list(ROUNDS)
NAMES = {"static": "divided in advance", "ours": "ours"}
COLOURS_OF = {"static": COLOURS["static"], "ours": COLOURS["late_binding"]}
LOST = {"none": 0.0, "layout": 0.4, "hot disk": 2 / 3, "cpu": 0.75, "memory": 0.8}
"""The part of one machine that a perturbation takes."""
POINTS_MAX = 0.05
STATIC_SLOWER_MIN = 1.5


def missing() -> str | None:
    return rig.missing("hosts", "disks", "cpus")


def same(batch: eu.Batch) -> eu.Batch:
    """Loads this file and its imports in a worker before anything is measured."""
    return batch


class Divide(eu.Module):
    """Sends each record to the machine that owns its key: ranges of one size, one per output."""

    outputs = tuple(f"to{at}" for at in range(MACHINES))

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            table = batch.to_pyarrow()
            keys = np.frombuffer(table["key"].cast(pa.binary(10)).buffers()[1], np.uint8)
            first = table["key"].offset * 10
            heads = keys[first : first + 10 * len(table) : 10]
            order = np.argsort(heads // (256 // MACHINES), kind="stable")
            counts = np.bincount(heads // (256 // MACHINES), minlength=MACHINES)
            sorted_, at = table.take(pa.array(order)), 0
            for output, count in enumerate(counts):
                if count:
                    ports.put(output, sorted_.slice(at, int(count)))
                at += int(count)


def static(names: list[str]) -> tuple[eu.Flow, list[str]]:
    """The flow, and the collections that it makes: one per machine."""
    flow = eu.Flow("static sort")
    read = flow.place(eu.read("plain"), count=MACHINES, id="read")
    divide = flow.place(Divide(), count=MACHINES, id="divide")
    flow.attach(read, divide, queue="pairwise")
    made = []
    for at, name in enumerate(names):
        sort = flow.place(eu.sort(["key"]), count=1, workers=name, id=f"sort{at}")
        flow.attach(divide, sort, output=at)
        made.append(f"sorted{at}")
        flow.attach(sort, flow.place(eu.write(made[-1], disks=[name]), count=1, workers=name))
    return flow, made


def ours(names: list[str]) -> tuple[eu.Flow, list[str]]:
    flow = eu.Flow("sort")
    read = flow.place(eu.read("mirrored"), count=MACHINES, id="read")
    sort = flow.place(eu.sort(["key"]), count=MACHINES, id="sort")
    write = flow.place(eu.write("sorted", disks=names), count=MACHINES, id="write")
    flow.chain(read, sort, write)
    return flow, ["sorted"]


FLOWS: dict[str, Callable[[list[str]], tuple[eu.Flow, list[str]]]] = {
    "static": static,
    "ours": ours,
}


@contextlib.contextmanager
def perturbed(host: rig.Host, worker: int, scenario: str) -> Iterator[None]:
    with contextlib.ExitStack() as made:
        if scenario == "layout":
            made.enter_context(host.slow_disk(RATE * (1 - LOST["layout"])))
        elif scenario == "hot disk":
            for way in ("read", "write"):
                made.enter_context(host.disk.competitor(way, depth=2))
        elif scenario == "cpu":
            made.enter_context(host.cpu.stolen(LOST["cpu"]))
        elif scenario == "memory":
            made.enter_context(rig.pause(worker, on=0.4, off=0.1))
        time.sleep(0.5)
        yield


class Machines:
    """Hosts with the records on their disks, plain and mirrored."""

    def __init__(self, made: contextlib.ExitStack, seconds: float) -> None:
        self.folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        size = int(6 * seconds * RATE) + 48_000_000
        self.hosts = made.enter_context(rig.Hosts(MACHINES, disk_size=size))
        paths = [host.disk.path / "data" for host in self.hosts]
        self.cluster = Cluster(self.folder, "home", paths)
        self.names = [host.name for host in self.hosts]
        # Disks are named after their machines.
        self.cluster.names = self.names
        self.cluster.owned_by(self.names)
        self.rows = records.rows_of(seconds * RATE / PAPER_RATE, MACHINES)
        # The queue sends equal amounts to disks of one rate.
        self.limit(2 * RATE)
        records.write(self.cluster, "plain", self.rows)
        records.write(self.cluster, "mirrored", self.rows, copies=2)
        self.limit(RATE)
        self.processes: dict[str, int] = {}
        with self.joined() as self.workers:
            self.cpu = self.needed() * CPU_TIMES
        for host in self.hosts:
            host.cpu.set_quota(self.cpu)
        # A worker reports its processor share when it joins.
        self.workers = made.enter_context(self.joined())

    @contextlib.contextmanager
    def joined(self) -> Iterator[eu.Cluster]:
        """A worker on each machine."""
        seen = os.pathsep.join(map(str, [HERE, HERE.parents[1]]))
        here = {**os.environ, "PYTHONPATH": seen}
        with joined(self.hosts, self.folder, self.processes, env=here) as workers:
            flow = eu.Flow("warm")
            batches = flow.place(eu.generate("integers", rows=1_000_000), count=1)
            flow.chain(batches, flow.place(same, per_worker=1), eu.count(), eu.collect())
            flow.go(cluster=workers, progress=False)
            yield workers

    def needed(self) -> float:
        """The processor share that the static sort takes of each machine."""
        before = self.computed()
        run = self.run("static", "none")
        return (self.computed() - before) / MACHINES / run["seconds"]

    def computed(self) -> float:
        """The processor seconds of all workers so far."""
        # The fields after the name, which may contain blanks: see proc(5).
        stats = [Path(f"/proc/{pid}/stat").read_text() for pid in self.processes.values()]
        times = [stat.rpartition(")")[2].split()[11:13] for stat in stats]
        ticks = sum(int(user) + int(system) for user, system in times)
        return ticks / os.sysconf("SC_CLK_TCK")

    def limit(self, rate: int | None) -> None:
        for host in self.hosts:
            host.disk.set_rate(rate)

    def run(self, way: str, scenario: str) -> dict[str, Any]:
        flow, made = FLOWS[way](self.names)
        options = {"queues": "static"} if way == "static" else {}
        slow = self.hosts[SLOW]
        with perturbed(slow, self.processes[slow.name], scenario):
            began = time.perf_counter()
            report = flow.go(
                home=self.cluster.home, cluster=self.workers, progress=False, **options
            )
            took = time.perf_counter() - began
        self.check(made)
        told = json.loads(report.to_json())
        sorts = [one for one in told["modules"] if one["module"] == "sort"]
        return {
            "seconds": took,
            "spilled_bytes": sum(one["spilled_bytes"] for one in sorts),
            "instances": {
                one["name"]: {
                    key: one[key] for key in ("busy_seconds", "computed_seconds", "bytes_in")
                }
                for one in told["instances"]
            },
            "disks": told["disks"],
        }

    def check(self, made: list[str]) -> None:
        """Checks the output without rate limits, to save time."""
        self.limit(None)
        records.check_and_remove(self.cluster, made, self.rows)
        self.limit(RATE)


def measure(quick: bool) -> dict[str, Any]:
    seconds = 3 if quick else SECONDS
    scenarios = ["none", "hot disk"] if quick else list(LOST)
    runs: dict[str, Any] = {way: {scenario: [] for scenario in scenarios} for way in WAYS}
    with contextlib.ExitStack() as made:
        machines = Machines(made, seconds)
        print(f"    {machines.cpu:.3f} of a processor for each machine", flush=True)
        for number in range(1 if quick else max(ROUNDS.values())):
            for scenario in scenarios:
                for way, rounds in ROUNDS.items():
                    if scenario == "none" or number < rounds:
                        run = machines.run(way, scenario)
                        runs[way][scenario].append(run)
                        told = f"{scenario}, {NAMES[way]}: {run['seconds']:.1f} s"
                        print(f"    {told}", flush=True)
    return {"cpu": machines.cpu, **{way: compared(of) for way, of in runs.items()}}


def compared(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The median of each scenario's runs, its ratio to the unperturbed ones, and the runs."""
    medians = {
        scenario: statistics.median(run["seconds"] for run in rounds)
        for scenario, rounds in runs.items()
    }
    return {
        scenario: {
            "seconds": medians[scenario],
            "slower": medians[scenario] / medians["none"],
            "rounds": rounds,
        }
        for scenario, rounds in runs.items()
    }


def claims(results: dict[str, Any]) -> Any:
    for scenario, run in results["ours"].items():
        divided = results["static"][scenario]["slower"]
        if divided < STATIC_SLOWER_MIN:
            continue
        most = 1 / (1 - LOST[scenario] / MACHINES) + POINTS_MAX
        told = f"{scenario}: {run['slower']:.2f} times as long (at most {most:.2f})"
        yield f"{told}; divided in advance {divided:.2f}", run["slower"] <= most


def draw(axes: Any, results: dict[str, Any]) -> None:
    scenarios = list(results["ours"])
    for at, way in enumerate(WAYS):
        places = [spot + (at - 0.5) * 0.38 for spot in range(len(scenarios))]
        heights = [results[way][scenario]["slower"] for scenario in scenarios]
        label = f"{NAMES[way]} ({results[way]['none']['seconds']:.1f} s unperturbed)"
        bars = axes.bar(places, heights, width=0.36, color=COLOURS_OF[way], label=label)
        axes.bar_label(bars, [f"{height:.2f}" for height in heights], fontsize="small", padding=2)
    for spot, scenario in enumerate(scenarios):
        least = 1 / (1 - LOST[scenario] / MACHINES)
        ends = [spot - 0.4, spot + 0.4]
        label = "what is left of eight machines" if spot == 0 else None
        axes.plot(ends, [least, least], color=COLOURS["bound"], linestyle=":", label=label)
    axes.set_xticks(range(len(scenarios)), scenarios)
    axes.set_xlabel("what is perturbed at one of eight machines")
    axes.set_ylabel("times as long as unperturbed")
    axes.legend(frameon=False, loc="upper left")
