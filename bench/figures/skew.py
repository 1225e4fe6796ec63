"""The cost of skewed keys to the sort, and of Zipf keys to the join, relative to uniform keys.

Records have 100 bytes, as the sort benchmark's, and differ only in their keys. They are sorted from
file to file on all cores of this machine, in one pass, with memory for a third of them. The join
finds a row for each of ten million keys among a million. Times are those of the flows, in turns;
the median counts.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from figure import COLOURS

import euphrates as eu

TITLE = "Keys of all kinds beside uniform ones"
PANELS = 2
ROWS = 5_000_000
QUICK_ROWS = 500_000
PROBES = 10_000_000
BUILT = 1_000_000
ROUNDS = 9
RECORD = 100
KEY = 10
ZIPF = 1.2
SORT_MAX = 1.25
JOIN_MAX = 1.5
SEED = 1

Numbers = np.ndarray[Any, np.dtype[np.uint64]]


def zipf(random: np.random.Generator, count: int) -> Numbers:
    """Ranks 1, 2, ...; those beyond a million are drawn as the last."""
    return np.minimum(random.zipf(ZIPF, count), BUILT).astype(np.uint64)


def uniform(random: np.random.Generator, count: int) -> Numbers:
    return random.integers(0, 1 << 63, count, dtype=np.uint64)


def skewed(random: np.random.Generator, count: int) -> Numbers:
    """Keys like gensort's skewed ones: half of them have one of a few prefixes."""
    keys = uniform(random, count)
    keys[::2] = (keys[::2] >> np.uint64(40)) | (keys[::2] & np.uint64(0x7)) << np.uint64(56)
    return keys


KINDS: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "uniform": uniform,
    "skewed": skewed,
    "all equal": lambda _, count: np.full(count, 7, dtype=np.uint64),
    "presorted": lambda random, count: np.sort(uniform(random, count)),
    "reversed": lambda random, count: np.sort(uniform(random, count))[::-1],
    "Zipf": lambda random, count: zipf(random, count) * np.uint64(0x9E3779B97F4A7C15),
}


def records(path: Path, keys: Numbers) -> None:
    """A file of records with these keys, in this order."""
    with path.open("wb") as file:
        for part in np.array_split(keys, max(1, len(keys) // 100_000)):
            lines = np.full((len(part), RECORD), ord("."), dtype=np.uint8)
            lines[:, :8] = part.astype(">u8").view(np.uint8).reshape(-1, 8)
            file.write(lines.tobytes())


def sort(source: Path, target: Path, memory: int | None) -> float:
    flow = eu.Flow("sort")
    target = eu.save(str(target), overwrite=True, compression="none")
    flow.chain(eu.scan(str(source), format="records"), eu.sort(["key"]), target)
    return flow.go(memory=memory, progress=False).seconds


def join(keys: pa.Table, built: pa.Table) -> float:
    flow = eu.Flow("join")
    joined = flow.place(eu.join(["key"]))
    flow.attach(flow.place(eu.from_arrow(keys)), joined, input="left")
    flow.attach(flow.place(eu.from_arrow(built)), joined, input="right")
    flow.attach(joined, flow.place(eu.count())) >> flow.place(eu.collect())
    report = flow.go(progress=False)
    made = [module.rows_out for module in report.modules if module.module == "join"]
    assert made == [len(keys)], made
    return report.seconds


def measure(quick: bool) -> dict[str, Any]:
    rows, rounds = (QUICK_ROWS, 2) if quick else (ROWS, ROUNDS)
    memory = max(rows * RECORD // 3, 160 << 20)
    ways = {"one pass": None, "two passes": memory}
    sorts: dict[str, dict[str, list[float]]] = {way: {kind: [] for kind in KINDS} for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for kind, draw_keys in KINDS.items():
            keys = draw_keys(np.random.default_rng(SEED), rows)
            records(Path(folder) / f"{kind}.dat", keys)
        for _ in range(rounds):
            for way, budget in ways.items():
                for kind, took in sorts[way].items():
                    source, target = Path(folder) / f"{kind}.dat", Path(folder) / "sorted.dat"
                    took.append(sort(source, target, budget))
    joins = joined(PROBES // 10 if quick else PROBES, rounds)
    results = {"sorts": sorts, "joins": joins}
    for name, medians in shares(results).items():
        told = ", ".join(f"{kind} {share:.2f}" for kind, share in medians.items())
        print(f"    {name}: {told}", flush=True)
    return results


def joined(probes: int, rounds: int) -> dict[str, list[float]]:
    random = np.random.default_rng(SEED)
    built = pa.table({"key": np.arange(1, BUILT + 1, dtype=np.uint64), "n": np.arange(BUILT)})
    kinds = {
        "uniform": random.integers(1, BUILT + 1, probes, dtype=np.uint64),
        "Zipf": zipf(random, probes),
    }
    tables = {kind: pa.table({"key": keys, "m": np.arange(probes)}) for kind, keys in kinds.items()}
    took: dict[str, list[float]] = {kind: [] for kind in tables}
    for _ in range(rounds):
        for kind, table in tables.items():
            took[kind].append(join(table, built))
    return took


def shares(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The medians of each kind, relative to uniform keys."""
    all_ = {f"sort, {way}": kinds for way, kinds in results["sorts"].items()}
    all_["join"] = results["joins"]
    medians = {
        name: {kind: statistics.median(took) for kind, took in kinds.items()}
        for name, kinds in all_.items()
    }
    return {
        name: {kind: took / kinds["uniform"] for kind, took in kinds.items()}
        for name, kinds in medians.items()
    }


def claims(results: dict[str, Any]) -> Any:
    for name, kinds in shares(results).items():
        most = JOIN_MAX if name == "join" else SORT_MAX
        worst = max(kinds, key=lambda kind: kinds[kind])
        told = f"{name}: {worst} keys take {kinds[worst]:.2f} times as long as uniform ones"
        yield f"{told} (at most {most})", kinds[worst] <= most


def draw(axes: Any, results: dict[str, Any]) -> None:
    opacities = {"one pass": 1.0, "two passes": 0.55}
    for at, (way, kinds) in enumerate(results["sorts"].items()):
        heights = [statistics.median(took) for took in kinds.values()]
        spots = [spot + (at - 0.5) * 0.38 for spot in range(len(kinds))]
        looks = {"color": COLOURS["late_binding"], "alpha": opacities[way]}
        bars = axes[0].bar(spots, heights, width=0.36, label=way, **looks)
        axes[0].bar_label(bars, [f"{height:.2f}" for height in heights], fontsize="x-small")
    axes[0].set_xticks(range(len(KINDS)), KINDS, fontsize="small")
    axes[0].set(title="sort", ylabel="seconds")
    axes[0].margins(y=0.2)
    axes[0].legend(frameon=False, loc="upper right", ncols=2)
    heights = [statistics.median(took) for took in results["joins"].values()]
    bars = axes[1].bar(range(len(heights)), heights, width=0.5, color=COLOURS["late_binding"])
    axes[1].bar_label(bars, [f"{height:.2f}" for height in heights], fontsize="x-small")
    axes[1].set_xticks(range(len(heights)), results["joins"])
    axes[1].set(title="join", ylabel="seconds")
