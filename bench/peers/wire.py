"""Batch throughput between two processes of one machine, compared with iperf3 and Arrow Flight.

    .venv/bin/python bench/peers/wire.py
    .venv/bin/python bench/peers/wire.py --rounds 9 --bytes 4e9

One stream each, in turns; results are medians. Flight and Euphrates send the same batches of a
megabyte (keys of 10 bytes, payloads of 90), and decode them on arrival; iperf3 sends raw bytes. CPU
seconds are those of both ends. iperf3 comes from the distribution, Flight with pyarrow. Raw results
go to `bench/results/<date>-wire.json`, the plot beside it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
SPEED = ROOT / "target" / "release" / "examples" / "wire_speed"
CARRIERS = ["shm", "unix", "tcp", "tls"]
"""`shm` is a unix socket with large bodies in shared memory."""

FLIGHT_SERVER = """
import os, time
import pyarrow as pa
import pyarrow.flight as flight

rows, different = 10_486, 16
schema = pa.schema([("key", pa.binary(10)), ("payload", pa.binary(90))])

def batch():
    column = lambda width: pa.Array.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(os.urandom(rows * width))])
    return pa.record_batch([column(10), column(90)], schema=schema)

batches = [batch() for _ in range(different)]

class Server(flight.FlightServerBase):
    def do_get(self, context, ticket):
        count = int(ticket.ticket)
        stream = (batches[n % different] for n in range(count))
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, stream))

    def do_action(self, context, action):
        return [str(time.process_time()).encode()]

server = Server("grpc://127.0.0.1:0")
print(server.port, flush=True)
server.serve()
"""

FLIGHT_CLIENT = """
import json, sys, time
import pyarrow.flight as flight

port, size = int(sys.argv[1]), int(sys.argv[2])
batch_bytes = 10_486 * 100
client = flight.connect(f"grpc://127.0.0.1:{port}")
cpu = lambda: float(next(iter(client.do_action(flight.Action("cpu", b"")))).body.to_pybytes())

