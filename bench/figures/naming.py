"""Straggler diagnosis: delay until a slow component is named, false positives, and accuracy of the
ideal.

Three flows. In the first, four consumers take 20 ms per batch; in the second, two filters compute;
in the third, four disks of 20 MB/s are read. Some runs are unperturbed. In the others one instance
or disk becomes slower after a second. Measured are the time from then until the progress line names
it, and whether the report names it and no other component. The report's ideal time is compared with
the fluid bound that the simulator computes for consumers of these speeds, independently of the run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import euphrates as eu

TITLE = "Slow components: how soon the progress line names them, and how near the report's ideal is"
PANELS = 2
CONSUMERS, BATCH_SECONDS, ROWS = 4, 0.02, 65_536
DISKS, RATE = 4, 20_000_000
AFTER = 1.0
UNPERTURBED = {"consumers": 20, "filters": 15, "disks": 15}
SLOWED = {
    "consumers": {
        "half": {"instance": "work.2", "share": 0.5},
        "a quarter": {"instance": "work.2", "share": 0.75},
        "a tenth": {"instance": "work.2", "share": 0.9},
        "stopped": {"instance": "work.2", "pause": True, "lasts": 3},
    },
    "filters": {"a quarter": {"instance": "keep.1", "share": 0.75}},
    "disks": {
        "half": {"disk": "d1", "rate": RATE // 2},
        "a quarter": {"disk": "d1", "rate": RATE // 4},
        "a tenth": {"disk": "d1", "rate": RATE // 10},
    },
}
"""The remaining speed and the slowed component, by flow."""


def work(batch: eu.Batch) -> eu.Batch:
    """Sleeps a fixed time per batch."""
    time.sleep(BATCH_SECONDS * batch.num_rows / ROWS)
    return batch


def consumers(batches: int = 600) -> eu.Flow:
    flow = eu.Flow("consumers")
    source = flow.place(eu.generate("integers", rows=batches * ROWS), count=CONSUMERS)
    flow.chain(source, flow.place(work, count=CONSUMERS, id="work"), eu.count(), eu.collect())
    return flow


def filters() -> eu.Flow:
    flow = eu.Flow("filters")
    keep = flow.place(eu.filter("n % 1000 = 7 or n % 999 = 5"), count=2, id="keep")
    source = flow.place(eu.generate("integers", rows=1_400_000_000), count=1)
    flow.chain(source, keep, eu.count(), eu.collect())
    return flow


def disks() -> eu.Flow:
    flow = eu.Flow("disks")
    flow.chain(eu.read("mirrored"), eu.count(), eu.collect())
    return flow


FLOWS = {"consumers": consumers, "filters": filters, "disks": disks}


def prepare(home: Path) -> None:
    """A mirrored collection of 320 MB on four disks."""
    os.environ["EUPHRATES_HOME"] = str(home)

    def name_disks(rate: int | None) -> None:
        entries = [
            {"name": f"d{n}", "folder": f"disk{n}", "worker": f"w{n}", "rate": rate}
            for n in range(DISKS)
        ]
        (home / "disks.json").write_text(json.dumps(entries))

    name_disks(None)
    flow = eu.Flow("write")
    numbers = flow.place(eu.generate("integers", rows=40_000_000))
    names = [f"d{n}" for n in range(DISKS)]
    flow.attach(numbers, flow.place(eu.write("mirrored", disks=names, copies=2)))
    flow.go()
    name_disks(RATE)


def once(which: str, slowed: dict[str, Any] | None) -> dict[str, Any]:
    """Runs a flow; returns what was named when, and the report's findings."""
    perturb = [eu.perturb(after=AFTER, **slowed)] if slowed else []
    named: dict[str, float] = {}
    running = FLOWS[which]().start(perturb=perturb)
    while not running.wait(0.02):
        progress = running.progress()
        for one in progress.slow:
            named.setdefault(one.name, round(progress.seconds, 3))
    report = running.finish()
    return {
        "seconds": report.seconds,
        "ideal_seconds": report.ideal_seconds,
        "named": named,
        "reported": [one.name for one in report.slow],
    }


def bound(batches: int, slower: float | None) -> float:
    """The simulator's fluid bound in seconds, for consumers of these speeds."""
    read_ms = 0.01
    scenario: dict[str, Any] = {
        "kind": "queue",
        "producers": CONSUMERS,
        "consumers": CONSUMERS,
        "batches": batches // CONSUMERS,
        "batch_bytes": ROWS * 8,
        "read_ms": read_ms,
        "consumer_speed": read_ms / (BATCH_SECONDS * 1e3),
    }
    if slower:
        when = {"between": {"from_ms": AFTER * 1e3, "until_ms": 1e9}}
        one = {"side": "consumers", "share": {"count": 1}, "slower": slower, "when": when}
        scenario["perturbations"] = [one]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(scenario, file)
        file.flush()
        command = [Path(sys.executable).with_name("euphrates"), "sim", file.name, "--json"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(told)["bound_ms"]) / 1e3


