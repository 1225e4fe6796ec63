"""What the report says of a slow component, against runs that show it.

Five flows, ten perturbations of each: one instance slower from the start, from some second on, or
for a while; again and again; two of them; standing still; near the end. Each is run with late
binding, whose report estimates what a static division would have taken and since when somebody was
slow, and then with a static division (`queues="static"`) under the same perturbation. Compared are
the estimate with the seconds that the static run took, and the start of the episode with the second
at which the perturbation began.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import euphrates as eu

TITLE = "What the report says of static division and of slow episodes, against real runs"
PANELS = 2
BATCH_SECONDS, ROWS = 0.02, 65_536
WITHIN, MOSTLY, WORST, START_WITHIN = 0.10, 0.9, 0.15, 0.5
"""What an estimate may miss, as a part of the static run, in which part of the runs, and what the
worst may miss; what a start may miss, in seconds."""


def work(batch: eu.Batch) -> eu.Batch:
    """Takes its time for each batch, and no processor."""
    time.sleep(BATCH_SECONDS * batch.num_rows / ROWS)
    return batch


def sleepers(count: int, batches: int) -> eu.Flow:
    flow = eu.Flow("sleepers")
    source = flow.place(eu.generate("integers", rows=batches * ROWS), count=2)
    flow.chain(source, flow.place(work, count=count, id="work"), eu.count(), eu.collect())
    return flow


def two_stages() -> eu.Flow:
    flow = eu.Flow("two stages")
    source = flow.place(eu.generate("integers", rows=900 * ROWS), count=2)
    first = flow.place(work, count=5, id="first")
    flow.chain(source, first, flow.place(work, count=3, id="work"), eu.count(), eu.collect())
    return flow


def filters() -> eu.Flow:
    flow = eu.Flow("filters")
    keep = flow.place(eu.filter("n % 1000 = 7 or n % 999 = 5"), count=2, id="work")
    source = flow.place(eu.generate("integers", rows=2_400_000_000), count=1)
    flow.chain(source, keep, eu.count(), eu.collect())
    return flow


FLOWS = {
    "four sleepers": lambda: sleepers(4, 1200),
    "three sleepers": lambda: sleepers(3, 900),
    "twelve sleepers": lambda: sleepers(12, 3600),
    "two stages": two_stages,
    "two filters": filters,
}
PERTURBATIONS: dict[str, list[dict[str, Any]]] = {
    "half, from the start": [{"share": 0.5}],
    "a fifth, from the start": [{"share": 0.8}],
    "a quarter, from second 2": [{"share": 0.75, "after": 2}],
    "a tenth, from second 4": [{"share": 0.9, "after": 4}],
    "half, from second 3": [{"share": 0.5, "after": 3}],
    "a quarter, seconds 1 to 4": [{"share": 0.75, "after": 1, "lasts": 3}],
    "still, seconds 2 to 4": [{"pause": True, "after": 2, "lasts": 2}],
    "a fifth for 1 of 3 seconds": [{"share": 0.8, "after": 1, "lasts": 1, "every": 3}],
    "two of them": [{"share": 0.5, "after": 1}, {"share": 0.75, "after": 3, "number": 0}],
    "a tenth, from second 5": [{"share": 0.9, "after": 5}],
}


def perturbed(which: str) -> list[eu.Perturbation]:
    made = []
    for one in PERTURBATIONS[which]:
        options = dict(one)
        instance = f"work.{options.pop('number', 1)}"
        made.append(eu.perturb(instance=instance, **options))
    return made


def episode(slow: Any) -> list[Any]:
    return [slow.name, slow.from_seconds, slow.to_seconds, slow.factor]


def once(flow: str, which: str) -> dict[str, Any]:
    ours = FLOWS[flow]().go(perturb=perturbed(which), progress=False)
    static = FLOWS[flow]().go(perturb=perturbed(which), queues="static", progress=False)
    cell = {
        "flow": flow,
        "perturbation": which,
        "seconds": ours.seconds,
        "estimate": ours.divided_seconds,
        "static": static.seconds,
        "static_says": static.divided_seconds,
        "slow": [episode(one) for one in ours.slow],
        "static_slow": [episode(one) for one in static.slow],
    }
    print(f"  {cell}", flush=True)
    return cell


def measure(quick: bool) -> dict[str, Any]:
    which = list(PERTURBATIONS)[:2] if quick else list(PERTURBATIONS)
    return {"cells": [once(flow, one) for one in which for flow in FLOWS]}


def error(cell: dict[str, Any]) -> float:
    """What the estimate misses, as a part of the static run."""
    return abs(cell["estimate"] / cell["static"] - 1) if cell["estimate"] else 1.0


def starts(cell: dict[str, Any]) -> list[float]:
    """By how many seconds the first episode of each slowed instance is dated wrong."""
    missed = []
    for one in PERTURBATIONS[cell["perturbation"]]:
        name, begin = f"work.{one.get('number', 1)}", one.get("after", 0)
        told = [slow[1] for slow in cell["slow"] if slow[0] == name]
        if told and begin < cell["seconds"]:
            missed.append(min(abs(start - begin) for start in told))
    return missed


def claims(results: dict[str, Any]) -> Any:
    cells = results["cells"]
    near = sum(error(cell) <= WITHIN for cell in cells)
    worst = max(cells, key=error)
    said = f"{near} of {len(cells)} estimates within {WITHIN:.0%} of the static run"
    where = f"{worst['flow']}, {worst['perturbation']}"
    is_near = near >= MOSTLY * len(cells) and error(worst) <= WORST
    yield f"{said}; the worst misses {error(worst):.0%} ({where})", is_near
    all_starts = [missed for cell in cells for missed in starts(cell)]
    late = max(all_starts)
    text = f"the starts of {len(all_starts)} episodes are told within {late:.2f} s"
    yield f"{text} (median {statistics.median(all_starts):.2f})", late <= START_WITHIN


def draw(axes: Any, results: dict[str, Any]) -> None:
    left, right = axes
    for number, flow in enumerate(FLOWS):
        cells = [cell for cell in results["cells"] if cell["flow"] == flow and cell["estimate"]]
        colour = f"C{number}"
        left.scatter(
            [cell["static"] for cell in cells],
            [cell["estimate"] for cell in cells],
            label=flow,
            color=colour,
            s=18,
        )
        missed = [one for cell in cells for one in starts(cell)]
        right.scatter([number] * len(missed), missed, color=colour, s=18)
    far = 1.05 * max(cell["static"] for cell in results["cells"])
    left.plot([0, far], [0, far], color="#57606a", linewidth=1)
    for part in (1 - WITHIN, 1 + WITHIN):
        left.plot([0, far], [0, part * far], color="#57606a", linewidth=0.6, linestyle=":")
    left.set(
        xlabel="seconds of the static run", ylabel="seconds that the report says", xlim=0, ylim=0
    )
    left.legend(fontsize=7)
    right.axhline(START_WITHIN, color="#57606a", linewidth=0.6, linestyle=":")
    right.set(ylabel="seconds by which a start is dated wrong", ylim=0)
    right.set_xticks(range(len(FLOWS)), FLOWS, rotation=20, fontsize=7)
