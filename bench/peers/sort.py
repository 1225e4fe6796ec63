"""Sorts the same data with Euphrates and with other engines, in turns, and plots ratios.

    make bench            # everything, at the sizes below
    .venv/bin/python bench/peers/sort.py --only records lineitem --scale 0.1

Every engine gets one thread per core and the same files on the same file system; runs are
interleaved, and results are medians. A peer is timed inside its process, without imports; Euphrates
is timed from outside, as a whole process. Raw results go to `bench/results/<date>-sort.json`, the
plot beside it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EUPHRATES = Path(sys.executable).with_name("euphrates")
THREADS = os.cpu_count() or 2
RESULTS = ROOT / "bench" / "results"

DUCKDB = """
import duckdb
con = duckdb.connect()
con.execute(f"SET threads={threads}; SET preserve_insertion_order=false")
if memory: con.execute(f"SET memory_limit='{memory // 2**20}MiB'")
con.execute(f"SET temp_directory='{scratch}'")
start = time.perf_counter()
"""
POLARS = """
import os
os.environ["POLARS_MAX_THREADS"] = str(threads)
import polars
start = time.perf_counter()
"""
DATAFUSION = """
import datafusion
config = datafusion.SessionConfig().with_target_partitions(threads)
runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_os()
if memory: runtime = runtime.with_fair_spill_pool(int(memory * 0.8))
ctx = datafusion.SessionContext(config, runtime)
start = time.perf_counter()
"""
"""The setup code of each engine."""

PEER_SCRIPTS = {
    "DuckDB": DUCKDB
    + """
con.execute(f"COPY (SELECT * FROM '{source}' ORDER BY {by}) TO '{target}' "
            "(FORMAT parquet, COMPRESSION uncompressed)")
""",
    "Polars": POLARS
    + """
polars.scan_parquet(source).sort([k.strip() for k in by.split(",")]).sink_parquet(
    target, compression="uncompressed", engine="streaming")
""",
    "DataFusion": DATAFUSION
    + """
ctx.register_parquet("t", source)
ctx.sql(f"COPY (SELECT * FROM t ORDER BY {by}) TO '{target}' STORED AS PARQUET "
        "OPTIONS ('format.compression' 'uncompressed')").collect()
""",
}


def run(command: list[str], **options) -> dict:
    """Runs a process and returns its wall seconds, CPU seconds and peak memory in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    result = {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }
    if process.returncode != 0:
        result["failed"] = err.decode(errors="replace")[-500:]
    elif out.startswith(b"seconds="):
        result["seconds"] = float(out.split(b"=")[1])
    return result


def euphrates(*arguments: str, memory: int = 0) -> dict:
    budget = ["--memory", str(memory)] if memory else []
    command = [str(EUPHRATES), "--log", "quiet", *arguments, "--cores", str(THREADS), *budget]
    return run(command)


def peer(name: str, work: Path, source: Path, target: Path, by: str, memory: int = 0) -> dict:
    scratch = work / "peer-scratch"
    scratch.mkdir(exist_ok=True)
    values = {
        "threads": THREADS,
        "memory": memory,
        "source": str(source),
        "target": str(target),
        "by": by,
        "scratch": str(scratch),
    }
    head = "import time\n" + "".join(f"{key} = {value!r}\n" for key, value in values.items())
    tail = "\nprint(f'seconds={time.perf_counter() - start}')"
    result = run([sys.executable, "-c", head + PEER_SCRIPTS[name] + tail])
    shutil.rmtree(scratch, ignore_errors=True)
    return result


def fresh(path: Path) -> Path:
    """Removes the output of the run before, outside of any measured time."""
    path.unlink(missing_ok=True)
    return path


def in_turns(rounds: int, runners: dict) -> dict:
    """Runs every runner once a round; returns the results of each, in order."""
    results = {name: [] for name in runners}
    for round_number in range(rounds):
        for name, runner in runners.items():
            result = runner()
            results[name].append(result)
            told = result.get("failed", f"{result['seconds']:.2f} s")
            print(f"    round {round_number + 1} {name}: {told}", flush=True)
    return results


