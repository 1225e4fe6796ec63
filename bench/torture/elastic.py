"""Workers join, leave and die during a flow with `resume`: how near is its time to the ideal?

A scan of 600 row groups, a function that takes the same time for each row, so that four workers
are four times as fast as one whatever the machine has, and a folder; on workers of one core each
that join a keeper. Three cases: two workers join two others at half time; and every ten seconds a
worker is killed, or drained by SIGTERM, and another one joins. The ideal is the work divided by the
sum of the speeds at each moment, which are equal, with the calm time of the same flow for what it
takes beside the function. Every result must be right.

python bench/torture/elastic.py --seconds 40
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODULES = [str(ROOT / "python" / "tests" / "support"), str(Path(__file__).parent)]
sys.path[:0] = MODULES

from recovery_by_unit import DELAY, GROUP_ROWS, GROUPS, delayed, is_right, write_input  # noqa: E402

import cluster_harness as clusters  # noqa: E402
import euphrates as eu  # noqa: E402
from cluster_harness import Program, wait_for, worker  # noqa: E402

RESULTS = ROOT / "bench" / "results"
WORKERS = 4
CHURN_SECONDS = 10.0
JOINED_MOST, CHURN_MOST = 1.1, 1.3


class Pool:
    """A keeper, and workers that join it and leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = clusters.new_token(folder)
        self.keeper, self.address = clusters.keep(folder, self.token)
        self.workers: list[Program] = []
        self.joined = 0

    def add(self, count: int) -> None:
        for _ in range(count):
            name = f"w{self.joined}"
            self.joined += 1
            self.workers.append(worker(self.folder, self.address, self.token, name))

    def settle(self) -> None:
        """Waits until all have joined."""
        wait_for(lambda: self.keeper.stdout.count("has joined") == self.joined, "all have joined")

    def lose(self, how: signal.Signals) -> None:
        """The oldest worker leaves."""
        self.workers.pop(0).process.send_signal(how)

    def end(self) -> None:
        for program in [*self.workers, self.keeper]:
            program.process.kill()


@contextlib.contextmanager
def pool(workers: int) -> Iterator[Pool]:
    shutil.rmtree("out", ignore_errors=True)
    shutil.rmtree("home", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        kept = Pool(Path(folder))
        try:
            kept.add(workers)
            kept.settle()
            yield kept
        finally:
            kept.end()


def run(workers: int, disturb: Callable[[Pool, threading.Event], None]) -> dict[str, Any]:
    """One run, which `disturb` changes the pool of until the event is set."""
    flow = eu.Flow("clean")
    flow.chain(
        eu.scan("in.parquet"),
        eu.filter("n % 7 <> 3"),
        eu.map(delayed, schema={"n": "int64", "text": "string"}),
        eu.save_dataset("out", mode="overwrite", file_bytes=1 << 20),
    )
    with pool(workers) as kept:
        ended = threading.Event()
        with eu.Cluster.at(kept.address, token_file=kept.token, workers=workers) as cluster:
            disturbing = threading.Thread(target=disturb, args=(kept, ended))
            began = time.monotonic()
            disturbing.start()
            try:
                report = flow.go(cluster=cluster, resume=True, progress=False)
            finally:
                ended.set()
                disturbing.join()
            seconds = time.monotonic() - began
    return {"seconds": seconds, "losses": report.losses, "is_right": is_right()}


def calm(_kept: Pool, _ended: threading.Event) -> None:
    pass


def joining(after: float) -> Callable[[Pool, threading.Event], None]:
    def disturb(kept: Pool, ended: threading.Event) -> None:
        if not ended.wait(after):
            kept.add(WORKERS // 2)

    return disturb


def churning(how: signal.Signals) -> Callable[[Pool, threading.Event], None]:
    def disturb(kept: Pool, ended: threading.Event) -> None:
        while not ended.wait(CHURN_SECONDS):
            kept.lose(how)
            kept.add(1)

    return disturb


def measure(seconds: float, rounds: int) -> dict[str, Any]:
    os.environ[DELAY] = str(seconds * WORKERS / (GROUPS * GROUP_ROWS * 6 / 7))
    os.environ["EUPHRATES_HOME"] = str(Path("home").resolve())
    os.environ["PYTHONPATH"] = os.pathsep.join(MODULES)
    write_input()
    cases: dict[str, tuple[int, Callable[[Pool, threading.Event], None]]] = {
        "calm, two": (WORKERS // 2, calm),
        "calm, four": (WORKERS, calm),
        "two join two at half time": (WORKERS // 2, joining(seconds)),
        "one killed, one joins every 10 s": (WORKERS, churning(signal.SIGKILL)),
        "one drained, one joins every 10 s": (WORKERS, churning(signal.SIGTERM)),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (workers, disturb) in cases.items():
            found[name].append(run(workers, disturb))
            print(name, found[name][-1], flush=True)
    two, four = (
        statistics.median(run["seconds"] for run in found[name])
        for name in ("calm, two", "calm, four")
    )
    # After `seconds` of the calm time of two, the rest takes half as long.
    ideal = {
        "two join two at half time": seconds + (two - seconds) / 2,
        "one killed, one joins every 10 s": four,
        "one drained, one joins every 10 s": four,
    }
    ratios = {name: [run["seconds"] / best for run in found[name]] for name, best in ideal.items()}
    return {"seconds": seconds, "runs": found, "ideal": ideal, "ratios": ratios}


def wrongs(found: dict[str, Any]) -> list[str]:
    runs = [run for of in found["runs"].values() for run in of]
    said = [f"a wrong result: {run}" for run in runs if not run["is_right"]]
    for name, ratios in found["ratios"].items():
        most = JOINED_MOST if "join two" in name else CHURN_MOST
        middle = statistics.median(ratios)
        print(f"{name}: {middle:.2f} of the ideal time (limit {most}), worst {max(ratios):.2f}")
        if middle > most:
            said.append(f"{name}: {middle:.2f} of the ideal time, at most {most}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=40, help="the calm time of four workers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = measure(options.seconds, options.rounds)
        os.chdir(ROOT)
    if options.keep:
        path = RESULTS / f"{date.today().isoformat()}-elastic.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
    if wrong := wrongs(found):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
