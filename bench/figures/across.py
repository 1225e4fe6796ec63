"""Sixteen machines: the cost of a slow link, a slow CPU and a slow disk, compared with one process.

Each machine is a network namespace with a link of 25 MB/s, a disk of 5.45 MB/s (River, 3.1.1) and a
share of a processor. A mirrored collection lies on all disks (chained declustering). Two flows read
it. In `declustering` each reader counts its own records, so that only graduated declustering
balances load. In `queue` all records go through a distributed queue to consumers that compute. Both
run on 16 workers, one per machine, and in one process on the same disks, which has no links.

A slow machine has a twentieth of its link, a tenth of its processor, or a quarter of its disk; in
the combined case three machines have one fault each. The bound is the shortest time in which the
disks can deliver the collection (Hall 1935, see `clusters`): with ideal balancing neither links nor
processors are the bottleneck. Static division (`static`, reading from the first copy) waits for the
slow machine.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusters import BATCH_ROWS, RATE, Cluster, joined
from figure import COLOURS

import euphrates as eu
import rig

TITLE = "16 machines, some slow: parts of what the disks can give"
PANELS = 2
MACHINES = 16
LINK = 25_000_000
CPU = 0.3
SECONDS = 18
"""The disks' reading time without faults."""
ROUNDS = 2
SHARE_DIVIDED = 1 / 4
"""Static division reads less data: with a slow link it takes twenty times as long."""
SLOW = {"link": 3, "cpu": 7, "disk": 11}
"""The machine with the fault, by kind."""
SCENARIOS: dict[str, list[str]] = {
    "none": [],
    "link": ["link"],
    "cpu": ["cpu"],
    "disk": ["disk"],
    "all": ["link", "cpu", "disk"],
}
FLOWS = ["declustering", "queue"]
WAYS = ["across", "embedded", "divided"]
NAMES = {"across": "16 machines", "embedded": "one process", "divided": "divided in advance"}
COLOURS_OF = {
    "across": COLOURS["late_binding"],
    "embedded": "#54aeff",
    "divided": COLOURS["static"],
}
POINTS_MAX = 0.03
COMPUTED = "cast((n * 31 + n % 1009 * 17 + n % 65537) % 1000003 as int) as n"


def missing() -> str | None:
    return rig.missing("hosts", "disks", "cpus")


@contextlib.contextmanager
def slowed(hosts: rig.Hosts, what: list[str]) -> Iterator[list[float]]:
    """Slows machines; returns the rates of all disks meanwhile."""
    rates = [float(RATE)] * MACHINES
    with contextlib.ExitStack() as stack:
        for one in what:
            host = hosts[SLOW[one]]
            if one == "link":
                stack.enter_context(host.slow_link(LINK / 20))
            elif one == "cpu":
                stack.enter_context(host.slow_cpu(CPU / 10))
            else:
                stack.enter_context(host.slow_disk(RATE / 4))
                rates[SLOW[one]] = RATE / 4
        time.sleep(0.5)
        yield rates


def flow_of(kind: str, collection: str, is_divided: bool) -> eu.Flow:
    flow = eu.Flow(kind)
    mirrors = "primary" if is_divided else None
    source = flow.place(eu.read(collection, mirrors=mirrors), count=MACHINES)
    consumers = [flow.place(eu.count(), count=MACHINES)]
    if kind == "queue":
        consumers.insert(0, flow.place(eu.project([COMPUTED]), count=MACHINES))
    flow.chain(source, *consumers, eu.collect())
    return flow


def run(kind: str, way: str, home: Cluster, cluster: eu.Cluster, rates: list[float]) -> dict:
    options: dict[str, Any] = {"workers": MACHINES} if way == "embedded" else {"cluster": cluster}
    if way == "divided" and kind == "queue":
        options["queues"] = "round_robin"
    collection = "short" if way == "divided" else "mirrored"
    began = time.perf_counter()
    report = flow_of(kind, collection, way == "divided").go(home=home.home, **options)
    took = time.perf_counter() - began
    rows = sum(entry["rows"] for entry in home.segments(collection))
    assert report.collected().to_pylist() == [{"count": rows}]
    bound = home.read_seconds(collection, rates)
    return {"seconds": took, "bound_seconds": bound, "of_bound": bound / took}


