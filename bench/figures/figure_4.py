"""Scaling of the distributed queue (River, Figure 4): n disks into n consumers.

Left, the engine at the paper's scale. A collection lies on n named disks limited to River's 5.45
MB/s (section 3.1.1); a distributed queue connects n readers to n consumers, each of twice a disk's
rate. A consumer sleeps and uses no processor, so that two cores suffice for 32. The bound is the
time in which n such disks deliver the collection.

Right, the same policies in the simulator, with up to ten thousand nodes a side: the consumers'
total rate equals the producers'; all consumers are equal, or one is ten times slower, or every
fourth is four times slower. The bound is the simulator's fluid bound.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusters import RATE, Consume
from figure import COLOURS, simulated

import euphrates as eu

TITLE = "River, Figure 4: the distributed queue from 1 to 32 disks, and to 10,000 nodes"
PANELS = 2
BLOCK_ROWS = 32_768
"""Rows of one 64-bit column, 256 KiB: a disk takes 48 ms for a block."""
WAYS = ["static", "late_binding"]
SIZES = [1, 2, 4, 8, 16, 32]
PAPER_BYTES_PER_SECOND = 168_600_000
"""River's rate with 32 disks."""

NODES = [4, 32, 300, 1000, 3000, 10_000]
CREDIT_NODES_MAX = 1000
BATCHES = 100
SLOW = {
    "none slow": [],
    "one 10 times slower": [{"side": "consumers", "share": {"count": 1}, "slower": 10}],
    "a quarter 4 times slower": [{"side": "consumers", "share": {"part": 0.25}, "slower": 4}],
}
POLICIES = {"credit": {"credit": {"credit_max": 2}}, "late_binding": {"late_binding": {}}}


class Cut(eu.Module):
    """Cuts batches to the size of blocks."""

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            for first in range(0, batch.num_rows, BLOCK_ROWS):
                ports.put(batch.slice(first, BLOCK_ROWS))


class Cluster:
    """That many disks, each with its part of one collection.

    Their rate is limited, and their data comes from the page cache, so that other load on the
    machine's disk does not affect the measurement.
    """

    def __init__(self, disks: int, blocks: int) -> None:
        self.disks = disks
        self.folder = tempfile.TemporaryDirectory(prefix="euphrates-figure-")
        self.home = Path(self.folder.name)
        self.set_rate(None)
        flow = eu.Flow("write")
        numbers = flow.place(eu.generate("integers", rows=disks * blocks * BLOCK_ROWS), count=1)
        names = [f"d{n}" for n in range(disks)]
        flow.chain(numbers, flow.place(Cut(), count=1), eu.write("numbers", disks=names))
        flow.go(home=self.home)
        self.set_rate(RATE)
        files = self.home.glob("disk*/**/*.arrow")
        self.bytes = sum(path.stat().st_size for path in files)

    def set_rate(self, rate: int | None) -> None:
        disks: list[dict[str, Any]] = [
            {"name": f"d{n}", "folder": f"disk{n}", "worker": f"w{n}", "mode": "buffered"}
            for n in range(self.disks)
        ]
        held = [disk | {"rate": rate} if rate else disk for disk in disks]
        (self.home / "disks.json").write_text(json.dumps(held))

    def read(self, way: str, perturb: Sequence[eu.Perturbation] = ()) -> dict[str, Any]:
        """Reads the collection once; returns wall and processor seconds."""
        flow = eu.Flow("read")
        read = flow.place(eu.read("numbers"), count=self.disks, id="read")
        consume = flow.place(Consume(), count=self.disks, id="consume")
        flow.chain(read, consume, eu.count(), eu.collect())
        before = time.process_time()
        report = flow.go(home=self.home, workers=self.disks, queues=way, perturb=perturb)
        computed = time.process_time() - before
        return {"seconds": report.seconds, "cores_busy": computed / report.seconds}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()


def scaled(size: int, blocks: int, rounds: int) -> dict[str, Any]:
    """All policies in turns, with that many disks."""
    with Cluster(size, blocks) as cluster:
        ideal = cluster.bytes / (size * RATE)
        runs = [{way: cluster.read(way) for way in WAYS} for _ in range(rounds)]
        told: dict[str, Any] = {"disks": size, "bytes": cluster.bytes, "bound_seconds": ideal}
    for way in WAYS:
        seconds = statistics.median(run[way]["seconds"] for run in runs)
        told[way] = {
            "runs": [run[way] for run in runs],
            "bytes_per_second": told["bytes"] / seconds,
            "fraction_of_bound": ideal / seconds,
        }
        print(f"    {size} disks, {way}: {ideal / seconds:.3f} of the bound", flush=True)
    return told


