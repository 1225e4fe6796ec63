"""The same sort and join on four workers, healthy and with one slow: Euphrates, Ray Data, Daft,
Dask.

    .venv/bin/python bench/peers/unequal.py             # everything, three rounds
    .venv/bin/python bench/peers/unequal.py --records 400000 --rounds 1 --only Euphrates Dask

A worker is a host of the rig with 0.4 of a processor, so that two processors carry all four and
leave capacity for the coordinators (Ray's head, Dask's scheduler, Euphrates' master), which run
outside the hosts without a limit. A slow worker has a quarter, or a tenth, of that. Links have no
limit, and the file system is shared. Daft's own runner is a single process; so it runs on Ray, one
node per host.

Tables are Parquet, in enough files for each system to divide them as it likes; `unequal_works.py`
defines their content. Each system writes its output in any number of parts, uncompressed: the peers
Parquet files, Euphrates a collection with a segment on each worker. Every output is read again and
checked.

A cluster is started and warmed up by a small piece of work, without processor limits
(`start_seconds` covers both). Then it is limited, and does the work while all workers are healthy,
and while one is slow; a run beyond `LIMIT_SECONDS` is stopped, and counts with that. The systems
take turns, and results are medians.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drivers.serving import ANSWER
from unequal_works import FILES, WORKS, parquet, source

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
import rig  # noqa: E402  (it is used from the top of the tree, and not installed)

RESULTS = ROOT / "bench" / "results"
DRIVERS = Path(__file__).parent / "drivers"
WORKERS = 4
CPU = 0.4
SLOW = 2
"""The number of the slow worker."""
CONDITIONS = {"healthy": 1, "4x slower": 4, "10x slower": 10}
RECORDS = 4_000_000
WARM_RECORDS = 64_000
OBJECT_STORE = "1GB"
RAY_SETTINGS = {"idle_worker_killing_time_threshold_ms": 3_600_000, "num_workers_soft_limit": 8}
"""Idle workers are kept: starting one takes as long as sorting."""
LIMIT_SECONDS = 120
THROUGHPUT_MIN = 3.0
COLOURS = {"Euphrates": "#1f6feb", "Ray Data": "#e3a008", "Daft": "#6e7781", "Dask": "#b35900"}

Making = contextlib.AbstractContextManager[list[str]]


# --- systems: each makes a cluster on the hosts, and returns its driver's command
# ---------------------


@contextlib.contextmanager
def on_ray(driver: str, hosts: rig.Hosts) -> Iterator[list[str]]:
    own: dict[str, Any] = {"outside_head": True, "object_store": OBJECT_STORE}
    with rig.RayCluster(hosts, settings=RAY_SETTINGS, **own) as cluster:
        yield driving(driver, cluster.driver())


def ray_data(hosts: rig.Hosts, folder: Path) -> Making:
    return on_ray("ray_data", hosts)


def daft(hosts: rig.Hosts, folder: Path) -> Making:
    return on_ray("daft_on_ray", hosts)


@contextlib.contextmanager
def dask(hosts: rig.Hosts, folder: Path) -> Iterator[list[str]]:
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    address = ["--host", hosts.outside, "--port", "0", "--no-dashboard"]
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler", *address]
    with ended(subprocess.Popen([*words, "--scheduler-file", str(file)], **quiet)):
        for host in hosts:
            own = ["--host", host.address, "--local-directory", str(folder / host.name)]
            one = ["--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0"]
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", *own, *one]
            host.start([*worker, "--scheduler-file", str(file)], **quiet)
        yield driving("dask_distributed", {"scheduler_file": str(file), "workers": WORKERS})


@contextlib.contextmanager
def ours(hosts: rig.Hosts, folder: Path) -> Iterator[list[str]]:
    token, address = folder / "token", f"{hosts.outside}:7433"
    euphrates = [sys.executable, "-m", "euphrates"]
    subprocess.run([*euphrates, "token", token], check=True)
    for host in hosts:
        words = ["worker", "--join", address, "--token-file", token, "--cores", "1"]
        listen = ["--listen", f"{host.address}:0", "--name", host.name]
        host.start([*euphrates, *words, *listen], stderr=subprocess.DEVNULL)
    names = [host.name for host in hosts]
    yield driving("ours", {"address": address, "token_file": str(token), "workers": names})


def driving(driver: str, told: dict[str, Any]) -> list[str]:
    return [sys.executable, str(DRIVERS / f"{driver}.py"), json.dumps(told)]


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """Ends a program on exit of the `with`."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


