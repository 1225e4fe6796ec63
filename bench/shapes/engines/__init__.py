"""The engines: each file is a program that runs one job and prints what it took.

The job comes as JSON on the command line: the task (`sort`, `group`, `join` or `scan`) with its
fields, `inputs` and `output` with their formats, `threads`, `memory` (0 for no limit), and
`scratch`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

NAMES = {"Euphrates": "euphrates", "DuckDB": "duckdb", "Polars": "polars",
         "DataFusion": "datafusion"}  # fmt: skip
"""Engines, and their files."""

Job = dict[str, Any]
Session = TypeVar("Session")


def compression(job: Job) -> str:
    return "zstd" if job["format"] == "zstd" else "none"


def main(opened: Callable[[Job], Session], run: Callable[[Session, Job], None]) -> None:
    """Runs the job of the command line; its time includes reading and writing, not imports."""
    job = json.loads(sys.argv[1])
    session = opened(job)
    rest_bytes = status_bytes("VmRSS")
    began = time.perf_counter()
    run(session, job)
    seconds = time.perf_counter() - began
    peak_bytes = status_bytes("VmHWM")
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes, "rest_bytes": rest_bytes}))


def status_bytes(name: str) -> int:
    """A figure of this process's memory, as the kernel names it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"the kernel does not tell {name}")
