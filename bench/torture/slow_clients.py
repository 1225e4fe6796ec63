"""Slow clients at every port of a cluster: the cost to the flows that run there.

Two workers have joined a program over TCP and TLS, all on this machine. The same numbers go from
one worker to the other, in turns without and with `--strangers` slow clients at each of the three
ports. A slow client sends nothing, or a byte now and then, and reconnects a second after it is
dropped. Every run must end with the right count. The claim is that runs with slow clients take at
most 1.2 times as long (median of the rounds).

    python bench/torture/slow_clients.py --rounds 9 --keep
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import euphrates as eu  # noqa: E402
import rig  # noqa: E402

RESULTS = ROOT / "bench" / "results"
EUPHRATES = [sys.executable, "-m", "euphrates"]
HERE = "127.0.0.1"
AGAIN_SECONDS = 1
SLOWER_MAX = 1.2


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder, joined(Path(folder)) as (cluster, ports):
        outcome = measured(cluster, ports, options)
    print(json.dumps(outcome, indent=2))
    if options.keep:
        path = RESULTS / f"{date.today().isoformat()}-slow_clients.json"
        path.write_text(json.dumps(outcome, indent=1) + "\n")
    if outcome["slower"] > SLOWER_MAX:
        sys.exit(f"flows take {outcome['slower']:.2f} times as long")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, default=400_000_000)
    parser.add_argument("--strangers", type=int, default=200, help="at each port")
    parser.add_argument("--keep", action="store_true", help="write the results")
    return parser.parse_args()


@contextlib.contextmanager
def joined(folder: Path) -> Iterator[tuple[eu.Cluster, list[int]]]:
    """A cluster of two joined workers, and the ports of the program and the workers."""
    token, ports = folder / "token", [free_port() for _ in range(3)]
    subprocess.run([*EUPHRATES, "token", token], check=True)
    address, opened = f"{HERE}:{ports[0]}", []

    def join() -> None:
        opened.append(eu.Cluster.join(address, 2, token_file=token))

    joining = threading.Thread(target=join)
    joining.start()
    words = ["worker", "--join", address, "--token-file", str(token), "--cores", "1"]
    workers = [
        subprocess.Popen([*EUPHRATES, *words, "--name", f"w{number}", "--listen", f"{HERE}:{port}"])
        for number, port in enumerate(ports[1:])
    ]
    joining.join()
    with opened[0] as cluster:
        yield cluster, ports
    for worker in workers:
        worker.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind((HERE, 0))
        return int(free.getsockname()[1])


def measured(cluster: eu.Cluster, ports: list[int], options: argparse.Namespace) -> dict[str, Any]:
    run(cluster, options.rows)
    alone, attacked = [], []
    for _ in range(options.rounds):
        alone.append(run(cluster, options.rows))
        addresses = [(HERE, port) for port in ports]
        with rig.SlowClients(addresses, options.strangers, again=AGAIN_SECONDS):
            attacked.append(run(cluster, options.rows))
    return {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release()},
        "rows": options.rows,
        "strangers_at_each_port": options.strangers,
        "ports": len(ports),
        "alone_seconds": alone,
        "among_strangers_seconds": attacked,
        # Ratio per round, because other load on the machine differs between rounds.
        "slower": statistics.median(one / other for one, other in zip(attacked, alone)),
    }


def run(cluster: eu.Cluster, rows: int) -> float:
    flow = eu.Flow("across")
    here = flow.place(eu.generate("integers", rows=rows), workers="w0")
    there = flow.attach(here, flow.place(eu.filter("n % 7 < 7"), workers="w1"))
    flow.chain(there, eu.count(), eu.collect())
    began = time.monotonic()
    counted = flow.go(cluster=cluster, progress=False).collected().to_pylist()
    assert counted == [{"count": rows}], counted
    return time.monotonic() - began


if __name__ == "__main__":
    main()