def summary(results: dict, size: int) -> dict:
    """Medians and throughput of each engine."""

    def of(runs: list[dict]) -> dict:
        good = [one for one in runs if "failed" not in one]
        if not good:
            return {"failed": runs[0]["failed"], "runs": runs}
        seconds = statistics.median(one["seconds"] for one in good)
        return {
            "seconds": seconds,
            "mb_per_s": size / seconds / 1e6,
            "peak_mb": max(one["peak_bytes"] for one in good) / 1e6,
            "runs": runs,
        }

    return {name: of(runs) for name, runs in results.items()}


class Bench:
    """The scenarios; each returns a summary by engine, with `bytes` and `ratio`."""

    def __init__(self, work: Path, rounds: int, scale: float):
        self.work, self.rounds, self.scale = work, rounds, scale
        os.environ["EUPHRATES_HOME"] = str(work / "home")

    def make(self, name: str, *command: str) -> Path:
        path = self.work / name
        if not path.exists():
            print(f"  making {name}", flush=True)
            subprocess.run([str(EUPHRATES), *(c.format(path=path) for c in command)], check=True)
        return path

    def flow(self, name: str, module: dict) -> Path:
        """Generates a Parquet file by a flow."""
        path = self.work / name
        if not path.exists():
            print(f"  making {name}", flush=True)
            save = {"path": str(path), "compression": "none"}
            document = {
                "euphrates": 1,
                "name": "make",
                "modules": [
                    {"id": "generate_1", "module": "generate", "config": module},
                    {"id": "save_1", "module": "save", "config": save},
                ],
                "queues": [{"from": "generate_1", "to": "save_1"}],
            }
            file = self.work / "make.json"
            file.write_text(json.dumps(document))
            command = [str(EUPHRATES), "--log", "quiet", "run", str(file)]
            subprocess.run(command, check=True)
        return path

    def records_parquet(self, gigabytes: float) -> Path:
        rows = int(gigabytes * self.scale * 10_000_000)
        return self.flow(f"records-{rows}.parquet", {"what": "records", "rows": rows})

    def compare(self, source: Path, by: str, memory: int = 0, peers=tuple(PEER_SCRIPTS)) -> dict:
        ours, theirs = self.work / "ours.parquet", self.work / "theirs.parquet"
        sort = ["sort", str(source), "-o", str(ours), "--by", by, "--output-compression", "none"]

        def other(name: str):
            return lambda: peer(name, self.work, source, fresh(theirs), by, memory)

        def our_own() -> dict:
            fresh(ours)
            return euphrates(*sort, memory=memory)

        runners = {"Euphrates": our_own}
        runners |= {name: other(name) for name in peers}
        source.read_bytes() if source.stat().st_size < 4e9 else None  # warm
        result = summary(in_turns(self.rounds, runners), source.stat().st_size)
        ours.unlink(missing_ok=True)
        theirs.unlink(missing_ok=True)
        return self.with_ratio(result, source.stat().st_size)

    @staticmethod
    def with_ratio(result: dict, size: int) -> dict:
        peers = [one["seconds"] for name, one in result.items() if name in PEER_SCRIPTS
                 and "seconds" in one]  # fmt: skip
        ours = result["Euphrates"].get("seconds")
        ratio = min(peers) / ours if peers and ours else None
        return {"bytes": size, "ratio_to_fastest_peer": ratio, "engines": result}

    # --- scenarios -------------------------------------------------------------------------

    def records(self) -> dict:
        """1 GB of gensort records, Parquet to Parquet, uncompressed, warm."""
        return self.compare(self.records_parquet(1), "key")

    def collection(self) -> dict:
        """The same records, collection to collection, warm; the peers sort Parquet."""
        parquet = self.records_parquet(1)
        self.load(parquet)
        theirs = self.work / "theirs.parquet"
        runners = {"Euphrates": self.sort_collection}
        for name in PEER_SCRIPTS:
            runners[name] = lambda name=name: peer(name, self.work, parquet, fresh(theirs), "key")
        result = summary(in_turns(self.rounds, runners), parquet.stat().st_size)
        theirs.unlink(missing_ok=True)
        return self.with_ratio(result, parquet.stat().st_size)

    @staticmethod
    def sort_collection() -> dict:
        subprocess.run([str(EUPHRATES), "rm", "bench.out"], capture_output=True)
        return euphrates("sort", "@bench.in", "-o", "@bench.out", "--by", "key")

    def load(self, parquet: Path) -> None:
        document = {
            "euphrates": 1,
            "name": "load",
            "modules": [
                {"id": "scan_1", "module": "scan", "config": {"path": str(parquet)}},
                {"id": "write_1", "module": "write",
                 "config": {"collection": "bench.in", "overwrite": True}},
            ],
            "queues": [{"from": "scan_1", "to": "write_1"}],
        }  # fmt: skip
        file = self.work / "load.json"
        file.write_text(json.dumps(document))
        subprocess.run([str(EUPHRATES), "--log", "quiet", "run", str(file)], check=True)
        for segment in (self.work / "home").rglob("*.arrow"):
            segment.read_bytes()  # warm

    def cold(self) -> dict:
        """Collection to collection with cold caches, compared with fio reading and writing as
        much.
        """
        parquet = self.records_parquet(1)
        self.load(parquet)
        size = parquet.stat().st_size

        def drop_caches() -> None:
            os.sync()
            Path("/proc/sys/vm/drop_caches").write_text("3")

        def ours() -> dict:
            drop_caches()
            return self.sort_collection()

        def disk() -> dict:
            drop_caches()
            return self.fio(size)

        result = summary(in_turns(self.rounds, {"Euphrates": ours, "fio": disk}), size)
        for file in ("fio.in", "fio.out"):
            fresh(self.work / file)
        part = result["fio"]["seconds"] / result["Euphrates"]["seconds"]
        return {"bytes": size, "fraction_of_disk": part, "engines": result}

    def fio(self, size: int) -> dict:
        """Seconds in which the disk reads a file of this size, and writes a new one."""
        seconds = 0.0
        files = {"read": self.work / "fio.in", "write": fresh(self.work / "fio.out")}
        for way, file in files.items():
            out = subprocess.run(
                ["fio", "--name=x", f"--filename={file}", f"--rw={way}",
                 f"--size={size}", "--bs=1M", "--direct=1", "--ioengine=libaio",
                 "--iodepth=4", "--output-format=json"],
                check=True, capture_output=True,
            ).stdout  # fmt: skip
            job = json.loads(out[out.index(b"{") :])["jobs"][0][way]
            seconds += job["io_bytes"] / job["bw_bytes"]
        return {"seconds": seconds, "cpu_seconds": 0.0, "peak_bytes": 0}

    def lines(self) -> dict:
        """1 GB of text lines, compared with GNU sort."""
        rows = int(self.scale * 10_000_000)
        text = self.make(f"lines-{rows}.txt", "gensort", "-a", str(rows), "{path}")
        ours, theirs = self.work / "ours.txt", self.work / "theirs.txt"
        gnu = ["sort", f"--parallel={THREADS}", "-S", "50%", "-T", str(self.work), "-o",
               str(theirs), str(text)]  # fmt: skip
        environment = {**os.environ, "LC_ALL": "C"}
        runners = {
            "Euphrates": lambda: euphrates("sort", str(text), "-o", str(fresh(ours))),
            "GNU sort": lambda: (fresh(theirs), run(gnu, env=environment))[1],
        }
        size = text.stat().st_size
        result = summary(in_turns(self.rounds, runners), size)
        same = subprocess.run(["cmp", str(ours), str(theirs)]).returncode == 0
        ours.unlink(), theirs.unlink()
        ratio = result["GNU sort"]["seconds"] / result["Euphrates"]["seconds"]
        return {"bytes": size, "ratio_to_gnu_sort": ratio, "identical": same, "engines": result}

    def memory(self) -> dict:
        """8 GB of records with 1 GiB of memory; and with all of it."""
        source = self.records_parquet(8)
        budget = int(self.scale * (1 << 30)) if self.scale < 1 else 1 << 30
        # Warm, as far as memory allows.
        subprocess.run(["cat", str(source)], stdout=subprocess.DEVNULL, check=True)
        rounds, self.rounds = self.rounds, max(1, self.rounds // 2)
        limited = self.compare(source, "key", memory=budget, peers=("DuckDB",))
        free = self.compare(source, "key", peers=())
        self.rounds = rounds
        ours = limited["engines"]["Euphrates"]
        one_pass = free["engines"]["Euphrates"]
        ours_of_one_pass = one_pass["seconds"] / ours["seconds"]
        limited["engines"]["Euphrates, one pass"] = one_pass
        return limited | {
            "budget_bytes": budget,
            "peak_of_budget": ours["peak_mb"] * 1e6 / budget,
            "throughput_of_one_pass": ours_of_one_pass,
        }

    def lineitem(self) -> dict:
        """TPC-H lineitem at scale 1 by l_shipdate, l_orderkey."""
        return self.table(1)

    def lineitem10(self) -> dict:
        """TPC-H lineitem at scale 10 by l_shipdate, l_orderkey."""
        rounds, self.rounds = self.rounds, max(1, self.rounds // 2)
        try:
            return self.table(10)
        finally:
            self.rounds = rounds

    def table(self, scale: float) -> dict:
        scale *= self.scale
        config = {"what": "lineitem", "scale": scale}
        source = self.flow(f"lineitem-{scale:g}.parquet", config)
        return self.compare(source, "l_shipdate, l_orderkey")


SCENARIOS = ["records", "collection", "cold", "lines", "memory", "lineitem", "lineitem10"]


def missing(scenario: str) -> str | None:
    """The reason why a scenario cannot be measured here, or None."""
    if scenario == "cold" and shutil.which("fio") is None:
        return "there is no fio (apt-get install fio)"
    return None


def table_of(results: dict) -> str:
    """The results as a Markdown table."""
    rows = ["| scenario | engine | seconds | MB/s | peak MB |", "|---|---|--:|--:|--:|"]
    for name, result in results.items():
        for engine, one in result["engines"].items():
            if "failed" in one:
                rows.append(f"| {name} | {engine} | failed | | |")
                continue
            numbers = f"{one['seconds']:.2f} | {one['mb_per_s']:.0f} | {one['peak_mb']:.0f}"
            rows.append(f"| {name} | {engine} | {numbers} |")
        ratios = {k: v for k, v in result.items() if k not in ("bytes", "engines")}
        told = ", ".join(f"{k.replace('_', ' ')} {v:.3g}" for k, v in ratios.items() if v)
        rows.append(f"| {name} | **{told}** | | | |")
    return "\n".join(rows)


def plot(results: dict, path: Path) -> None:
    """One group of bars per scenario: throughput, Euphrates first."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"Euphrates": "#1f6feb", "Euphrates, one pass": "#8fbaf7", "DuckDB": "#e3a008",
               "Polars": "#6e7781", "DataFusion": "#b35900", "GNU sort": "#57606a",
               "fio": "#8250df"}  # fmt: skip
    figure, axes = plt.subplots(figsize=(10, 0.9 + 0.42 * sum(len(r["engines"]) for r in
                                                              results.values())))  # fmt: skip
    y, ticks = 0.0, []
    for name, result in results.items():
        for engine, one in result["engines"].items():
            if "mb_per_s" in one:
                axes.barh(y, one["mb_per_s"], color=colours.get(engine, "#999999"), height=0.8)
                axes.text(one["mb_per_s"], y, f" {one['mb_per_s']:.0f}", va="center", fontsize=8)
            ticks.append((y, f"{name}: {engine}"))
            y += 1
        y += 0.6
    axes.set_yticks([tick for tick, _ in ticks], [label for _, label in ticks], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("MB of input sorted a second (more is better)")
    axes.set_title(f"Sorting on one machine, {THREADS} cores", loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, default=SCENARIOS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full sizes")
    parser.add_argument("--work", type=Path, default=ROOT / ".cache" / "bench")
    parser.add_argument("--name", default="sort", help="name of the files under bench/results")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.work, arguments.rounds, arguments.scale)
    results = {}
    for name in arguments.only:
        print(f"{name}: {getattr(bench, name).__doc__}", flush=True)
        if reason := missing(name):
            print(f"  left out: {reason}", flush=True)
            continue
        results[name] = getattr(bench, name)()
    RESULTS.mkdir(parents=True, exist_ok=True)
    today = datetime.date.today().isoformat()
    raw = {
        "date": today,
        "cores": THREADS,
        "machine": platform.machine(),
        "kernel": platform.release(),
        "scale": arguments.scale,
        "results": results,
    }
    (RESULTS / f"{today}-{arguments.name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    plot(results, RESULTS / f"{today}-{arguments.name}.png")
    print("\n" + table_of(results))


if __name__ == "__main__":
    main()
