"""Start-up cost of a null program on 1 to 16 workers of a persistent cluster, launcher included.

The workers are processes of this machine, joined by TCP and TLS as across machines; sharing its
processors is a disadvantage. Every time is that of a whole command: Python starts, loads the
package, connects to the keeper and the workers with fresh keys; the programs start, end and are
reported. `warm` is the cost for a program with an open cluster.

For comparison: a shell that starts as many local programs without a cluster, sequentially and
concurrently, and `mpirun` if installed. Catapult's times are those of the paper (Millennium Sort,
4.3): on machines of 1998, but over a network.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clusters.persistent import EUPHRATES, kept

import euphrates as eu

TITLE = "A null program on every worker: start, end and all (milliseconds)"
PANELS = 2
WORKERS = [1, 2, 4, 8, 16]
ROUNDS = 40
CATAPULT = {1: 0.180, 16: 0.220}
PROMISE_SECONDS = 0.250
NAMES = {
    "euphrates": "euphrates launch",
    "bare": "the same without Python",
    "warm": "cluster.launch, open cluster",
    "loop": "shell, one after the other",
    "at_once": "shell, all at once",
    "mpirun": "mpirun",
}
COLOURS = {
    "euphrates": "#1f6feb",
    "bare": "#8250df",
    "warm": "#54aeff",
    "loop": "#6e7781",
    "at_once": "#24292f",
    "mpirun": "#b35900",
}
BARE = Path(__file__).resolve().parents[2] / "target" / "release" / "euphrates"


def ways(address: str, token: Path, cluster: eu.Cluster) -> dict[str, Callable[[int], None]]:
    """The timed commands for that many workers."""

    def launch(program: Path, workers: int) -> None:
        on = ",".join(f"w{number:02}" for number in range(workers))
        where = ["--cluster", f"at:{address}", "--token-file", token, "--on", on]
        subprocess.run([program, "launch", *where, "--", "true"], check=True)

    def warm(workers: int) -> None:
        launched = cluster.launch(["true"], on=[f"w{number:02}" for number in range(workers)])
        launched.wait()
        assert set(launched.exit_codes.values()) == {0}

    def shell(end: str, workers: int) -> None:
        script = f"for number in $(seq {workers}); do /bin/true{end}; done; wait"
        subprocess.run(["sh", "-c", script.replace("&;", "&")], check=True)

    def mpirun(workers: int) -> None:
        options = ["--oversubscribe", "--allow-run-as-root", "-n", str(workers)]
        subprocess.run(["mpirun", *options, "true"], check=True)

    known: dict[str, Callable[[int], None]] = {
        "euphrates": lambda workers: launch(EUPHRATES, workers),
        "warm": warm,
        "loop": lambda workers: shell("", workers),
        "at_once": lambda workers: shell(" &", workers),
    }
    if BARE.exists():
        known["bare"] = lambda workers: launch(BARE, workers)
    if shutil.which("mpirun"):
        known["mpirun"] = mpirun
    return known


def measure(quick: bool) -> dict[str, Any]:
    rounds = 10 if quick else ROUNDS
    seconds: dict[str, dict[int, list[float]]] = {}
    most = max(WORKERS)
    names = [["--name", f"w{number:02}"] for number in range(most)]
    with (
        tempfile.TemporaryDirectory() as folder,
        kept(Path(folder), names) as (address, token),
        eu.Cluster.at(address, token_file=token, workers=most) as cluster,
    ):
        known = ways(address, token, cluster)
        for number in range(rounds + 1):
            for way, run in known.items():
                for workers in WORKERS:
                    began = time.perf_counter()
                    run(workers)
                    took = time.perf_counter() - began
                    # The first round runs with cold caches.
                    if number > 0:
                        seconds.setdefault(way, {}).setdefault(workers, []).append(took)
    results: dict[str, Any] = {"catapult_seconds": CATAPULT, "ways": {}}
    for way, by_workers in seconds.items():
        results["ways"][way] = {
            str(workers): {
                "median": statistics.median(took),
                "p90": statistics.quantiles(took, n=10)[-1],
                "seconds": [round(one, 5) for one in took],
            }
            for workers, took in by_workers.items()
        }
        told = ", ".join(f"{statistics.median(took) * 1e3:.1f}" for took in by_workers.values())
        print(f"    {NAMES[way]}: {told} ms on {WORKERS} workers", flush=True)
    return results


def claims(results: dict[str, Any]) -> Any:
    ours = results["ways"]["euphrates"]
    most = str(max(WORKERS))
    median, slow = ours[most]["median"], ours[most]["p90"]
    told = f"{median * 1e3:.0f} ms on {most} workers, the slowest tenth above {slow * 1e3:.0f} ms"
    yield f"{told} (Catapult: 220; at most {PROMISE_SECONDS * 1e3:.0f})", slow <= PROMISE_SECONDS
    growth = (median - ours["1"]["median"]) / (max(WORKERS) - 1)
    yield f"one worker more costs {growth * 1e3:.1f} ms (at most 10)", growth <= 0.010


def draw(axes: Any, results: dict[str, Any]) -> None:
    left, right = axes
    shown = [(left, ["euphrates", "mpirun", "bare"]), (right, ["warm", "loop", "at_once"])]
    for one, names in shown:
        for way in names:
            by_workers = results["ways"].get(way)
            if by_workers is None:
                continue
            medians = [by_workers[str(workers)]["median"] * 1e3 for workers in WORKERS]
            slow = [by_workers[str(workers)]["p90"] * 1e3 for workers in WORKERS]
            one.plot(WORKERS, medians, "o-", color=COLOURS[way], label=NAMES[way], markersize=4)
            one.fill_between(WORKERS, medians, slow, color=COLOURS[way], alpha=0.15, linewidth=0)
        one.set_xscale("log", base=2)
        one.set_xticks(WORKERS, [str(workers) for workers in WORKERS])
        one.set_xlabel("workers (shaded: up to the ninth tenth)")
    catapult = [CATAPULT[workers] * 1e3 for workers in CATAPULT]
    left.plot(
        list(CATAPULT), catapult, "s--", color="#999999", label="Catapult, 1998", markersize=5
    )
    left.axhline(PROMISE_SECONDS * 1e3, color="#cf222e", linewidth=1, linestyle=":")
    left.text(1, PROMISE_SECONDS * 1e3 + 3, "promised at most", color="#cf222e", fontsize=8)
    for one in (left, right):
        one.set_ylim(bottom=0)
        one.legend(frameon=False, fontsize=8)
    left.set_title("the whole command", fontsize=9, loc="left")
    right.set_title("within one program, and without a cluster", fontsize=9, loc="left")
    left.legend(frameon=False, fontsize=8, loc="center right")