def measure(quick: bool) -> dict[str, Any]:
    rounds = 1 if quick else 3
    results: dict[str, Any] = {"after": AFTER, "unperturbed": [], "slowed": [], "ideals": []}
    with tempfile.TemporaryDirectory() as home:
        prepare(Path(home))
        for which, times in UNPERTURBED.items():
            for _ in range(1 if quick else times):
                results["unperturbed"].append({"flow": which, **once(which, None)})
        for _ in range(rounds):
            for which, cases in SLOWED.items():
                for left, slowed in cases.items():
                    run = once(which, slowed)
                    results["slowed"].append({"flow": which, "left": left, "who": slowed, **run})
    speeds = {"half": 2, "a quarter": 4, "a tenth": 10}
    bounds = {None: bound(600, None), **{left: bound(600, n) for left, n in speeds.items()}}
    runs = [one for one in results["unperturbed"] + results["slowed"] if one["flow"] == "consumers"]
    for run in runs:
        left = run.get("left")
        if left in bounds:
            ratio = run["ideal_seconds"] / bounds[left]
            results["ideals"].append({"left": left, "bound_seconds": bounds[left], "ratio": ratio})
    return results


def name_of(run: dict[str, Any]) -> str:
    """The report's name of the component that a run slowed."""
    slowed = run["who"]
    return slowed["instance"] if "instance" in slowed else f"disk {slowed['disk']} (reading)"


def delay(run: dict[str, Any]) -> float:
    """Seconds from the perturbation to the name; infinite if it was never named."""
    return float(run["named"].get(name_of(run), float("inf"))) - AFTER


def claims(results: dict[str, Any]) -> Any:
    runs, slowed = results["unperturbed"], results["slowed"]
    wrong = [run for run in runs if run["named"] or run["reported"]]
    yield f"{len(wrong)} of {len(runs)} unperturbed runs name a component", not wrong
    missed = [run for run in slowed if name_of(run) not in run["reported"]]
    yield f"{len(missed)} of {len(slowed)} reports of perturbed runs miss the slow one", not missed
    others = [run for run in slowed if set(run["reported"]) | set(run["named"]) > {name_of(run)}]
    yield f"{len(others)} of {len(slowed)} perturbed runs also name another component", not others
    longest = max(delay(run) for run in slowed)
    yield f"named {longest:.1f} s after it became slow at the latest (at most 2)", longest <= 2
    ratios = [one["ratio"] for one in results["ideals"]]
    told = f"the ideal is {min(ratios):.3f} to {max(ratios):.3f} of the simulator's bound"
    yield f"{told} (within 5 %)", all(abs(ratio - 1) <= 0.05 for ratio in ratios)


def draw(axes: Any, results: dict[str, Any]) -> None:
    from figure import COLOURS

    left, right = axes
    kinds = list(dict.fromkeys((run["flow"], run["left"]) for run in results["slowed"]))
    for place, kind in enumerate(kinds):
        delays = [delay(run) for run in results["slowed"] if (run["flow"], run["left"]) == kind]
        left.plot(delays, [place] * len(delays), "o", color=COLOURS["late_binding"], alpha=0.6)
    told = {"consumers": "a consumer", "filters": "a filter", "disks": "a disk"}
    labels = [f"{told[flow]}: {of}" + ("" if of == "stopped" else " left") for flow, of in kinds]
    left.set_yticks(range(len(kinds)), labels)
    left.invert_yaxis()
    left.axvline(2, color=COLOURS["static"], linewidth=1, linestyle=":")
    left.set_xlim(0, 2.2)
    left.set_xlabel("seconds until it is named (claim: 2)")
    wanted = [None, "half", "a quarter", "a tenth"]
    for place, of in enumerate(wanted):
        ratios = [one["ratio"] for one in results["ideals"] if one["left"] == of]
        right.plot(ratios, [place] * len(ratios), "o", color=COLOURS["late_binding"], alpha=0.6)
        if ratios:
            middle = statistics.median(ratios)
            right.text(1.055, place, f"{middle:.3f}", va="center", color=COLOURS["bound"])
    names = ["none slow", *(f"one with {of} left" for of in wanted[1:])]
    right.set_yticks(range(len(wanted)), names)
    right.invert_yaxis()
    right.axvspan(0.95, 1.05, color="#eaeef2", zorder=0)
    right.set_xlim(0.93, 1.07)
    right.set_xlabel("the report's ideal by the simulator's bound")
