"""Accuracy of the report's estimates for a slow component, against measured runs.

Five flows with ten perturbations each: one instance slower from the start, from some second on, or
for a while; repeatedly; two instances; paused; near the end. Twelve more are special cases: more
stages, stages of unequal cost, slow instances in several stages, recovery, a sort, an aggregate.
Each runs with late binding, whose report estimates the time of a static division and the start of
each slow episode, and three times with a static division (`queues="static"`) under the same
perturbation. Compared are the estimate with the median of the static runs, and the start of the
episode with that of the perturbation.

Flows that sleep use no processor, so several run at once. Flows that compute run one after the
other, and vary with the processor's speed: a run with a tenth of its work left when its instance
becomes ten times slower ends a third later if it was a tenth slower before. These therefore run
three times with late binding too, alternating with the static runs, and the median estimate counts.
The results also report how many single estimates are as accurate, and how much the static runs of
the worst cell vary. If they vary by more than the required accuracy, the cell is measured once
more; the first result stays in the results.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import euphrates as eu

TITLE = "What the report says of static division and of slow episodes, against real runs"
PANELS = 2
BATCH_SECONDS, ROWS = 0.02, 65_536
RUNS = 3
"""Static runs per cell, and late-binding runs of flows that compute; medians count."""
AT_ONCE = 6
"""Concurrent runs of flows that sleep, each in a process of its own."""
WITHIN, MOSTLY, WORST, START_WITHIN = 0.10, 0.9, 0.15, 0.5
"""The accepted relative error of an estimate, the fraction of runs within it, the worst accepted
error, and the accepted error of a start in seconds.
"""


def work(batch: eu.Batch) -> eu.Batch:
    """Sleeps a fixed time per batch."""
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


def twice(batch: eu.Batch) -> eu.Batch:
    """Sleeps twice as long."""
    return work(work(batch))


def uneven(batch: eu.Batch) -> eu.Batch:
    """Sleeps a time that depends on the batch: from a half to three halves of the usual."""
    first = sum(batch.slice(0, 1).to_pydict()["n"])
    time.sleep(BATCH_SECONDS * (0.5 + first // ROWS % 5 / 4))
    return batch


def stages(batches: int, *counts: int, costs: Any = None, sources: int = 2) -> eu.Flow:
    """Sleepers in that many stages: `work0`, `work1` and so on."""
    flow = eu.Flow("stages")
    last = flow.place(eu.generate("integers", rows=batches * ROWS), count=sources)
    for at, count in enumerate(counts):
        cost = costs[at] if costs else work
        last = flow.chain(last, flow.place(cost, count=count, id=f"work{at}"))
    flow.chain(last, eu.count(), eu.collect())
    return flow


def before_a_sort() -> eu.Flow:
    flow = eu.Flow("sort")
    numbers = flow.place(eu.generate("integers", rows=800 * ROWS), count=2)
    last = flow.chain(numbers, flow.place(work, count=3, id="work0"), eu.sort(["n desc"]))
    flow.chain(last, eu.count(), eu.collect())
    return flow


def before_an_aggregate() -> eu.Flow:
    flow = eu.Flow("aggregate")
    numbers = flow.place(eu.generate("integers", rows=900 * ROWS), count=2)
    digits = eu.project(["n % 1000 as digits"])
    last = flow.chain(numbers, flow.place(work, count=4, id="work0"), flow.place(digits, count=2))
    flow.chain(last, eu.aggregate(["digits"], values={"rows": "count()"}), eu.count(), eu.collect())
    return flow


def computed() -> eu.Flow:
    """Two that compute sums after one that filters."""
    flow = eu.Flow("computed")
    numbers = flow.place(eu.generate("integers", rows=2_800_000_000), count=1)
    some = flow.chain(numbers, flow.place(eu.filter("n % 3 = 1"), count=1))
    sums = eu.project(["n % 1000 * 3 + n % 999 as n"])
    flow.chain(some, flow.place(sums, count=2, id="work0"), eu.count(), eu.collect())
    return flow


def slowed(name: str, share: float, after: float = 0, **more: float) -> dict[str, Any]:
    return {"instance": name, "share": share, "after": after, **more}


OTHERS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "three stages, one half": (lambda: stages(1200, 4, 4, 4), [slowed("work1.1", 0.5, 2)]),
    "three unequal stages, two": (
        lambda: stages(900, 6, 4, 3),
        [slowed("work0.0", 0.75, 1), slowed("work2.2", 0.5, 3)],
    ),
    "first costs twice": (
        lambda: stages(600, 4, 3, costs=[twice, work]),
        [slowed("work0.1", 0.8)],
    ),
    "two episodes": (
        lambda: stages(1200, 4),
        [slowed("work0.1", 0.5, 1, lasts=1.5), slowed("work0.1", 0.75, 4, lasts=1.5)],
    ),
    "recovery": (lambda: stages(1200, 4), [slowed("work0.2", 0.8, 0, lasts=3)]),
    "batches unlike": (lambda: stages(1200, 4, costs=[uneven]), [slowed("work0.3", 0.7, 2)]),
    "one source, three of six": (
        lambda: stages(1500, 6, sources=1),
        [slowed("work0.1", 0.5, 1), slowed("work0.2", 0.3, 2), slowed("work0.5", 0.6)],
    ),
    "pulses in the first of two": (
        lambda: stages(1100, 4, 4),
        [slowed("work0.2", 0.75, 1, lasts=1, every=2)],
    ),
    "one after the other": (
        lambda: stages(1000, 3, 5),
        [slowed("work0.0", 0.6, 1, lasts=2), slowed("work1.4", 0.8, 3)],
    ),
    "before a sort": (before_a_sort, [slowed("work0.1", 0.6, 1)]),
    "before an aggregate": (before_an_aggregate, [slowed("work0.3", 0.75, 2)]),
    "computed": (computed, [slowed("work0.1", 0.7, 2)]),
}
COMPUTE = ("two filters", "computed")
"""Flows that need processors."""


def all_slowings(flow: str, which: str) -> list[dict[str, Any]]:
    if flow in OTHERS:
        return OTHERS[flow][1]
    named = [{"number": 1, **one} for one in PERTURBATIONS[which]]
    return [{"instance": f"work.{one.pop('number')}", **one} for one in named]


def episode(slow: Any) -> list[Any]:
    return [slow.name, slow.from_seconds, slow.to_seconds, slow.factor]


def run(flow: str, which: str, is_static: bool) -> dict[str, Any]:
    make = FLOWS[flow] if flow in FLOWS else OTHERS[flow][0]
    perturb = [eu.perturb(**one) for one in all_slowings(flow, which)]
    options = {"queues": "static"} if is_static else {}
    report = make().go(perturb=perturb, progress=False, **options)
    told = report.divided_seconds, [episode(one) for one in report.slow]
    return {"seconds": report.seconds, "estimate": told[0], "slow": told[1]}


def cell_of(flow: str, which: str, ours: list[Any], static: list[Any]) -> dict[str, Any]:
    """The result of a cell; `ours` is the run with the median estimate."""
    ours.sort(key=lambda one: one["estimate"] or float("inf"))
    seconds = [one["seconds"] for one in static]
    cell = {
        "flow": flow,
        "perturbation": which,
        **ours[len(ours) // 2],
        "estimates": [one["estimate"] for one in ours],
        "static": statistics.median(seconds),
        "static_runs": seconds,
    }
    print(f"  {cell}", flush=True)
    return cell


def measured(cells: list[tuple[str, str]], at_once: int) -> list[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=context) as pool:
        wanted = []
        for flow, which in cells:
            runs: tuple[list[Any], list[Any]] = [], []
            for number in range(RUNS):
                if number == 0 or flow in COMPUTE:
                    runs[0].append(pool.submit(run, flow, which, False))
                runs[1].append(pool.submit(run, flow, which, True))
            wanted.append(runs)
        results = ([[one.result() for one in kind] for kind in runs] for runs in wanted)
        return [cell_of(*cell, *runs) for cell, runs in zip(cells, results, strict=True)]


def settled(cell: tuple[str, str]) -> dict[str, Any]:
    """A cell of a flow that computes; measured once more if its static runs vary too much."""
    [first] = measured([cell], 1)
    if spread(first) <= WITHIN:
        return first
    [again] = measured([cell], 1)
    return {**again, "first_time": first}


def measure(quick: bool) -> dict[str, Any]:
    which = list(PERTURBATIONS)[:2] if quick else list(PERTURBATIONS)
    cells = [(flow, one) for one in which for flow in FLOWS]
    cells += [(flow, "its own") for flow in list(OTHERS)[: 2 if quick else None]]
    cells.sort(key=lambda cell: cell[0] in COMPUTE)
    asleep = sum(cell[0] not in COMPUTE for cell in cells)
    made = measured(cells[:asleep], AT_ONCE) + [settled(cell) for cell in cells[asleep:]]
    return {
        "cells": [cell for cell in made if cell["flow"] in FLOWS],
        "others": [cell for cell in made if cell["flow"] in OTHERS],
    }


def missed(estimate: float | None, cell: dict[str, Any]) -> float:
    """The relative error of an estimate against the static run."""
    return abs(estimate / cell["static"] - 1) if estimate else 1.0


def error(cell: dict[str, Any]) -> float:
    return missed(cell["estimate"], cell)


def spread(cell: dict[str, Any]) -> float:
    """The relative spread of the static runs around their median."""
    runs = cell["static_runs"]
    return (max(runs) - min(runs)) / 2 / cell["static"]


def starts(cell: dict[str, Any]) -> list[float]:
    """For each slowed instance, the error in seconds of the nearest episode's start."""
    wrong = []
    for one in all_slowings(cell["flow"], cell["perturbation"]):
        begin = one.get("after", 0)
        told = [slow[1] for slow in cell["slow"] if slow[0] == one["instance"]]
        if told and begin < cell["seconds"]:
            wrong.append(min(abs(start - begin) for start in told))
    return wrong


