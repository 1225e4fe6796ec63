"""Sorts the same records in this process and on worker processes that share its cores, in turns.

The difference is the cost of process boundaries: start-up is excluded (the cluster is open), all
communication included. The claims: worker processes take at most 10 % longer, and no batch goes
through the program (it exchanges less than a megabyte with its workers).

.venv/bin/python bench/peers/processes.py --records 40000000 --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import euphrates as eu

RESULTS = Path(__file__).resolve().parents[1] / "results"
EUPHRATES = Path(sys.executable).with_name("euphrates")
WORKERS = 4
SLOWER_MAX = 1.1
MASTER_BYTES_MAX = 1_000_000


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        outcome = measured(Path(folder), options)
    print(json.dumps(outcome, indent=2))
    if options.keep:
        path = RESULTS / f"{date.today().isoformat()}-processes.json"
        path.write_text(json.dumps(outcome, indent=1) + "\n")
    failed = [name for name, claim in outcome["claims"].items() if not claim["holds"]]
    sys.exit(f"does not hold: {', '.join(failed)}" if failed else 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=40_000_000, help="of 100 bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, help="a folder with room for three times the records")
    parser.add_argument("--keep", action="store_true", help="write the results")
    return parser.parse_args()


def measured(folder: Path, options: argparse.Namespace) -> dict:
    records = folder / "records.dat"
    subprocess.run([EUPHRATES, "gensort", str(options.records), records], check=True)
    here, there, bytes_ = [], [], []
    with eu.Cluster.processes(WORKERS) as cluster:
        for number in range(options.rounds):
            here.append(sort(records, folder / "here.dat"))
            before = cluster.control_bytes
            there.append(sort(records, folder / "there.dat", cluster))
            bytes_.append(cluster.control_bytes - before)
            told = f"{here[-1]:.2f} s here, {there[-1]:.2f} s on {WORKERS} workers"
            print(f"  round {number + 1}: {told}, {bytes_[-1]} bytes to and from the program")
    slower = statistics.median(there) / statistics.median(here)
    return {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release()},
        "bytes": options.records * 100,
        "workers": WORKERS,
        "here_seconds": here,
        "workers_seconds": there,
        "master_bytes": bytes_,
        "claims": {
            "slower": {"is": slower, "at_most": SLOWER_MAX, "holds": slower <= SLOWER_MAX},
            "master_bytes": {
                "is": max(bytes_),
                "at_most": MASTER_BYTES_MAX,
                "holds": max(bytes_) <= MASTER_BYTES_MAX,
            },
        },
    }


def sort(records: Path, target: Path, cluster: eu.Cluster | None = None) -> float:
    flow = eu.Flow("sort")
    flow.chain(eu.scan(str(records)), eu.sort(["key"]), eu.save(str(target), compression="none"))
    began = time.perf_counter()
    flow.go(cluster=cluster, progress=False)
    took = time.perf_counter() - began
    subprocess.run([EUPHRATES, "valsort", target], check=True, stdout=subprocess.DEVNULL)
    target.unlink()
    return took


if __name__ == "__main__":
    main()