def get(size):
    rows = 0
    for chunk in client.do_get(flight.Ticket(str(size // batch_bytes).encode())):
        rows += chunk.data.num_rows
    return rows * 100

get(50 * batch_bytes)
server, here, start = cpu(), time.process_time(), time.perf_counter()
got = get(size)
seconds = time.perf_counter() - start
here, server = time.process_time() - here, cpu() - server
print(json.dumps({"bytes": got, "seconds": seconds, "gb_per_s": got / seconds / 1e9,
                  "cpu_s_per_gb": (here + server) / got * 1e9}))
"""


def euphrates(carrier: str, size: int) -> dict:
    command = [str(SPEED), carrier, str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout)


def flight(size: int) -> dict:
    command = [sys.executable, "-c", FLIGHT_SERVER]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    try:
        port = server.stdout.readline().strip()
        client = [sys.executable, "-c", FLIGHT_CLIENT, port, str(size)]
        done = subprocess.run(client, check=True, capture_output=True, text=True, timeout=300)
        return json.loads(done.stdout)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def iperf3(size: int, *options: str) -> dict:
    """One stream of bytes; CPU seconds as the kernel counts them for both processes."""
    port = "5299"
    serve = ["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port, "--forceflush"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    while "listening" not in server.stdout.readline():
        pass
    call = ["iperf3", "-c", "127.0.0.1", "-p", port, "-n", str(size), "-J", *options]
    client = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
    assert client.stdout
    told = json.loads(client.stdout.read())
    server.stdout.read()
    cpu = 0.0
    for process in (client, server):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu += usage.ru_utime + usage.ru_stime
        process.stdout.close()  # type: ignore[union-attr]
    end = told["end"]["sum_received"]
    return {
        "bytes": end["bytes"],
        "seconds": end["seconds"],
        "gb_per_s": end["bits_per_second"] / 8e9,
        "cpu_s_per_gb": cpu / end["bytes"] * 1e9,
    }


def in_turns(rounds: int, runners: dict) -> dict:
    """Runs every runner once a round; returns medians and runs of each."""
    runs: dict = {name: [] for name in runners}
    for number in range(rounds):
        for name, runner in runners.items():
            run = runner()
            runs[name].append(run)
            told = f"{run['gb_per_s']:.2f} GB/s, {run['cpu_s_per_gb']:.2f} CPU-s/GB"
            print(f"  round {number + 1} {name}: {told}", flush=True)

    def median(name: str, key: str) -> float:
        return statistics.median(run[key] for run in runs[name])

    return {
        name: {
            "gb_per_s": median(name, "gb_per_s"),
            "cpu_s_per_gb": median(name, "cpu_s_per_gb"),
            "runs": runs[name],
        }
        for name in runners
    }


def promises(engines: dict) -> dict:
    """Each claim, its measured value, and whether it holds. Ratios are taken within a round, since
    the machine's speed varies between rounds; their median counts.
    """

    def ratio(key: str, one: str, other: str) -> float:
        rounds = zip(engines[one]["runs"], engines[other]["runs"], strict=True)
        return statistics.median(this[key] / that[key] for this, that in rounds)

    tcp, peer = "Euphrates tcp", "Arrow Flight"
    at_least = {
        "tcp_to_iperf3": (ratio("gb_per_s", tcp, "iperf3"), 1.3),
        "shm_to_unix": (ratio("gb_per_s", "Euphrates shm", "Euphrates unix"), 1.5),
        "unix_to_tcp": (ratio("gb_per_s", "Euphrates unix", tcp), 1.0),
        "tcp_to_flight": (ratio("gb_per_s", tcp, peer), 3.0),
        "tls_gb_per_s": (engines["Euphrates tls"]["gb_per_s"], 0.7),
    }
    at_most = {
        "shm_cpu_to_unix": (ratio("cpu_s_per_gb", "Euphrates shm", "Euphrates unix"), 0.4),
        "tcp_cpu_s_per_gb": (engines[tcp]["cpu_s_per_gb"], 0.35),
        "tcp_cpu_to_flight": (ratio("cpu_s_per_gb", tcp, peer), 1 / 3),
    }
    found = {
        name: {"is": value, "at_least": bound, "holds": value >= bound}
        for name, (value, bound) in at_least.items()
    }
    return found | {
        name: {"is": value, "at_most": bound, "holds": value <= bound}
        for name, (value, bound) in at_most.items()
    }


def plot(engines: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, sides = plt.subplots(1, 2, figsize=(10, 0.9 + 0.42 * len(engines)), sharey=True)
    names = list(engines)
    colours = ["#1f6feb" if name.startswith("Euphrates") else "#6e7781" for name in names]
    titles = {"gb_per_s": "GB/s (more is better)", "cpu_s_per_gb": "CPU-s/GB (less is better)"}
    for axes, (key, title) in zip(sides, titles.items(), strict=True):
        values = [engines[name][key] for name in names]
        bars = axes.barh(names, values, color=colours)
        axes.bar_label(bars, fmt=" %.2f", fontsize=8)
        axes.set_title(title, loc="left", fontsize=9)
        axes.margins(x=0.15)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    sides[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", type=float, default=2e9, help="sent in one run")
    parser.add_argument("--name", default="wire", help="name of the files under bench/results")
    arguments = parser.parse_args()
    size = int(arguments.bytes)
    build = ["cargo", "build", "--release", "-p", "euphrates-wire", "--example", "wire_speed"]
    subprocess.run(build, cwd=ROOT, check=True)

    runners = {f"Euphrates {carrier}": (lambda carrier=carrier: euphrates(carrier, size))
               for carrier in CARRIERS}  # fmt: skip
    runners["iperf3"] = lambda: iperf3(size)
    runners["iperf3, blocks of 1 MiB"] = lambda: iperf3(size, "-l", "1M")
    runners["Arrow Flight"] = lambda: flight(size)
    engines = in_turns(arguments.rounds, runners)
    found = promises(engines)
    today = datetime.date.today().isoformat()
    raw = {
        "date": today,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "bytes": size,
        "promises": found,
        "engines": engines,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{today}-{arguments.name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    plot(engines, RESULTS / f"{today}-{arguments.name}.png")
    print("\n| engine | GB/s | CPU-s/GB |\n|---|--:|--:|")
    for name, one in engines.items():
        print(f"| {name} | {one['gb_per_s']:.2f} | {one['cpu_s_per_gb']:.2f} |")
    for name, one in found.items():
        bound = f"at least {one['at_least']:.3g}" if "at_least" in one else (
            f"at most {one['at_most']:.3g}")  # fmt: skip
        print(f"{'holds' if one['holds'] else 'FAILS'}: {name} {one['is']:.3g}, {bound}")


if __name__ == "__main__":
    main()
