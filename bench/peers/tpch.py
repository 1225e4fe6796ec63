"""Shared by the comparisons on TPC-H: the tables, a timed run, and the stored results."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

from sort import RESULTS, THREADS, run

PIECE_BYTES = 16 << 20


def arguments(description: str, engines: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=0, help="bytes that each may use")
    parser.add_argument("--only", nargs="*", default=engines)
    parser.add_argument("--work", type=Path, default=Path("/tmp/euphrates-bench"))
    parser.add_argument("--keep", action="store_true", help="keep the raw result")
    return parser


def table(name: str, work: Path, scale: float) -> Path:
    """A table as a Parquet file, made on first use, and read into the page cache."""
    path = work / f"{name}-{scale:g}.parquet"
    if not path.exists():
        make = (
            "import euphrates as eu\n"
            "flow = eu.Flow('make')\n"
            f"target = eu.save({str(path)!r}, compression='none')\n"
            f"flow.chain(eu.generate({name!r}, scale={scale}), target)\n"
            f"flow.go(home={str(work / 'home')!r})"
        )
        made = run([sys.executable, "-c", make])
        if "failed" in made:
            raise SystemExit(made["failed"])
    with path.open("rb") as file:
        while file.read(PIECE_BYTES):
            pass
    return path


def timed(script: str, values: dict[str, Any]) -> dict:
    """Runs a script with these values; the script sets `start` after its imports."""
    head = "import time\n" + "".join(f"{key} = {value!r}\n" for key, value in values.items())
    tail = "\nprint(f'seconds={time.perf_counter() - start}')"
    return run([sys.executable, "-c", head + script + tail])


def medians(results: dict[str, list[dict]]) -> dict[str, float | None]:
    """The median seconds of each engine; None if no run succeeded."""
    good = {
        name: [one["seconds"] for one in runs if "failed" not in one]
        for name, runs in results.items()
    }
    return {name: statistics.median(took) if took else None for name, took in good.items()}


def keep(name: str, results: dict, scale: float) -> None:
    day = datetime.date.today().isoformat()
    where = {"cores": THREADS, "machine": platform.machine(), "kernel": platform.release()}
    raw = {"date": day, **where, "scale": scale, "results": results}
    (RESULTS / f"{day}-{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