def estimates(cells: list[dict[str, Any]], what: str) -> tuple[str, bool]:
    near = sum(error(cell) <= WITHIN for cell in cells)
    worst = max(cells, key=error)
    said = f"{near} of {len(cells)} estimates {what}within {WITHIN:.0%} of the static run"
    where = (
        worst["flow"] if worst["flow"] in OTHERS else f"{worst['flow']}, {worst['perturbation']}"
    )
    singles = [missed(one, cell) <= WITHIN for cell in cells for one in cell["estimates"]]
    single = f"{sum(singles)} of {len(singles)} of single runs"
    text = (
        f"{said}, {single}; the worst misses {error(worst):.0%} ({where}: its static runs differ by"
    )
    is_near = near >= MOSTLY * len(cells) and error(worst) <= WORST
    return f"{text} ±{spread(worst):.0%})", is_near


def claims(results: dict[str, Any]) -> Any:
    cells, others = results["cells"], results["others"]
    yield estimates(cells, "")
    yield estimates(others, "of other kinds ")
    all_starts = [wrong for cell in [*cells, *others] for wrong in starts(cell)]
    late = max(all_starts)
    text = f"the starts of {len(all_starts)} episodes are told within {late:.2f} s"
    yield f"{text} (median {statistics.median(all_starts):.2f})", late <= START_WITHIN