SYSTEMS: dict[str, Callable[[rig.Hosts, Path], Making]] = {
    "Euphrates": ours,
    "Ray Data": ray_data,
    "Daft": daft,
    "Dask": dask,
}


class Running:
    """A system's cluster on hosts of its own, with a driver that waits for work."""

    def __init__(self, kind: str, name: str, warm: Path, work: Path) -> None:
        self.made = contextlib.ExitStack()
        began = time.perf_counter()
        with contextlib.ExitStack() as made:
            # Killed programs may still be writing there.
            own = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            folder = Path(made.enter_context(own))
            self.hosts = made.enter_context(rig.Hosts(WORKERS, cpu_quota=os.cpu_count() or 1))
            command = made.enter_context(SYSTEMS[name](self.hosts, folder))
            log = made.enter_context(open(work / f"{name}.log", "w"))
            driver = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
            self.driver = made.enter_context(ended(driver))
            self.said = b""
            self.answer()
            self.made = made.pop_all()
        told = self.ask(kind, str(warm), work / "warm")
        self.start_seconds = time.perf_counter() - began
        for host in self.hosts:
            host.cpu.set_quota(CPU)
        if "seconds" not in told:
            raise SystemExit(f"{name} cannot {kind}: {told}")

    def ask(self, work: str, source: str, target: Path) -> dict[str, Any]:
        """Executes a piece of work, which creates `target`."""
        shutil.rmtree(target, ignore_errors=True)
        asked = {"work": work, "source": source, "target": str(target)}
        assert self.driver.stdin is not None
        self.driver.stdin.write((json.dumps(asked) + "\n").encode())
        self.driver.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next answer; other output of libraries is skipped."""
        assert self.driver.stdout is not None
        until = time.monotonic() + LIMIT_SECONDS
        while (left := until - time.monotonic()) > 0:
            line, found, rest = self.said.partition(b"\n")
            if found:
                self.said = rest
                text = line.decode(errors="replace")
                if ANSWER in text:
                    told: dict[str, Any] = json.loads(text.split(ANSWER, 1)[1])
                    return told
            elif select.select([self.driver.stdout], [], [], left)[0]:
                more = os.read(self.driver.stdout.fileno(), 65536)
                if not more:
                    raise SystemExit(f"a driver ended: {self.driver.args}")
                self.said += more
        return {"over_seconds": LIMIT_SECONDS}

    def end(self) -> None:
        self.made.close()


# --- measuring ------------------------------------------------------------------------------------


def measured(work: str, options: argparse.Namespace) -> dict[str, Any]:
    """All runs of a kind of work: system, condition, run."""
    read = source(work, options.work, options.records)
    warm = source(work, options.work, WARM_RECORDS)
    bytes_ = sum(file.stat().st_size for file in parquet(read))
    systems: dict[str, Any] = {
        name: {"start_seconds": [], "runs": {condition: [] for condition in CONDITIONS}}
        for name in options.only
    }
    for number in range(options.rounds):
        for name in options.only:
            one_round(work, name, (read, warm), options, systems[name])
            print(f"  round {number + 1} of {options.rounds}: {name} is through", flush=True)
    results = {"bytes": bytes_, "records": options.records, "systems": systems}
    summary(results)
    return results


def one_round(
    work: str,
    name: str,
    sources: tuple[Path, Path],
    options: argparse.Namespace,
    found: dict[str, Any],
) -> None:
    """All conditions, on one cluster unless one of them exceeds the limit."""
    read, warm = sources
    running: Running | None = None
    target = options.work / "target"
    try:
        for condition, slower in CONDITIONS.items():
            if running is None:
                running = Running(work, name, warm, options.work)
                found["start_seconds"].append(running.start_seconds)
            with running.hosts[SLOW].slow_cpu(CPU / slower):
                told = running.ask(work, str(read), target)
            if "seconds" in told:
                told["parts"] = WORKS[work].check(name, target, read)
            else:
                running.end()
                running = None
            found["runs"][condition].append(told)
            print(f"    {name}, {condition}: {told}", flush=True)
    finally:
        if running is not None:
            running.end()
        shutil.rmtree(target, ignore_errors=True)


def summary(results: dict[str, Any]) -> None:
    """Adds medians: seconds, and bytes a second; a run beyond the limit counts with the limit."""
    for system in results["systems"].values():
        system["start"] = statistics.median(system["start_seconds"])
        system["median"] = {}
        for condition, runs in system["runs"].items():
            took = [one.get("seconds", LIMIT_SECONDS) for one in runs]
            seconds = statistics.median(took)
            system["median"][condition] = {
                "seconds": seconds,
                "bytes_per_second": results["bytes"] / seconds,
            }


def claims(works: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    for work, results in works.items():
        systems = results["systems"]
        for condition in CONDITIONS:
            rates = {
                name: one["median"][condition]["bytes_per_second"] for name, one in systems.items()
            }
            mine = rates.pop("Euphrates", None)
            if mine is None:
                continue
            least = THROUGHPUT_MIN if condition == "10x slower" else 1.0
            for name, rate in rates.items():
                told = f"{work}, {condition}: {mine / rate:.1f} times the throughput of {name}"
                yield f"{told} (at least {least:g})", mine >= least * rate


def draw(works: dict[str, Any], path: Path) -> None:
    """A row per kind of work: throughput, and the remaining fraction of it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (9.5, 4.2 * len(works))
    drawing, rows = plt.subplots(len(works), 2, figsize=size, squeeze=False)
    for (work, results), (left, right) in zip(works.items(), rows):
        draw_rates(left, results["systems"])
        draw_kept(right, results["systems"])
        left.set_title(f"{work}, {results['bytes'] / 1e6:.0f} MB", loc="left", fontsize="medium")
    for axis in rows.flat:
        axis.set_xlabel("one of four workers")
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    title = f"Four workers of {CPU} processors, one of them slow"
    drawing.suptitle(title, x=0.01, ha="left", fontsize=11)
    drawing.tight_layout()
    drawing.savefig(path, dpi=120)
    plt.close(drawing)


