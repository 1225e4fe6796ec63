"""Four equal consumers, one of which becomes ten times slower in the middle of the run.

Each consumer sleeps 20 ms for a batch of 512 KiB and uses no processor, so that two cores suffice
for all four. The bound is the time of a run in which every consumer is always busy.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import euphrates as eu

TITLE = "A consumer of four becomes 10 times slower after a third of the run"
PANELS = 2
WAYS = ["static", "round_robin", "shortest", "credit", "late_binding"]
CONSUMERS, BATCH_SECONDS, SLOWDOWN, CHANGE = 4, 0.02, 10, 1 / 3
ROWS = 65_536
ROUNDS = 3


class Diary:
    """A log of the finished parts of batches, with consumer and time: shared by all instances."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.began: float | None = None
        self.entries: list[tuple[float, int, float]] = []

    def seconds(self) -> float:
        """Seconds since the first batch."""
        now = time.perf_counter()
        with self.lock:
            self.began = self.began or now
            return now - self.began

    def note(self, instance: int, share: float) -> None:
        now = self.seconds()
        with self.lock:
            self.entries.append((now, instance, share))


diary = Diary()


class Consume(eu.Module):
    """Sleeps a fixed time per batch."""

    def __init__(self, slow_after: float) -> None:
        self.slow_after = slow_after

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            slow = ports.instance == 0 and diary.seconds() >= self.slow_after
            share = batch.num_rows / ROWS
            time.sleep(BATCH_SECONDS * share * (SLOWDOWN if slow else 1))
            diary.note(ports.instance, share)
            ports.put(batch)


def bound(batches: int, slow_after: float) -> float:
    """Seconds for that many batches with every consumer always busy."""
    rate = CONSUMERS / BATCH_SECONDS
    slowed = (CONSUMERS - 1 + 1 / SLOWDOWN) / BATCH_SECONDS
    return slow_after + (batches - rate * slow_after) / slowed


def once(way: str, batches: int, slow_after: float) -> dict[str, Any]:
    global diary
    diary = Diary()
    consume = Consume(slow_after)
    flow = eu.Flow("slow consumer")
    source = flow.place(eu.generate("integers", rows=batches * ROWS), count=CONSUMERS)
    flow.chain(source, flow.place(consume, count=CONSUMERS), eu.count(), eu.collect())
    flow.go(workers=CONSUMERS, queues=way)
    entries = diary.entries
    seconds = max(at for at, _, _ in entries)
    shares = [sum(s for _, who, s in entries if who == one) for one in range(CONSUMERS)]
    return {"seconds": seconds, "batches": shares, "diary": entries}


def measure(quick: bool) -> dict[str, Any]:
    batches = 240 if quick else 480
    slow_after = CHANGE * batches * BATCH_SECONDS / CONSUMERS
    ideal = bound(batches, slow_after)
    results: dict[str, Any] = {"bound_seconds": ideal, "slow_after": slow_after, "ways": {}}
    rounds = [{way: once(way, batches, slow_after) for way in WAYS} for _ in range(ROUNDS)]
    for way in WAYS:
        runs = sorted((one[way] for one in rounds), key=lambda run: run["seconds"])
        seconds = statistics.median(run["seconds"] for run in runs)
        middle = runs[len(runs) // 2]
        results["ways"][way] = {
            "seconds": [round(run["seconds"], 4) for run in runs],
            "fraction_of_bound": ideal / seconds,
            "batches": middle["batches"],
            "diary": [(round(at, 3), who, share) for at, who, share in middle["diary"]],
        }
        print(f"    {way}: {seconds:.2f} s, {ideal / seconds:.3f} of the bound", flush=True)
    return results


def claims(results: dict[str, Any]) -> Any:
    ways = results["ways"]
    ours = ways["late_binding"]["fraction_of_bound"]
    yield f"late binding reaches {ours:.3f} of the bound (at least 0.95)", ours >= 0.95
    tail = statistics.median(ways["late_binding"]["seconds"]) - results["bound_seconds"]
    slowest = BATCH_SECONDS * SLOWDOWN
    told = f"its tail is {tail * 1e3:.0f} ms, one batch of the slowest {slowest * 1e3:.0f} ms"
    yield told, tail <= slowest


def draw(axes: Any, results: dict[str, Any]) -> None:
    from figure import COLOURS

    left, right = axes
    for place, (way, one) in enumerate(results["ways"].items()):
        left.barh(place, one["fraction_of_bound"], color=COLOURS[way], height=0.7)
        left.text(one["fraction_of_bound"], place, f" {one['fraction_of_bound']:.2f}", va="center")
        steps = sorted(at for at, _, _ in one["diary"])
        total = len(steps)
        right.plot(steps, [100 * (n + 1) / total for n in range(total)], color=COLOURS[way],
                   label=way.replace("_", " "))  # fmt: skip
    left.set_yticks(range(len(WAYS)), [way.replace("_", " ") for way in WAYS])
    left.invert_yaxis()
    left.set_xlim(0, 1.1)
    left.axvline(1, color=COLOURS["bound"], linewidth=1, linestyle=":")
    left.set_xlabel("fraction of the bound (1 is everybody busy to the end)")
    right.axvline(results["slow_after"], color="#999999", linewidth=1, linestyle=":")
    right.axvline(results["bound_seconds"], color=COLOURS["bound"], linewidth=1, linestyle=":")
    right.set_xlabel("seconds")
    right.set_ylabel("% of the batches done")
    right.legend(frameon=False, loc="lower right")