def draw(axes: Any, results: dict[str, Any]) -> None:
    left, right = axes
    kinds = {flow: [c for c in results["cells"] if c["flow"] == flow] for flow in FLOWS}
    kinds["others"] = results["others"]
    for number, (kind, cells) in enumerate(kinds.items()):
        colour, told = f"C{number}", [cell for cell in cells if cell["estimate"]]
        static = [cell["static"] for cell in told]
        apart = [
            [cell["static"] - min(cell["static_runs"]) for cell in told],
            [max(cell["static_runs"]) - cell["static"] for cell in told],
        ]
        estimate = [cell["estimate"] for cell in told]
        left.errorbar(
            static, estimate, xerr=apart, label=kind, color=colour, fmt="o", ms=4, elinewidth=0.8
        )
        wrong = [one for cell in cells for one in starts(cell)]
        right.scatter([number] * len(wrong), wrong, color=colour, s=18)
    far = 1.05 * max(cell["static"] for cells in kinds.values() for cell in cells)
    left.plot([0, far], [0, far], color="#57606a", linewidth=1)
    for part in (1 - WITHIN, 1 + WITHIN):
        left.plot([0, far], [0, part * far], color="#57606a", linewidth=0.6, linestyle=":")
    left.set(
        xlabel="seconds of the static run (median, least and most of three)",
        ylabel="seconds that the report says",
        xlim=0,
        ylim=0,
    )
    left.legend(fontsize=7)
    right.axhline(START_WITHIN, color="#57606a", linewidth=0.6, linestyle=":")
    right.set(ylabel="seconds by which a start is dated wrong", ylim=0)
    right.set_xticks(range(len(kinds)), kinds, rotation=20, fontsize=7)