def measure(quick: bool) -> dict[str, Any]:
    largest = SIZES[-1]
    few, many, rounds = (48, 128, 1) if quick else (160, 256, 3)
    disks = [scaled(size, few, 1) for size in SIZES[:-1]] + [scaled(largest, many, rounds)]
    nodes = [count for count in NODES if count <= 1000 or not quick]
    simulations = []
    for policy, slow, count in ((p, s, n) for p in POLICIES for s in SLOW for n in nodes):
        if policy == "credit" and count > CREDIT_NODES_MAX:
            continue
        report = simulated(
            policy=POLICIES[policy],
            producers=count,
            consumers=count,
            batches=BATCHES,
            perturbations=SLOW[slow],
        )
        simulations.append({"policy": policy, "slow": slow, "nodes": count, "report": report})
        print(f"    {count} nodes, {slow}, {policy}: {report['fraction']:.3f}", flush=True)
    return {"cores": os.cpu_count(), "disks": disks, "simulations": simulations}


def claims(results: dict[str, Any]) -> Any:
    last = results["disks"][-1]
    ours = last["late_binding"]["fraction_of_bound"]
    told = f"{last['disks']} disks: {ours:.3f} of their summed rate (at least 0.98; River 0.97)"
    yield told, ours >= 0.98
    mine = [one for one in results["simulations"] if one["policy"] == "late_binding"]
    least = min(mine, key=lambda one: one["report"]["fraction"])
    most = max(one["nodes"] for one in mine)
    fraction = least["report"]["fraction"]
    told = f"simulated up to {most} nodes: at least {fraction:.3f} of the bound (at least 0.95)"
    yield f"{told}, {least['slow']} of {least['nodes']}", fraction >= 0.95


def draw(axes: Any, results: dict[str, Any]) -> None:
    left, right = axes
    draw_disks(left, results["disks"])
    draw_simulations(right, results["simulations"])


def draw_disks(axis: Any, disks: list[dict[str, Any]]) -> None:
    sizes = [one["disks"] for one in disks]
    axis.plot(sizes, [size * RATE / 1e6 for size in sizes], color=COLOURS["bound"], linewidth=1,
              linestyle=":", label="all disks at 5.45 MB/s")  # fmt: skip
    looks: dict[str, dict[str, Any]] = {
        "static": {"marker": "s", "markersize": 8, "markerfacecolor": "none", "linestyle": "none"},
        "late_binding": {"marker": "o", "markersize": 4},
    }
    for way in WAYS:
        rates = [one[way]["bytes_per_second"] / 1e6 for one in disks]
        axis.plot(sizes, rates, color=COLOURS[way], label=way.replace("_", " "), **looks[way])
    axis.plot(32, PAPER_BYTES_PER_SECOND / 1e6, "D", color="#8c959f", markersize=5,
              label="River, 1999 (97 %)")  # fmt: skip
    last = disks[-1]["late_binding"]
    told = f"{last['bytes_per_second'] / 1e6:.1f} MB/s\n{last['fraction_of_bound']:.1%}"
    axis.text(32, 130, told, va="top", ha="right", color=COLOURS["late_binding"])
    axis.set_xticks([1, *range(4, 33, 4)])
    axis.set_xlabel("disks, and as many consumers; nothing is slow")
    axis.set_ylabel("MB/s read through the queue")
    axis.legend(frameon=False, loc="upper left")


def draw_simulations(axis: Any, simulations: list[dict[str, Any]]) -> None:
    styles = dict(zip(SLOW, ["-", "--", ":"], strict=True))
    markers = dict(zip(SLOW, ["o", "s", "^"], strict=True))
    for policy in reversed(POLICIES):
        for slow in SLOW:
            which = (policy, slow)
            mine = [one for one in simulations if (one["policy"], one["slow"]) == which]
            axis.plot([one["nodes"] for one in mine], [one["report"]["fraction"] for one in mine],
                      styles[slow], marker=markers[slow], markersize=4, color=COLOURS[policy],
                      label=f"{policy.replace('_', ' ')}, {slow}")  # fmt: skip
    axis.set_xscale("log")
    axis.axhline(1, color=COLOURS["bound"], linewidth=1, linestyle=":")
    axis.set_ylim(0, 1.05)
    axis.set_xlabel("nodes a side, simulated")
    axis.set_ylabel("fraction of the fluid bound")
    axis.legend(frameon=False, loc="center right", fontsize=8)
