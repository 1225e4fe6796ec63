"""Measures cells: makes their tables, runs all engines in turns, and compares their outputs."""

from __future__ import annotations

import argparse
import bisect
import datetime
import json
import multiprocessing
import os
import platform
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.shapes import compare, plot, tables
from bench.shapes.cells import Cell
from bench.shapes.engines import NAMES
from bench.shapes.sampled import all_cells
from bench.shapes.summary import summary, told

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
OURS = "Euphrates"
THREADS = 2
SEED = 2026
QUICK_CELLS = 90
QUICK_REPEATS = 3
REPEATS = 5
TIMES_FASTEST = 10
SECONDS_MIN = 60
SECONDS_MAX = 600
"""The limit of a run while no engine has finished the cell."""
PEER_ROOM = 1.5
"""A peer may use this much of the limit, beyond what it takes before the run."""
MEMORY_MIN = 32 << 20
ERROR_CHARACTERS = 1000
REASON_CHARACTERS = 160


def main() -> None:
    options = arguments()
    # Ends like any program, so that no process of it is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    chosen = choose(options)
    if options.list:
        for cell in chosen:
            print(f"{cell.name}  ({cell.bytes / 1e6:.0f} MB)")
        return
    print(f"{len(chosen)} cells, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as made:
        work = options.work or Path(made)
        work.mkdir(parents=True, exist_ok=True)
        results = measure_all(chosen, work, options)
    print(told(summary(results)))
    if options.keep:
        RESULTS.mkdir(parents=True, exist_ok=True)
        name = "shapes-memory" if options.memory_fraction else "shapes"
        target = RESULTS / f"{datetime.date.today().isoformat()}-{name}.json"
        store(results, target, options)
        plot.draw(results, target.with_suffix(".png"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.shapes", description="Compares engines.")
    parser.add_argument("--list", action="store_true", help="name the cells")
    parser.add_argument("--only", default="", help="cells whose names have this expression")
    parser.add_argument("--quick", action="store_true", help="a sample, of about an hour")
    parser.add_argument("--repeats", type=int, help=f"{REPEATS}, or {QUICK_REPEATS} with --quick")
    parser.add_argument("--rows-scale", type=float, default=1.0, help="part of the full sizes")
    parser.add_argument("--engines", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--memory-fraction", type=float, default=0.0, help="of the table's bytes")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sampled cells")
    parser.add_argument("--work", type=Path, help="the folder of the tables; a temporary one")
    parser.add_argument("--output", type=Path, help="raw results, written after every cell")
    parser.add_argument("--keep", action="store_true", help="raw results in bench/results")
    return parser.parse_args()


def choose(options: argparse.Namespace) -> list[Cell]:
    """The cells of these options; those of one table follow each other."""
    chosen = [cell for cell in all_cells(options.seed) if re.search(options.only, cell.name)]
    if options.quick and len(chosen) > QUICK_CELLS:
        chosen = quick(chosen, options.seed)
    chosen = [cell.scaled(options.rows_scale) for cell in chosen]
    if options.memory_fraction:
        chosen = [cell for cell in chosen if cell.bytes > budget(cell, options)]
    first = {cell.tables: at for at, cell in reversed([*enumerate(chosen)])}
    return sorted(chosen, key=lambda cell: first[cell.tables])


def quick(every: list[Cell], seed: int) -> list[Cell]:
    """The listed cells, and a sample of the others."""
    others = [cell for cell in every if "/listed/" not in cell.name]
    count = QUICK_CELLS - (len(every) - len(others))
    drawn = {cell.name for cell in random.Random(seed).sample(others, count)}
    return [cell for cell in every if cell.name in drawn or "/listed/" in cell.name]


def budget(cell: Cell, options: argparse.Namespace) -> int:
    """The memory of a run in bytes; 0 if there is no limit."""
    part = options.memory_fraction
    return max(MEMORY_MIN, int(part * cell.bytes)) if part else 0


def measure_all(
    chosen: list[Cell], work: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The results in the order of `all_cells`."""
    results: list[dict[str, Any]] = []
    places = {cell.name: at for at, cell in enumerate(all_cells(options.seed))}
    for at, cell in enumerate(chosen):
        print(f"{at + 1}/{len(chosen)} {cell.name}", flush=True)
        try:
            result = measure(cell, work, options)
            print(f"    {line(result)}", flush=True)
            bisect.insort(results, result, key=lambda one: places[one["cell"]])
        except Exception:
            # An error of the benchmark, or no space left: the other cells are measured.
            traceback.print_exc()
        upcoming = chosen[at + 1].tables if at + 1 < len(chosen) else ()
        for table in {*cell.tables} - {*upcoming}:
            (work / table.file).unlink(missing_ok=True)
        if options.output:
            store(results, options.output, options)
    return results


def measure(cell: Cell, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Runs all engines in turns; the result of each, and the ratio to the fastest peer."""
    job = job_of(cell, work, options)
    with helper() as maker:
        for path in maker.map(tables.ensure, cell.tables, [work] * len(cell.tables)):
            tables.read_once(path)
    with helper() as checker:
        runs = run_all(job, checker, options)
    engines = {name: outcome(one) for name, one in runs.items()}
    rows, bytes_ = sum(table.rows for table in cell.tables), cell.bytes
    return {
        "cell": cell.name,
        "rows": rows,
        "bytes": bytes_,
        "budget_bytes": job["memory"],
        **ratio(engines, job["memory"]),
        "engines": engines,
    }


def run_all(
    job: dict[str, Any], checker: ProcessPoolExecutor, options: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    """The runs of each engine; the first of each says how its output differs."""
    wanted = checker.submit(compare.expected, job).result()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in options.engines}
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    for number in range(repeats):
        for name in turned(options.engines, number):
            if not any("failed" in one for one in runs[name]):
                runs[name].append(once(name, job, limit(runs)))
                if number == 0 and "failed" not in runs[name][0]:
                    found = checker.submit(compare.difference, job, wanted)
                    runs[name][0]["differs"] = found.result()
                Path(job["output"]).unlink(missing_ok=True)
    return runs


def job_of(cell: Cell, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    job = cell.job()
    for input_ in job["inputs"]:
        input_["path"] = str(work / input_.pop("file"))
    return job | {
        "output": str(work / f"output{tables.SUFFIXES[cell.output]}"),
        "scratch": str(work / "scratch"),
        "threads": THREADS,
        "memory": budget(cell, options),
    }


def helper() -> ProcessPoolExecutor:
    """A process of its own: its memory is free afterwards."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def turned(names: list[str], by: int) -> list[str]:
    at = by % len(names)
    return names[at:] + names[:at]


def limit(runs: dict[str, list[dict[str, Any]]]) -> float:
    """The seconds after which a run is stopped."""
    took = [one["seconds"] for some in runs.values() for one in some if "failed" not in one]
    return max(SECONDS_MIN, TIMES_FASTEST * min(took)) if took else SECONDS_MAX


def once(name: str, job: dict[str, Any], seconds_max: float) -> dict[str, Any]:
    """Runs an engine in a process; its seconds and peak memory, or why it failed."""
    scratch = Path(job["scratch"])
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, "-m", f"bench.shapes.engines.{NAMES[name]}", json.dumps(job)]
    environment = {**os.environ, "POLARS_MAX_THREADS": str(job["threads"])}
    environment |= {"POLARS_TEMP_DIR": str(scratch), "TMPDIR": str(scratch)}
    # Installed packages have their bytecode; that of this one is written by its first run.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        return {"failed": f"took longer than {seconds_max:.0f} s"}
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        shutil.rmtree(scratch, ignore_errors=True)
    if process.returncode != 0:
        return {"failed": f"status {process.returncode}: {err.strip()[-ERROR_CHARACTERS:]}"}
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer


def outcome(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of an engine, and what was found of its output."""
    failed = [one["failed"] for one in runs if "failed" in one]
    if failed:
        return {"failed": failed[0], "runs": runs}
    took = sorted(one["seconds"] for one in runs)
    median = statistics.median(took)
    return {
        "seconds": median,
        "spread": (took[-1] - took[0]) / median,
        "peak_bytes": max(one["peak_bytes"] for one in runs),
        "used_bytes": max(one["peak_bytes"] - one["rest_bytes"] for one in runs),
        "differs": runs[0]["differs"],
        "runs": runs,
    }


def ratio(engines: dict[str, dict[str, Any]], budget_bytes: int) -> dict[str, Any]:
    """The fastest peer with a right result that keeps the limit, and its seconds over ours."""
    good = {
        name: one["seconds"] for name, one in engines.items() if not one.get("differs", "failed")
    }
    keeps = {name for name in good if keeps_limit(engines[name], budget_bytes)}
    peers = {name: seconds for name, seconds in good.items() if name != OURS and name in keeps}
    fastest = min(peers, key=lambda name: peers[name]) if peers else None
    known = peers[fastest] / good[OURS] if fastest and OURS in good else None
    return {"fastest": fastest, "ratio": known}


def keeps_limit(engine: dict[str, Any], budget_bytes: int) -> bool:
    """Whether a run used little more than the limit, if there is one; Polars knows none."""
    return not budget_bytes or engine["used_bytes"] <= PEER_ROOM * budget_bytes


def line(result: dict[str, Any]) -> str:
    """A cell's result in one line."""
    parts = []
    for name, one in result["engines"].items():
        if "failed" in one:
            parts.append(f"{name} failed: {reason(one['failed'])}")
        else:
            wrong = f" WRONG: {one['differs']}" if one["differs"] else ""
            over = "" if keeps_limit(one, result["budget_bytes"]) else " over the limit"
            parts.append(f"{name} {one['seconds']:.3f} s{wrong}{over}")
    own = f"{result['ratio']:.2f}" if result["ratio"] else "none"
    return f"{'; '.join(parts)}; ratio {own}"


def reason(failed: str) -> str:
    """The line of an error message that names the error, or else the last one."""
    lines = failed.splitlines()
    return [lines[-1], *(text for text in lines if "Error" in text)][-1][:REASON_CHARACTERS]


def store(results: list[dict[str, Any]], path: Path, options: argparse.Namespace) -> None:
    raw = {
        "date": datetime.date.today().isoformat(),
        "cores": os.cpu_count(),
        "threads": THREADS,
        "machine": platform.machine(),
        "kernel": platform.release(),
        "versions": {name: metadata.version(package) for name, package in NAMES.items()},
        "scale": options.rows_scale,
        "seed": options.seed,
        "memory_fraction": options.memory_fraction,
        "summary": summary(results),
        "results": results,
    }
    path.write_text(json.dumps(raw, indent=1) + "\n")
