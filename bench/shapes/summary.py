"""What the results say: by class, by size, and of memory."""

from __future__ import annotations

import math
from typing import Any

from bench.shapes.cells import TARGETS

OURS = "Euphrates"
OVER_BUDGET = 1.1
BUDGET_MIN = 128 << 20
"""Euphrates promises to keep budgets from this size on; its own code takes some 40 MB."""
STEPS = "rows"
"""The factor whose variants end with a number of rows."""

Results = list[dict[str, Any]]


def summary(results: Results) -> dict[str, Any]:
    return {
        "classes": {name: of_class(name, results) for name in TARGETS if of(name, results)},
        "wrong": [[one["cell"], reason] for one in results if (reason := problem(one))],
        "scaling": scaling(results),
        "memory": memory(results),
    }


def of(name: str, results: Results) -> Results:
    return [one for one in results if one["cell"].split("/")[0] == name]


def problem(result: dict[str, Any]) -> str | None:
    """The failure of ours, or the difference of its result."""
    ours = result["engines"].get(OURS, {})
    found: str | None = ours.get("failed") or ours.get("differs")
    return found


def of_class(name: str, results: Results) -> dict[str, Any]:
    ratios = {one["cell"]: one["ratio"] for one in of(name, results) if one["ratio"]}
    below = {cell: ratio for cell, ratio in ratios.items() if ratio < TARGETS[name]}
    worst = min(ratios, key=lambda cell: ratios[cell]) if ratios else None
    logs = [math.log(ratio) for ratio in ratios.values()]
    return {
        "cells": len(of(name, results)),
        "compared": len(ratios),
        "target": TARGETS[name],
        "geometric_mean": math.exp(sum(logs) / len(logs)) if logs else None,
        "worst": [worst, ratios[worst]] if worst else None,
        "below_target": sorted(below.items(), key=lambda item: item[1]),
    }


def scaling(results: Results) -> dict[str, Any]:
    """Of each series of sizes: nanoseconds per row and binary digit, by rows and engine."""
    series: dict[str, Any] = {}
    for one in results:
        task, factor, variant = one["cell"].split("/", 2)
        if factor != STEPS:
            continue
        *words, _ = variant.split(" ")
        unit = one["rows"] * math.log2(one["rows"])
        took = {
            name: round(engine["seconds"] / unit * 1e9, 4)
            for name, engine in one["engines"].items()
            if "seconds" in engine
        }
        series.setdefault(" ".join([task, *words]), {})[str(one["rows"])] = took
    return series


def memory(results: Results) -> dict[str, Any]:
    """Cells with a limit, and those in which our peak was above it and a tenth."""
    limited = [one for one in results if one["budget_bytes"] and not problem(one)]
    small = [one["cell"] for one in limited if one["budget_bytes"] < BUDGET_MIN]
    parts = {
        one["cell"]: one["engines"][OURS]["peak_bytes"] / one["budget_bytes"]
        for one in limited
        if OURS in one["engines"]
    }
    above = sorted(
        (cell, part) for cell, part in parts.items() if part > OVER_BUDGET and cell not in small
    )
    return {"cells": len(parts), "of_small_budgets": len(small), "above": above}


def told(found: dict[str, Any]) -> str:
    """The summary as text."""
    lines = []
    for name, one in found["classes"].items():
        mean = f"{one['geometric_mean']:.2f}" if one["geometric_mean"] else "unknown"
        lines.append(f"{name}: {one['compared']} of {one['cells']} cells compared, mean {mean}")
        lines += [f"    {ratio:.2f} {cell}" for cell, ratio in one["below_target"]]
    lines += [f"failed or wrong: {cell}: {reason}" for cell, reason in found["wrong"]]
    for name, steps in found["scaling"].items():
        lines.append(f"time / (n log n) of {name}, in ns:")
        lines += [f"    {rows}: {took}" for rows, took in steps.items()]
    if found["memory"]["cells"]:
        used = found["memory"]
        lines.append(
            f"memory: {used['cells']} cells with a limit, {used['of_small_budgets']} of them below "
            f"{BUDGET_MIN >> 20} MiB and not checked; more than a tenth above the limit:"
        )
        lines += [f"    {part:.2f} of the limit: {cell}" for cell, part in used["above"]]
    return "\n".join(lines)
