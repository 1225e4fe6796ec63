"""Kills a worker of a sort at random moments, again and again.

Every run must end with the right output or with a typed error, whoever dies when: sorted records
that `valsort` finds complete, nothing staged, no process left. What a death costs is measured
beside runs in which nobody dies.

    python bench/torture/kill_workers.py --kills 100 --records 10000000
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any

import euphrates as eu

RESULTS = Path(__file__).resolve().parents[1] / "results"
EUPHRATES = Path(sys.executable).with_name("euphrates")
WORKERS = 4


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        outcome = torture(Path(folder), options)
    print(json.dumps({**outcome, "runs": f"{len(outcome['runs'])} runs"}, indent=2))
    if options.keep:
        path = RESULTS / f"{date.today().isoformat()}-kill_workers.json"
        path.write_text(json.dumps(outcome, indent=1) + "\n")
    if outcome["wrong"]:
        sys.exit("some runs ended wrongly")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--how", choices=["KILL", "STOP"], default="KILL")
    parser.add_argument("--work", type=Path, help="a folder with room for three times the records")
    parser.add_argument("--keep", action="store_true", help="write the results")
    return parser.parse_args()


def torture(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    print(f"seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    home = folder / "home"
    read_in(folder, home, options.records)
    calm = [run(home, None, "KILL")["seconds"] for _ in range(3)]
    typical = statistics.median(calm)
    runs = []
    for number in range(options.kills):
        moment = chance.uniform(0, typical)
        result = run(home, (moment, chance.randrange(WORKERS)), options.how)
        result["wrong"] = wrongs(folder, home, result)
        runs.append(result)
        print(f"{number}: {result}", flush=True)
    recovered = [run["seconds"] for run in runs if run["losses"]]
    return {
        "seed": options.seed,
        "how": options.how,
        "records": options.records,
        "calm_seconds": calm,
        "recovered": len(recovered),
        "recovery_seconds_median": statistics.median(recovered) - typical if recovered else None,
        "recovery_seconds_most": max(recovered) - typical if recovered else None,
        "recovery_allowed_seconds": typical / WORKERS + 3,
        "wrong": [run for run in runs if run["wrong"]],
        "runs": runs,
    }


def read_in(folder: Path, home: Path, records: int) -> None:
    subprocess.run([EUPHRATES, "gensort", str(records), folder / "records"], check=True)
    flow = eu.Flow("in")
    flow.chain(eu.scan(folder / "records", format="records"), eu.write("in"))
    flow.go(home=home, progress=False)
    (folder / "records").unlink()


def run(home: Path, kill: tuple[float, int] | None, how: str) -> dict[str, Any]:
    """One sort on a cluster of its own, of which one worker dies at a moment."""
    flow = eu.Flow("sort")
    flow.chain(eu.read("in"), eu.sort(["key"]), eu.write("out", overwrite=True))
    result: dict[str, Any] = {"kill": kill, "losses": [], "error": None}
    with eu.Cluster.processes(WORKERS) as cluster:
        workers = children()
        timer = None
        if kill is not None:
            moment, number = kill
            timer = threading.Timer(moment, signalled, [workers[number], how])
            timer.start()
        began = time.monotonic()
        try:
            report = flow.go(home=home, cluster=cluster, progress=False)
            result["losses"] = [line for line in str(report).splitlines() if "was lost" in line]
        except eu.EuphratesError as error:
            result["error"] = f"{type(error).__name__}: {error}"
        result["seconds"] = time.monotonic() - began
        if timer is not None:
            timer.join()
            if how == "STOP":
                signalled(workers[kill[1]] if kill else 0, "CONT")
    result["orphans"] = [pid for pid in workers if alive(pid)]
    return result


def wrongs(folder: Path, home: Path, result: dict[str, Any]) -> list[str]:
    """What is not as it must be after a run."""
    wrong = [f"process {pid} is left" for pid in result["orphans"]]
    for place in (home / "data" / ".staging", home / "scratch"):
        if place.exists() and any(place.iterdir()):
            wrong.append(f"{place.name} is not empty")
    output = folder / "out"
    flow = eu.Flow("out")
    flow.chain(eu.read("out", order=True), eu.save(output, format="records", overwrite=True))
    flow.go(home=home, progress=False)
    checked = subprocess.run([EUPHRATES, "valsort", output], capture_output=True, text=True)
    if checked.returncode != 0:
        wrong.append(checked.stderr)
    output.unlink()
    return wrong


def children() -> list[int]:
    """The worker processes of this program, by their names."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(parent) == os.getpid() and b"worker" in words:
            found.append((words[words.index(b"--name") + 1], int(entry.name)))
    return [pid for _, pid in sorted(found)]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def signalled(pid: int, how: str) -> None:
    """Sends a signal to a worker, unless it has ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, getattr(signal, f"SIG{how}"))


if __name__ == "__main__":
    main()
