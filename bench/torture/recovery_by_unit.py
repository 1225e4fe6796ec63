"""Kills a worker, or the whole program, in the middle of a flow with `resume`: what is done again?

A scan of 600 row groups, a function that takes the same time for each row, so that four workers
are four times as fast as one whatever the machine has, and a folder. One of four workers is killed
at 10, 50 and 90 % of the calm time, with `resume` and without. The limit is the time that the rest
takes with three workers, and 4 s. Then the program is killed at random moments and started again;
the limit is a tenth of the calm time above the calm time, and another start. Every result must be
right.

python bench/torture/recovery_by_unit.py --seconds 30 --kills 20
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / "tests" / "support")]

import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import euphrates as eu  # noqa: E402
from cluster_harness import COMMAND, workers_of  # noqa: E402

RESULTS = ROOT / "bench" / "results"
WORKERS = 4
GROUPS, GROUP_ROWS, TEXT_BYTES = 600, 2_000, 1_000
ALLOWED_SECONDS = 4.0
REPEATED_SHARE = 0.1
DELAY = "EUPHRATES_ROW_SECONDS"


def delayed(batch: eu.Batch) -> eu.Batch:
    """Takes as long for each row as the environment says."""
    time.sleep(len(batch) * float(os.environ[DELAY]))
    return batch


def write_input() -> None:
    """Writes the row groups, which are much larger than the queues: few rows are in these."""
    texts = pa.array([f"text {number}".ljust(TEXT_BYTES, ".") for number in range(GROUP_ROWS)])
    schema = pa.schema({"n": pa.int64(), "text": pa.string()})
    with pq.ParquetWriter("in.parquet", schema) as writer:
        for group in range(GROUPS):
            numbers = pa.array(range(group * GROUP_ROWS, (group + 1) * GROUP_ROWS))
            writer.write_table(pa.table([numbers, texts], schema=schema))


def flow_of() -> eu.Flow:
    # By its name in a module that workers import.
    from recovery_by_unit import delayed as imported

    flow = eu.Flow("clean")
    flow.chain(
        eu.scan("in.parquet"),
        eu.filter("n % 7 <> 3"),
        flow.place(eu.map(imported, schema={"n": "int64", "text": "string"}), count=WORKERS),
        flow.place(eu.save_dataset("out", mode="overwrite", file_bytes=1 << 20), count=WORKERS),
    )
    return flow


def is_right() -> bool:
    numbers = pq.read_table("out", columns=["n"]).column("n").combine_chunks().sort()
    everything = pa.array(range(GROUPS * GROUP_ROWS))
    kept = pc.not_equal(pc.subtract(everything, pc.multiply(pc.divide(everything, 7), 7)), 3)
    return numbers.equals(everything.filter(kept))


def clean() -> None:
    shutil.rmtree("out", ignore_errors=True)
    shutil.rmtree("home", ignore_errors=True)


def killed_worker(share: float | None, calm: float, resume: bool) -> dict[str, Any]:
    """One run, in which a worker is killed after a share of the calm time."""
    clean()
    with eu.Cluster.processes(WORKERS) as cluster:
        began = time.monotonic()
        running = flow_of().start(cluster=cluster, resume=resume)
        if share is not None:
            time.sleep(share * calm)
            os.kill(workers_of(os.getpid())["w1"], signal.SIGKILL)
        report = running.finish()
        seconds = time.monotonic() - began
    read = report.modules[0].rows_out
    return {
        "share": share,
        "resume": resume,
        "seconds": seconds,
        "rows_again": report.restarts["rows_again"] + read - GROUPS * GROUP_ROWS,
        "is_right": is_right(),
    }


def killed_program(share: float, calm: float) -> dict[str, Any]:
    """A program that is killed after a share of the calm time, and started again."""
    clean()
    Path("flow.json").write_text(flow_of().to_json())
    command = [*COMMAND, "run", "flow.json", "--resume", "--cluster", f"processes:{WORKERS}"]
    began = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(share * calm)
    process.kill()
    process.wait()
    subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - began
    return {"share": share, "seconds": seconds, "is_right": is_right()}


def measure(seconds: float, kills: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    os.environ[DELAY] = str(seconds * WORKERS / (GROUPS * GROUP_ROWS * 6 / 7))
    os.environ["EUPHRATES_HOME"] = str(Path("home").resolve())
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:1], str(Path(__file__).parent)])
    write_input()
    calm_runs = [killed_worker(None, 0, resume) for resume in (True, False, True, False)]
    calm = statistics.median(run["seconds"] for run in calm_runs if run["resume"])
    workers = []
    for share in (0.1, 0.5, 0.9):
        for resume in (True, False):
            run = killed_worker(share, calm, resume)
            rest = (1 - share) * calm * WORKERS / (WORKERS - 1)
            run["limit"] = share * calm + rest + ALLOWED_SECONDS
            workers.append(run)
            print(run, flush=True)
    programs = []
    for _ in range(kills):
        run = killed_program(rng.random(), calm)
        # Both starts have taken what the calm run took beside the work.
        run["repeated"] = (run["seconds"] - calm - (calm - seconds)) / calm
        programs.append(run)
        print(run, flush=True)
    return {"seed": seed, "calm": calm_runs, "workers": workers, "programs": programs}


def wrongs(found: dict[str, Any]) -> list[str]:
    runs = [*found["calm"], *found["workers"], *found["programs"]]
    said = [f"a wrong result: {run}" for run in runs if not run["is_right"]]
    with_resume = (run for run in found["workers"] if run["resume"])
    said += [f"too long: {run}" for run in with_resume if run["seconds"] > run["limit"]]
    return said + [
        f"too much again: {run}" for run in found["programs"] if run["repeated"] > REPEATED_SHARE
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=30, help="the calm time")
    parser.add_argument("--kills", type=int, default=20, help="of the program")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep", action="store_true", help="write the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = measure(options.seconds, options.kills, options.seed)
        os.chdir(ROOT)
    if options.keep:
        path = RESULTS / f"{date.today().isoformat()}-recovery_by_unit.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
    if wrong := wrongs(found):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
