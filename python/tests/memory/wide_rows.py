"""Flows of large values under small budgets: the peak memory of every process.

    python wide_rows.py             runs all cases, a line for each
    python wide_rows.py sort 1MB    those whose names have these words

A case runs in a process of its own (`one`), which is measured from outside: the kernel records each
process's peak resident memory (`VmHWM`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20
SLACK = 64 * MIB
"""Unaccounted memory of a process, beyond a tenth of the budget."""


@dataclass(frozen=True)
class Case:
    """A flow over rows of one size."""

    what: str
    bytes: int
    rows: int
    kind: str = "shared"
    memory: int = 128 * MIB
    cluster: str = ""

    def __str__(self) -> str:
        size = f"{self.bytes // 1000}kB" if self.bytes < 1_000_000 else f"{self.bytes // 10**6}MB"
        where = self.cluster or "here"
        return f"{self.what} {size} x {self.rows} {self.kind} {self.memory // MIB}MiB {where}"


def column(case: Case, seed: int = 0) -> Any:
    """Texts of a case: with a common prefix, without one, or with one prefix per group."""
    import pyarrow as pa

    def text(row: int) -> bytes:
        number = (row * 7919 + seed) % case.rows
        ends = b"%012d" % number
        if case.kind == "equal":
            ends = b"%012d" % (number % 3)
        begin = {
            "shared": b"",
            "equal": b"",
            "distinct": ends,
            "groups": b"%04d" % (number % 7),
            "list": b"",
            "binary": b"\xff\x00",
        }[case.kind]
        return begin + b"x" * (case.bytes - len(begin) - len(ends)) + ends

    texts = [text(row) for row in range(case.rows)]
    if case.kind == "binary":
        return pa.array(texts, pa.binary())
    strings = pa.array([value.decode() for value in texts])
    if case.kind == "list":
        step = case.bytes // 4
        lists = [[value[at : at + step] for at in range(0, case.bytes, step)] for value in texts]
        strings = pa.array([[part.decode() for part in parts] for parts in lists])
    return strings


def inputs(case: Case, folder: Path) -> list[Path]:
    """Files of the case's rows, a few rows each, so that writing them needs little memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = []
    for seed, name in [(0, "left"), (1, "right")]:
        file = folder / f"{name}.parquet"
        values = column(case, seed)
        table = pa.table({"n": pa.array(range(case.rows)), "s": values})
        pq.write_table(
            table,
            file,
            row_group_size=max(1, 4_000_000 // case.bytes),
            use_dictionary=False,
            write_statistics=False,
            compression="NONE",
        )
        files.append(file)
    return files


def flow(case: Case, files: list[str], out: str) -> Any:
    """The modules of a case."""
    import euphrates as eu

    made = eu.Flow("wide")
    left = made.place(eu.scan(files[0]))
    what, _, option = case.what.partition(":")
    if what == "sort":
        by = {"": ["s"], "desc": ["s desc"], "several": ["s", "n"], "payload": ["n desc"]}[option]
        made.chain(left, eu.sort(by), eu.save(out))
    elif what == "save":
        made.chain(left, eu.save(f"{out}.{option}"))
    elif what == "limit":
        made.chain(left, eu.limit(10), eu.save(out))
    elif what == "union":
        union = made.chain(left, eu.union())
        made.attach(made.place(eu.scan(files[1])), union)
        made.chain(union, eu.save(out))
    elif what == "join":
        join = made.place(eu.join(["s" if option == "key" else "n"]))
        made.attach(left, join, input="left")
        made.attach(made.place(eu.scan(files[1])), join, input="right")
        made.chain(join, eu.save(out))
    elif what == "merge":
        merge = made.chain(left, eu.sort(["s"]), eu.merge(["s"]))
        made.attach(made.chain(eu.scan(files[1]), eu.sort(["s"])), merge)
        made.chain(merge, eu.save(out))
    elif what == "group":
        values = {"rows": "count()", "least": "min(n)"}
        made.chain(left, eu.aggregate(["s"], values=values), eu.save(out))
    elif what == "values":
        values = {"least": "min(s)", "most": "max(s)"}
        made.chain(left, eu.aggregate(["n"] if option else [], values=values), eu.save(out))
    elif what == "distinct":
        made.chain(left, eu.aggregate([], values={"s": "count(distinct s)"}), eu.save(out))
    else:
        raise ValueError(case.what)
    return made


def one(case: Case, files: list[str], out: str) -> None:
    """Runs a case in this process."""
    options: dict[str, Any] = {"memory": case.memory, "cores": 2, "progress": False}
    if case.cluster:
        options["cluster"] = case.cluster
    flow(case, files, out).go(**options)


@dataclass
class Outcome:
    """The outcome of a case."""

    peak: int
    seconds: float
    error: str
    rows: int


def run(case: Case, files: list[Path], folder: Path) -> Outcome:
    """Runs a case in a process of its own, and measures all processes that it starts."""
    out = folder / f"out{len(os.listdir(folder))}.arrow"
    told = json.dumps({**case.__dict__})
    command = [sys.executable, __file__, "--one", told, str(out), *map(str, files)]
    environment = {**os.environ, "EUPHRATES_HOME": str(folder / "home")}
    began = time.monotonic()
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    peaks: dict[int, int] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            for pid in family(child.pid):
                peaks[pid] = max(peaks.get(pid, 0), high_water(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, error = child.communicate()
    ended.set()
    watcher.join()
    lines = [line for line in error.splitlines() if line.strip()]
    return Outcome(
        max(peaks.values(), default=0),
        time.monotonic() - began,
        " | ".join(lines[-3:]) if child.returncode else "",
        0,
    )


def family(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children = Path(f"/proc/{pid}/task/{task}/children").read_text()
            for child in children.split():
                yield from family(int(child))
    except OSError:
        return


def high_water(pid: int) -> int:
    """The peak resident memory of a process."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def allowed(case: Case) -> int:
    """The memory limit of a process of a case, in bytes."""
    return case.memory * 11 // 10 + SLACK


OPERATORS = [
    "sort",
    "sort:desc",
    "sort:several",
    "sort:payload",
    "join:key",
    "join:n",
    "group",
    "values",
    "values:n",
    "distinct",
    "limit",
    "union",
    "merge",
    "save:parquet",
    "save:arrow",
    "save:csv",
    "save:jsonl",
]


def cases() -> Iterator[Case]:
    """All cases."""
    for size, rows in [(10_000, 40_000), (1_000_000, 400), (10_000_000, 40)]:
        for what in OPERATORS:
            for cluster in ["", "processes:2"]:
                kinds = ["shared", "distinct", "equal", "groups", "binary", "list"]
                for kind in kinds:
                    if kind == "list" and what in {"save:csv", "join:key", "values", "values:n"}:
                        continue
                    if kind == "binary" and what in {"save:csv", "save:jsonl"}:
                        continue
                    yield Case(what, size, rows, kind, 128 * MIB, cluster)
    for what in ["sort", "sort:payload"]:
        for memory in [128 * MIB, 512 * MIB]:
            yield Case(what, 1_000_000, 1000, "shared", memory)


def main() -> None:
    """Runs the cases whose names contain all of these words."""
    if sys.argv[1:2] == ["--one"]:
        told, out, *files = sys.argv[2:]
        return one(Case(**json.loads(told)), files, out)
    words = sys.argv[1:]
    made: dict[tuple, list[Path]] = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("WIDE_FOLDER")) as name:
        for number, case in enumerate(cases()):
            if not all(word in str(case).split() for word in words):
                continue
            folder = Path(name) / str(number)
            folder.mkdir()
            key = (case.bytes, case.rows, case.kind)
            if key not in made:
                for files in made.values():
                    for file in files:
                        file.unlink()
                made.clear()
                source = Path(name) / f"in{number}"
                source.mkdir()
                made[key] = inputs(case, source)
            outcome = run(case, made[key], folder)
            shutil.rmtree(folder)
            verdict = "FAILED" if outcome.error else "ok"
            if outcome.peak > allowed(case):
                verdict = "LARGE " + verdict
            print(
                f"{verdict:12} {outcome.peak / MIB:7.0f} MiB {outcome.seconds:6.1f} s  {case}"
                f"  {outcome.error[:200]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
