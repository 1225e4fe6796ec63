"""The same flows in this process, on worker processes that share its cores, and on workers without
shared memory, in turns: a sort of records, a join, and a group by.

The differences are the costs of process boundaries: start-up is excluded (the clusters are open),
all communication included. Processor seconds are those of the program and of the workers. The
claims: a sort takes at most 10 % longer on worker processes, shared memory saves processor time,
and no batch goes through the program (it exchanges less than a megabyte with its workers).

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
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

import euphrates as eu

RESULTS = Path(__file__).resolve().parents[1] / "results"
EUPHRATES = Path(sys.executable).with_name("euphrates")
SLOWER_MAX = 1.1
SHARED_CPU_MAX = 1.0
MASTER_BYTES_MAX = 1_000_000
VARIABLE = "EUPHRATES_SHARED_MEMORY"


@dataclass
class Place:
    """Where flows run: this process, or a cluster and the process ids of its workers."""

    name: str
    cluster: eu.Cluster | None
    processes: list[int]

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process) for process in [os.getpid(), *self.processes])


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
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=40_000_000, help="of 100 bytes, to sort")
    parser.add_argument("--rows", type=int, default=5_000_000, help="to join and to group")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, help="a folder with room for three times the records")
    parser.add_argument("--keep", action="store_true", help="write the results")
    return parser.parse_args()


def measured(folder: Path, options: argparse.Namespace) -> dict:
    records = folder / "records.dat"
    subprocess.run([EUPHRATES, "gensort", str(options.records), records], check=True)
    left = write_table(folder / "left.arrow", options.rows, 7919)
    right = write_table(folder / "right.arrow", options.rows, 104_729)
    flows = {
        "sort": lambda cluster: sort(records, folder / "sorted.dat", cluster),
        "join": lambda cluster: join(left, right, cluster),
        "group by": lambda cluster: group(left, cluster),
    }
    here = Place("here", None, [])
    shared = opened("shared memory", options.workers)
    os.environ[VARIABLE] = "off"
    sockets = opened("sockets", options.workers)
    del os.environ[VARIABLE]
    places = [here, shared, sockets]
    runs: dict = {name: {place.name: [] for place in places} for name in flows}
    try:
        for number in range(options.rounds):
            for name, flow in flows.items():
                for place in places:
                    run = one(flow, place)
                    runs[name][place.name].append(run)
                    told = f"{run['seconds']:.2f} s, {run['cpu_seconds']:.2f} CPU-s"
                    print(f"  round {number + 1}, {name}, {place.name}: {told}", flush=True)
    finally:
        for place in (shared, sockets):
            if place.cluster:
                place.cluster.close()
    return {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release()},
        "bytes": options.records * 100,
        "rows": options.rows,
        "workers": options.workers,
        "runs": runs,
        "claims": claims(runs),
    }


def opened(name: str, workers: int) -> Place:
    before = children()
    cluster = eu.Cluster.processes(workers)
    return Place(name, cluster, sorted(children() - before))


def one(flow: Callable[[eu.Cluster | None], float], place: Place) -> dict:
    before = place.cluster.control_bytes if place.cluster else 0
    cpu = place.cpu_seconds()
    seconds = flow(place.cluster)
    cpu = place.cpu_seconds() - cpu
    exchanged = place.cluster.control_bytes - before if place.cluster else 0
    return {"seconds": seconds, "cpu_seconds": cpu, "master_bytes": exchanged}


def claims(runs: dict) -> dict:
    """Ratios are those of medians."""

    def ratio(name: str, key: str, one: str, other: str) -> float:
        medians = [statistics.median(run[key] for run in runs[name][it]) for it in (one, other)]
        return medians[0] / medians[1]

    found = {
        "slower": (ratio("sort", "seconds", "shared memory", "here"), SLOWER_MAX),
        "master_bytes": (
            max(run["master_bytes"] for run in runs["sort"]["shared memory"]),
            MASTER_BYTES_MAX,
        ),
    }
    for name in runs:
        saved = ratio(name, "cpu_seconds", "shared memory", "sockets")
        found[f"{name}: cpu_to_sockets"] = (saved, SHARED_CPU_MAX)
    return {
        name: {"is": value, "at_most": bound, "holds": value <= bound}
        for name, (value, bound) in found.items()
    }


def sort(records: Path, target: Path, cluster: eu.Cluster | None) -> float:
    flow = eu.Flow("sort")
    flow.chain(eu.scan(str(records)), eu.sort(["key"]), eu.save(str(target), compression="none"))
    took = seconds(flow, cluster)
    subprocess.run([EUPHRATES, "valsort", target], check=True, stdout=subprocess.DEVNULL)
    target.unlink()
    return took


def join(left: Path, right: Path, cluster: eu.Cluster | None) -> float:
    """Two inputs of equal size, so that both are partitioned."""
    flow = eu.Flow("join")
    joined = flow.place(eu.join(["key"]))
    flow.attach(flow.place(eu.scan(str(left))), joined, input="left")
    flow.attach(flow.place(eu.scan(str(right))), joined, input="right")
    # Columns of which nothing is computed would not be joined.
    values = {"a": "sum(a + a_right)", "b": "sum(b + b_right)", "text": "max(text || text_right)"}
    flow.chain(joined, eu.aggregate([], values=values), eu.collect())
    return seconds(flow, cluster)


def group(table: Path, cluster: eu.Cluster | None) -> float:
    """As many groups as rows."""
    flow = eu.Flow("group by")
    values = {"rows": "count()", "sum": "sum(a)", "least": "min(b)", "last": "max(text)"}
    groups = eu.aggregate("key", values=values)
    every = {"rows": "sum(rows)", "sum": "sum(sum)", "least": "min(least)", "last": "max(last)"}
    flow.chain(eu.scan(str(table)), groups, eu.aggregate([], values=every), eu.collect())
    return seconds(flow, cluster)


def write_table(path: Path, rows: int, stride: int) -> Path:
    """Rows of about 70 bytes, with the keys from 0 in another order for each stride."""
    key = np.arange(rows, dtype=np.int64) * stride % rows
    table = pa.table({
        "key": key,
        "a": key * 3,
        "b": key ^ 0x5555,
        "text": pa.array(np.char.zfill((key * 7919 % rows).astype(str), 36)),
    })  # fmt: skip
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 16)
    return path


def seconds(flow: eu.Flow, cluster: eu.Cluster | None) -> float:
    began = time.perf_counter()
    flow.go(cluster=cluster, progress=False)
    return time.perf_counter() - began


def children() -> set[int]:
    """The worker processes of this process."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(stat(int(name))[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.add(int(name))
    return found


def cpu_seconds(process: int) -> float:
    """Of all threads, those that have ended included."""
    fields = stat(process)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stat(process: int) -> list[str]:
    """The fields of `/proc/PID/stat` behind the name of the program."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


if __name__ == "__main__":
    main()
