"""The LogP parameters of active messages between two processes (Berkeley NOW, Figure 5).

    .venv/bin/python bench/peers/logp.py
    .venv/bin/python bench/peers/logp.py --rounds 15 --force

Runs `crates/wire/examples/logp.rs` over each carrier, with ends that poll and ends that sleep until
something arrives, and UCX (`ucx_perftest`, package `ucx-utils`) where it is installed, in turns.
Results are medians with bootstrap intervals of 95 %. Latencies of a busy machine are those of its
scheduler, so the program refuses to measure on one, unless forced; the results then say so. Raw
results go to `bench/results/<date>-logp.json`, the plot beside it: on the left the time of one
message, o_s + L + o_r, on the right the time per message of a burst, g.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = TARGET / "release" / "examples" / "logp"
CARRIERS = ["unix", "tcp", "tls"]
MODES = ["poll", "block"]
KEYS = ["o_s_us", "o_r_us", "L_us", "g_us", "round_trip_us", "bulk_gb_per_s"]
UCX_CARRIERS = {"posix": "posix,self", "tcp": "tcp,self"}
BUSY_MAX = 0.1
"""The part of the processors that others may use."""
RESAMPLES = 2_000


def busy(seconds: float = 1.0) -> float:
    """The part of the processors that is used now, or taken by the host."""

    def read() -> tuple[int, int]:
        line = Path("/proc/stat").read_text().splitlines()[0]
        times = [int(field) for field in line.split()[1:9]]
        return sum(times), times[3] + times[4]

    (before, idle_before), _ = read(), time.sleep(seconds)
    after, idle_after = read()
    return 1 - (idle_after - idle_before) / max(1, after - before)


def euphrates(carrier: str, mode: str) -> dict[str, float]:
    command = [str(PROGRAM), carrier, mode, "1"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    told = json.loads(done.stdout)
    return {key: told[key] for key in KEYS}


def ucx(carrier: str) -> dict[str, float]:
    """Latency and rate of UCX's active messages of 32 bytes; it does not tell the overheads."""
    environment = {**os.environ, "UCX_TLS": UCX_CARRIERS[carrier]}

    def test(name: str, size: int, count: int) -> list[float]:
        server = subprocess.Popen(
            ["ucx_perftest", "-p", "13999"], env=environment, stdout=subprocess.DEVNULL
        )
        try:
            time.sleep(0.5)
            words = ["-t", name, "-s", str(size), "-n", str(count), "-f", "-v"]
            command = ["ucx_perftest", "127.0.0.1", "-p", "13999", *words]
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True, timeout=300
            )
            return [float(field) for field in done.stdout.splitlines()[-1].split(",")]
        finally:
            server.kill()
            server.wait()

    latency = test("ucp_am_lat", 32, 20_000)[3]
    rate = test("ucp_am_bw", 32, 100_000)[7]
    bulk = test("ucp_am_bw", 1 << 20, 500)[5]
    return {"L_us": latency, "g_us": 1e6 / rate, "round_trip_us": 2 * latency,
            "bulk_gb_per_s": bulk * (1 << 20) / 1e9}  # fmt: skip


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and its bootstrap interval of 95 %."""
    source = random.Random(1)
    medians = sorted(
        statistics.median(source.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    low, high = medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]
    return statistics.median(values), low, high


def in_turns(rounds: int, runners: dict[str, Callable[[], dict[str, float]]]) -> dict:
    """Runs every runner once a round; the median, interval and values of each parameter."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in runners}
    for number in range(rounds):
        for name, runner in runners.items():
            runs[name].append(runner())
            print(f"  round {number + 1} {name}: {runs[name][-1]}", flush=True)
    return {
        name: {
            key: dict(
                zip(("median", "low", "high"), interval([run[key] for run in of]), strict=True)
            )
            | {"values": [run[key] for run in of]}
            for key in of[0]
        }
        for name, of in runs.items()
    }


def plot(engines: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
    names = list(engines)
    bottom = [0.0] * len(names)
    for key, colour in (("o_s_us", "#0b3d91"), ("o_r_us", "#1f6feb"), ("L_us", "#a9c9ff")):
        values = [max(0.0, engines[name].get(key, {"median": 0.0})["median"]) for name in names]
        left.bar(names, values, bottom=bottom, color=colour, label=key.removesuffix("_us"))
        bottom = [below + value for below, value in zip(bottom, values, strict=True)]
    gaps = [engines[name]["g_us"] for name in names]
    medians = [gap["median"] for gap in gaps]
    errors = [
        [gap["median"] - gap["low"] for gap in gaps],
        [gap["high"] - gap["median"] for gap in gaps],
    ]
    right.bar(names, medians, yerr=errors, color="#6e7781")
    left.set_title("one message, µs", loc="left", fontsize=9)
    right.set_title("g: a message of a burst, µs", loc="left", fontsize=9)
    left.legend(frameon=False)
    for axes in (left, right):
        axes.tick_params(axis="x", rotation=60, labelsize=8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--force", action="store_true", help="measure on a busy machine, too")
    parser.add_argument("--name", default="logp", help="name of the files under bench/results")
    arguments = parser.parse_args()
    load = busy()
    if load > BUSY_MAX and not arguments.force:
        sys.exit(f"the machine is busy ({load:.0%} of its processors); wait, or use --force")
    if not PROGRAM.exists():
        build = ["cargo", "build", "--release", "-p", "euphrates-wire", "--example", "logp"]
        subprocess.run(build, cwd=ROOT, check=True)
    runners: dict[str, Callable[[], dict[str, float]]] = {
        f"{carrier}, {mode}": (lambda carrier=carrier, mode=mode: euphrates(carrier, mode))
        for carrier in CARRIERS
        for mode in MODES
    }
    if shutil.which("ucx_perftest"):
        runners |= {f"UCX {name}": (lambda name=name: ucx(name)) for name in UCX_CARRIERS}
    engines = in_turns(arguments.rounds, runners)
    today = datetime.date.today().isoformat()
    raw = {
        "date": today,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "busy_before": round(load, 2),
        "engines": engines,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{today}-{arguments.name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    plot(engines, RESULTS / f"{today}-{arguments.name}.png")
    print("\n| | o_s | o_r | L | g | round trip | GB/s |\n|---|--:|--:|--:|--:|--:|--:|")
    for name, one in engines.items():
        cells = [one[key]["median"] if key in one else None for key in KEYS]
        print(f"| {name} | " + " | ".join("–" if c is None else f"{c:.2f}" for c in cells) + " |")


if __name__ == "__main__":
    main()
