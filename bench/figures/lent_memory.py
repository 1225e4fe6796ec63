"""An out-of-core sort on slow disks, with and without the memory of its peers.

Four machines of the rig have a disk of 20 MB/s each, for scratch, and links that are four times as
fast, or half as fast. One of them sorts 2.4 times its memory while the others are idle; or all of
them sort, 1.2 times the memory of each. With lent memory each lends enough for all that is spilled.
Runs with and without it alternate.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from clusters import joined
from figure import COLOURS

import euphrates as eu
import rig

TITLE = "An out-of-core sort: scratch on disks of 20 MB/s, and memory that peers lend"
PANELS = 2
DISK = 20_000_000
LINKS = {"4 times as fast": 4 * DISK, "half as fast": DISK // 2}
MACHINES = 4
MEMORY = "64MiB"
LENT = "1GB"
MEGABYTES = {"one sorts": 160, "all sort": 320}
ROUNDS = 3


def missing() -> str | None:
    return rig.missing("hosts", "disks")


def sort(cluster: eu.Cluster, names: list[str], megabytes: int) -> dict[str, Any]:
    """Sorts integers on these machines; the seconds, and where bytes were spilled."""
    rows = megabytes * 1_000_000 // 8
    flow = eu.Flow("sort")
    modules = [
        eu.generate("integers", rows=rows),
        eu.project(["(n * 7919) % 100000007 as n"]),
        eu.sort(["n"]),
        eu.count(),
    ]
    placed = [flow.place(module, count=len(names), workers=names) for module in modules]
    flow.chain(*placed, eu.collect())
    began = time.perf_counter()
    report = flow.go(cluster=cluster, memory=MEMORY, progress=False)
    took = time.perf_counter() - began
    assert sum(row["count"] for row in report.collected().to_pylist()) == rows
    lent = sum(disk.written_bytes for disk in report.disks if "memory of " in disk.name)
    return {
        "seconds": round(took, 3),
        "spilled_bytes": sum(module.spilled_bytes for module in report.modules),
        "lent_bytes": lent,
    }


def measure(quick: bool) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    with rig.Hosts(MACHINES, disk_rate=DISK, disk_size="1500MB") as hosts:
        names = [host.name for host in hosts]
        for _ in range(1 if quick else ROUNDS):
            for link, rate in LINKS.items():
                for is_lent in (False, True):
                    for who, megabytes in MEGABYTES.items():
                        for host in hosts:
                            host.set_link_rate(rate)
                        runs.append(
                            {
                                "links": link,
                                "who": who,
                                "is_lent": is_lent,
                                **run(hosts, names, who, megabytes, is_lent),
                            }
                        )
                        print(f"    {runs[-1]}", flush=True)
    return {"disk": DISK, "links": LINKS, "runs": runs}


def run(
    hosts: rig.Hosts, names: list[str], who: str, megabytes: int, is_lent: bool
) -> dict[str, Any]:
    def inside(host: rig.Host, command: list[str]) -> list[str]:
        lending = ["--lend-memory", LENT] if is_lent else []
        scratch = ["--scratch", str(host.disk.path)]
        return ["env", f"EUPHRATES_HOST={host.name}", *command, *scratch, *lending]

    with (
        tempfile.TemporaryDirectory() as folder,
        joined(hosts, Path(folder), inside=inside) as cluster,
    ):
        return sort(cluster, names[:1] if who == "one sorts" else names, megabytes)


def of(results: dict[str, Any], link: str, who: str, is_lent: bool, what: str) -> float:
    """The median of a measure."""
    runs = [
        one[what]
        for one in results["runs"]
        if (one["links"], one["who"], one["is_lent"]) == (link, who, is_lent)
    ]
    return statistics.median(runs)


def claims(results: dict[str, Any]) -> Any:
    fast, slow = LINKS
    for who in MEGABYTES:
        for link in (fast, slow):
            with_, without = (of(results, link, who, lent, "seconds") for lent in (True, False))
            share = of(results, link, who, True, "lent_bytes") / of(
                results, link, who, True, "spilled_bytes"
            )
            most = 0.6 if link == fast else 1.05
            yield (
                f"{who}, links {link}: {with_ / without:.2f} of the time of disks alone (at most "
                f"{most}), {share:.2f} of the bytes in lent memory",
                with_ / without <= most,
            )


def draw(axes: Any, results: dict[str, Any]) -> None:
    for axis, who in zip(axes, MEGABYTES, strict=True):
        for at, is_lent in enumerate((False, True)):
            took = [of(results, link, who, is_lent, "seconds") for link in LINKS]
            spots = [spot + (at - 0.5) * 0.38 for spot in range(len(LINKS))]
            colour = COLOURS["late_binding" if is_lent else "shortest"]
            label = "disks and lent memory" if is_lent else "disks alone"
            bars = axis.bar(spots, took, width=0.36, color=colour, label=label)
            axis.bar_label(bars, [f"{one:.1f}" for one in took], fontsize="x-small")
        axis.set_xticks(range(len(LINKS)), [f"links {link}" for link in LINKS])
        axis.set(title=f"{MEGABYTES[who]} MB, {who}", ylabel="seconds")
        axis.legend(frameon=False, fontsize="x-small")
