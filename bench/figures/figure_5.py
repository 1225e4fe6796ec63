"""Reading through a distributed queue while consumers are slow (River, Figure 5).

Fifteen disks of 5.45 MB/s (River, section 3.1.1) are read by fifteen consumers, each of twice a
disk's rate: consumers are not saturated, as in the paper (section 3.1.2). Of k of them three
quarters of a processor are taken during the whole run. All consumers together can process

c(k) = 2 * 5.45 MB/s * (15 - k + k / 4)

and the fluid bound is the smaller of c(k) and the disks' rate: nothing is lost up to k = 10, where
consumers become the bottleneck, and half at 15. A static division ends when the slowest consumer
has processed its fifteenth: half of the peak from k = 1 on.

Consumers sleep and use no processor, so that two cores suffice for all fifteen.
"""

from __future__ import annotations

import statistics
from typing import Any

from figure import COLOURS
from figure_4 import RATE, Cluster

import euphrates as eu

TITLE = "River, Figure 5: reading 15 disks while k of 15 consumers lose 75 % of their processors"
NODES = 15
SHARE = 0.75
BLOCKS, ROUNDS = 144, 3
SLOW: dict[str, list[int]] = {
    "static": [0, 1, 15],
    "round_robin": [0, 1],
    "credit": [0, 1, 4, 8, 12],
    "late_binding": [0, 1, 2, 4, 6, 8, 10, 12, 14, 15],
}
OUT_OF_PROCESSORS = 10
"""The number of slow consumers at which the others equal the disks' rate."""


def reached_at_best(slow: int) -> float:
    """The fluid bound, as a fraction of the disks' rate."""
    return min(1.0, 2 * (NODES - slow + slow * (1 - SHARE)) / NODES)


def once(cluster: Cluster, way: str, slow: int) -> dict[str, Any]:
    perturb = [eu.perturb(instance=f"consume.{n}", share=SHARE) for n in range(slow)]
    run = cluster.read(way, perturb)
    peak = cluster.bytes / (NODES * RATE) / run["seconds"]
    bound = reached_at_best(slow)
    print(f"    {slow} slow, {way}: {peak:.3f} of the peak, {peak / bound:.3f} of the bound",
          flush=True)  # fmt: skip
    return run | {"way": way, "slow": slow, "fraction_of_peak": peak}


def measure(quick: bool) -> dict[str, Any]:
    points = [1, 8, 12] if quick else SLOW["late_binding"]
    runs = []
    with Cluster(NODES, BLOCKS * 3 // 4 if quick else BLOCKS) as cluster:
        for slow in points:
            runs += [once(cluster, way, slow) for way, which in SLOW.items() if slow in which]
        # One run of each other policy is precise enough.
        for _ in range(0 if quick else ROUNDS - 1):
            runs += [once(cluster, "late_binding", slow) for slow in points]
    return {"runs": runs, "peak_bytes_per_second": NODES * RATE}


def curve(results: dict[str, Any], way: str) -> dict[int, float]:
    """The fraction of the peak that a policy reached, by number of slow consumers."""
    runs = [run for run in results["runs"] if run["way"] == way]
    return {
        slow: statistics.median(run["fraction_of_peak"] for run in runs if run["slow"] == slow)
        for slow in sorted({run["slow"] for run in runs})
    }


def claims(results: dict[str, Any]) -> Any:
    ours = curve(results, "late_binding")
    unharmed = min(ours[slow] for slow in ours if slow <= OUT_OF_PROCESSORS)
    told = f"up to {OUT_OF_PROCESSORS} slow consumers: at least {unharmed:.3f} of the peak"
    yield f"{told} (at least 0.97)", unharmed >= 0.97
    least = min(ours[slow] / reached_at_best(slow) for slow in ours)
    yield f"everywhere at least {least:.3f} of the bound (at least 0.97)", least >= 0.97


def draw(axis: Any, results: dict[str, Any]) -> None:
    bound = [100 * reached_at_best(slow) for slow in range(NODES + 1)]
    axis.plot(range(NODES + 1), bound, color=COLOURS["bound"], linewidth=1, linestyle=":",
              label="the bound: disks, or consumers")  # fmt: skip
    # A wide line below remains visible under another.
    widths = {"round_robin": 4.0}
    for way in reversed(SLOW):
        reached = curve(results, way)
        axis.plot(list(reached), [100 * part for part in reached.values()], marker="o",
                  markersize=4, linewidth=widths.get(way, 1.5),
                  color=COLOURS[way], label=way.replace("_", " "))  # fmt: skip
    axis.axvspan(OUT_OF_PROCESSORS, NODES, color="#000000", alpha=0.04, linewidth=0)
    axis.text(OUT_OF_PROCESSORS + 0.1, 3, "consumers are out of processors", fontsize=8,
              color=COLOURS["bound"])  # fmt: skip
    axis.set_ylim(0, 105)
    axis.set_xlabel("slow consumers of 15")
    axis.set_ylabel("% of the peak of 15 disks")
    axis.legend(frameon=False, loc="lower left")