def draw_rates(axis: Any, systems: dict[str, Any]) -> None:
    width = 0.8 / len(systems)
    for at, (name, one) in enumerate(systems.items()):
        places = [spot + (at - (len(systems) - 1) / 2) * width for spot in range(len(CONDITIONS))]
        rates = [median["bytes_per_second"] / 1e6 for median in one["median"].values()]
        bars = axis.bar(places, rates, width=width * 0.92, color=COLOURS[name], label=name)
        axis.bar_label(bars, [f"{rate:.3g}" for rate in rates], fontsize="x-small", padding=2)
    axis.set_xticks(range(len(CONDITIONS)), list(CONDITIONS))
    axis.set_ylabel("MB a second")
    axis.legend(frameon=False)


def draw_kept(axis: Any, systems: dict[str, Any]) -> None:
    for name, one in systems.items():
        rates = [median["bytes_per_second"] for median in one["median"].values()]
        kept = [rate / rates[0] * 100 for rate in rates]
        axis.plot(list(CONDITIONS), kept, color=COLOURS[name], marker="o", label=name)
    ideal = [(WORKERS - 1 + 1 / slower) / WORKERS * 100 for slower in CONDITIONS.values()]
    looks = {"color": "#57606a", "linestyle": ":", "label": "what is left of the four"}
    axis.plot(list(CONDITIONS), ideal, **looks)
    axis.set_ylim(0, 108)
    axis.set_ylabel("% of its own healthy throughput")
    axis.legend(frameon=False, loc="lower left", fontsize="small")


def main() -> None:
    options = arguments()
    if reason := rig.missing("hosts", "cpus"):
        print(f"skipped: {reason}")
        return
    options.work.mkdir(parents=True, exist_ok=True)
    results = {work: measured(work, options) for work in options.works}
    checked = [{"claim": claim, "holds": holds} for claim, holds in claims(results)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    today = datetime.date.today().isoformat()
    raw = {
        "date": today,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "workers": WORKERS,
        "cpu_of_each": CPU,
        "claims": checked,
        "results": results,
    }
    (RESULTS / f"{today}-{options.name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    draw(results, RESULTS / f"{today}-{options.name}.png")
    for one in checked:
        print(f"  {'holds' if one['holds'] else 'FAILS'}: {one['claim']}")
    sys.exit(0 if all(one["holds"] for one in checked) else 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--works", nargs="*", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--records", type=int, default=RECORDS, help="of 100 bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=ROOT / ".cache" / "bench")
    parser.add_argument("--name", default="unequal", help="name of the files under bench/results")
    options = parser.parse_args()
    options.records -= options.records % FILES
    return options


if __name__ == "__main__":
    main()