def measure(quick: bool) -> dict[str, Any]:
    seconds, rounds = (5, 1) if quick else (SECONDS, ROUNDS)
    batches = int(seconds * RATE / 4) // BATCH_ROWS
    found: dict[str, Any] = {kind: {} for kind in FLOWS}
    with contextlib.ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        size = int(3 * (1 + SHARE_DIVIDED) * seconds * RATE) + 16_000_000
        hosts = made.enter_context(rig.Hosts(MACHINES, LINK, disk_size=size, cpu_quota=CPU))
        disks = [host.disk for host in hosts]
        home = Cluster(folder, "across", [disk.path / "data" for disk in disks])
        home.owned_by([host.name for host in hosts])
        for collection, share in (("mirrored", 1), ("short", SHARE_DIVIDED)):
            home.write(collection, int(batches * share) * BATCH_ROWS * MACHINES, 2)
        for disk in disks:
            disk.set_rate(RATE)
        cluster = made.enter_context(joined(hosts, folder))
        for scenario, what in SCENARIOS.items():
            for kind in FLOWS:
                # One process has no links, and shares its CPU among all instances.
                ways = [way for way in WAYS if way != "embedded" or set(what) <= {"disk"}]
                runs: dict[str, list[dict]] = {way: [] for way in ways}
                for number in range(rounds):
                    for way in ways:
                        if way == "divided" and number > 0:
                            continue
                        with slowed(hosts, what) as rates:
                            runs[way].append(run(kind, way, home, cluster, rates))
                found[kind][scenario] = {
                    way: {
                        "of_bound": statistics.median(one["of_bound"] for one in all_),
                        "runs": all_,
                    }
                    for way, all_ in runs.items()
                }
                told = ((way, one["of_bound"]) for way, one in found[kind][scenario].items())
                parts = ", ".join(f"{NAMES[way]} {part:.3f}" for way, part in told)
                print(f"    {kind}, slow: {scenario}: {parts} of the bound", flush=True)
    return found


def one_process_share(scenarios: dict[str, Any], scenario: str) -> float:
    """The result of one process in the closest scenario that it supports."""
    own = scenarios[scenario].get("embedded")
    near = "disk" if "disk" in SCENARIOS[scenario] else "none"
    return (own or scenarios[near]["embedded"])["of_bound"]


def claims(results: dict[str, Any]) -> Any:
    for kind, scenarios in results.items():
        for scenario, ways in scenarios.items():
            ours, alone = ways["across"]["of_bound"], one_process_share(scenarios, scenario)
            yield (
                f"{kind}, slow: {scenario}: {ours:.3f} of the bound, "
                f"one process {alone:.3f} (within {POINTS_MAX})",
                ours >= alone - POINTS_MAX,
            )


def draw(axes: Any, results: dict[str, Any]) -> None:
    titles = {
        "declustering": "graduated declustering",
        "queue": "graduated declustering and a distributed queue",
    }
    for one, (kind, scenarios) in zip(axes, results.items()):
        for at, way in enumerate(WAYS):
            places = [spot for spot, ways in enumerate(scenarios.values()) if way in ways]
            heights = [100 * ways[way]["of_bound"] for ways in scenarios.values() if way in ways]
            one.bar(
                [spot + (at - 1) * 0.28 for spot in places],
                heights,
                width=0.26,
                color=COLOURS_OF[way],
                label=NAMES[way],
            )
        one.axhline(100, color=COLOURS["bound"], linestyle=":")
        one.set_xticks(range(len(scenarios)), list(scenarios))
        one.set_ylim(0, 118)
        one.set_title(titles[kind], fontsize="medium")
        one.set_xlabel("what is slow at one machine")
        one.set_ylabel("% of what the disks can give")
    axes[0].legend(frameon=False, loc="upper center", ncols=3, fontsize="small", columnspacing=1)
