"""Kills a worker at random moments, repeatedly, while flows of several kinds run.

Every run must end with the right outputs, or with a typed error and the previous outputs. Nothing
may be left: no process, and after `gc` no file on a disk, in the home, among the outputs or in the
temporary folder. Four kinds of flow take turns: a sort with one output; user code and a sort to a
mirrored collection; and user code with three outputs (file, mirrored collection, JSON) on disks
that all workers see, and on disks of two workers, which the output requires. The cost of a death is
measured against runs without one.

python bench/torture/kill_workers.py --kills 300 --records 1000000
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "python" / "tests"
sys.path[:0] = [str(ROOT), str(TESTS / "durability"), str(TESTS / "support")]

import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402

import euphrates as eu  # noqa: E402
from crash_sandbox import Sandbox  # noqa: E402

RESULTS = ROOT / "bench" / "results"
WORKERS = 4
# The owners of the disks: all workers see the first two disks.
OWNERS = ("local", "local", "w2", "w3")
SHARED, OWN = ("d0", "d1"), ("d2", "d3")
# An environment variable of every process that a run starts.
TOKEN = "EUPHRATES_TORTURED_RUN"
# The time limit for processes to end after SIGTERM.
END_SECONDS = 20.0
SQUARES = pa.schema({"n": pa.int64(), "square": pa.int64()})


def squared(batch: eu.Batch) -> pa.RecordBatch:
    numbers = pa.record_batch(batch).column("n")
    squares = pc.multiply(numbers, numbers)
    return pa.record_batch([numbers, squares], schema=SQUARES)


def passed(batch: eu.Batch) -> eu.Batch:
    return batch


@dataclass(frozen=True)
class Kind:
    """A flow whose n-th run has its own outputs, and a check of them."""

    name: str
    flow: Callable[[Sandbox, int], eu.Flow]
    wrongs: Callable[[Sandbox, int], list[str]]


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        outcome = torture(Path(folder), options)
    print(json.dumps({**outcome, "runs": f"{len(outcome['runs'])} runs"}, indent=2))
    if options.keep:
        path = RESULTS / f"{date.today().isoformat()}-kill_workers.json"
        path.write_text(json.dumps(outcome, indent=1) + "\n")
    if outcome["wrong"]:
        sys.exit("some runs ended wrongly")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--how", choices=["KILL", "STOP"], default="KILL")
    parser.add_argument("--work", type=Path, help="a folder with room for ten times the records")
    parser.add_argument("--keep", action="store_true", help="write the results")
    return parser.parse_args()


def torture(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    print(f"seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    sandbox = Sandbox(folder, owners=OWNERS)
    sandbox.make()
    # Everything made from here on is below the sandbox.
    os.environ.update(sandbox.environment)
    os.environ.pop("XDG_RUNTIME_DIR", None)
    read_in(sandbox, options.records)
    kinds = kinds_of(options.records)
    calm = {kind.name: [calm_seconds(sandbox, kind, turn) for turn in range(3)] for kind in kinds}
    typical = {name: statistics.median(seconds) for name, seconds in calm.items()}
    allowed, made = listed(sandbox), {kind.name: 2 for kind in kinds}
    runs = []
    for number in range(options.kills):
        kind = kinds[number % len(kinds)]
        moment = chance.uniform(0, typical[kind.name])
        result = run(sandbox, kind, number + 3, (moment, chance.randrange(WORKERS)), options.how)
        if result["error"] is None:
            made[kind.name] = number + 3
        result["left_until_gc"], stays = leavings(sandbox, allowed)
        result["wrong"] += [f"left over: {stays}"] if stays else []
        result["wrong"] += kind.wrongs(sandbox, made[kind.name])
        runs.append(result)
        print(f"{number}: {result}", flush=True)
    costs = [run["seconds"] - typical[run["kind"]] for run in runs if run["losses"]]
    return {
        "seed": options.seed,
        "how": options.how,
        "records": options.records,
        "calm_seconds": calm,
        "recovered": len(costs),
        "errors": sum(run["error"] is not None for run in runs),
        "recovery_seconds_median": statistics.median(costs) if costs else None,
        "recovery_seconds_most": max(costs, default=None),
        "recovery_allowed_seconds": max(typical.values()) / WORKERS + 3,
        "wrong": [run for run in runs if run["wrong"]],
        "runs": runs,
    }


def kinds_of(records: int) -> list[Kind]:
    return [
        Kind("sort", lambda sandbox, turn: sorting("sorted"), lambda sandbox, turn: sorts(sandbox)),
        Kind(
            "mirrored sort of user code",
            lambda sandbox, turn: sorting("mirrored", passed, disks=list(SHARED), copies=2),
            lambda sandbox, turn: sorts(sandbox, "mirrored"),
        ),
        Kind(
            "three outputs of user code",
            lambda sandbox, turn: squaring(sandbox, "shared", records + turn, SHARED),
            lambda sandbox, turn: squares(sandbox, "shared", records + turn),
        ),
        Kind(
            "three outputs on disks of workers",
            lambda sandbox, turn: squaring(sandbox, "own", records + turn, OWN),
            lambda sandbox, turn: squares(sandbox, "own", records + turn),
        ),
    ]


def sorting(output: str, function: Any = None, **how: Any) -> eu.Flow:
    flow = eu.Flow("sort")
    between = [flow.place(eu.map(function))] if function else []
    source = flow.place(eu.read("in"))
    flow.chain(source, *between, eu.sort(["key"]), eu.write(output, overwrite=True, **how))
    return flow


def sorts(sandbox: Sandbox, name: str = "sorted") -> list[str]:
    """The differences that `valsort` finds in a sorted collection."""
    output = sandbox.root / "checked"
    flow = eu.Flow("out")
    flow.chain(eu.read(name, order=True), eu.save(output, format="records", overwrite=True))
    flow.go(progress=False)
    checked = sandbox.euphrates("valsort", output)
    output.unlink()
    return [] if checked.returncode == 0 else [checked.stderr]


def squaring(sandbox: Sandbox, name: str, rows: int, disks: Sequence[str]) -> eu.Flow:
    flow = eu.Flow("squares")
    numbers = flow.place(eu.generate("integers", rows=rows))
    computed, tee = flow.place(eu.map(squared, schema=SQUARES)), flow.place(eu.tee())
    flow.chain(numbers, computed, tee)
    for sink in (
        eu.save(sandbox.out / f"{name}.parquet", overwrite=True),
        eu.write(name, disks=list(disks), copies=2, overwrite=True),
        eu.save(sandbox.out / f"{name}.json", overwrite=True),
    ):
        flow.attach(tee, flow.place(sink))
    return flow


def squares(sandbox: Sandbox, name: str, rows: int) -> list[str]:
    """The differences in the three outputs, each of which has that many numbers."""
    files = [sandbox.out / f"{name}.parquet", sandbox.out / f"{name}.json"]
    sources = {file.name: eu.scan(file) for file in files} | {name: eu.read(name)}
    expected = pa.array(range(rows))
    wrong = []
    for output, source in sources.items():
        flow = eu.Flow("out")
        flow.chain(source, eu.collect())
        found = pa.table(flow.go(progress=False).collected()).sort_by("n").combine_chunks()
        numbers, seen = found["n"].combine_chunks(), found["square"].combine_chunks()
        if not numbers.equals(expected) or not seen.equals(pc.multiply(expected, expected)):
            wrong.append(f"{output} has {len(numbers)} rows, not the {rows} that it should have")
    return wrong


def read_in(sandbox: Sandbox, records: int) -> None:
    sandbox.must("gensort", records, sandbox.root / "records")
    flow = eu.Flow("in")
    flow.chain(eu.scan(sandbox.root / "records", format="records"), eu.write("in"))
    flow.go(progress=False)
    (sandbox.root / "records").unlink()


def calm_seconds(sandbox: Sandbox, kind: Kind, turn: int) -> float:
    result = run(sandbox, kind, turn, None, "KILL")
    assert result["error"] is None, result["error"]
    return float(result["seconds"])


def run(
    sandbox: Sandbox, kind: Kind, turn: int, kill: tuple[float, int] | None, how: str
) -> dict[str, Any]:
    """One run on a cluster of its own, of which one worker dies at a given time."""
    flow = kind.flow(sandbox, turn)
    result: dict[str, Any] = {"kind": kind.name, "kill": kill, "losses": [], "error": None}
    token = os.environ[TOKEN] = f"{os.getpid()}-{turn}-{kind.name}"
    with eu.Cluster.processes(WORKERS) as cluster:
        workers = children()
        timer = None
        if kill is not None:
            moment, number = kill
            timer = threading.Timer(moment, signalled, [workers[number], how])
            timer.start()
        began = time.monotonic()
        try:
            report = flow.go(cluster=cluster, progress=False)
            result["losses"] = [line for line in str(report).splitlines() if "was lost" in line]
        except eu.EuphratesError as error:
            result["error"] = f"{type(error).__name__}: {error}"
        result["seconds"] = time.monotonic() - began
        if timer is not None:
            timer.join()
            if how == "STOP":
                signalled(workers[kill[1]] if kill else 0, "CONT")
    result["wrong"] = [f"process {pid} is left" for pid in ended(token)]
    return result


def leavings(sandbox: Sandbox, allowed: Counter[str]) -> tuple[list[str], list[str]]:
    """The leftover files: at once, and after `gc`."""
    at_once = listed(sandbox) - allowed
    sandbox.must("gc", sandbox.out)
    return sorted(at_once), sorted(listed(sandbox) - allowed)


def listed(sandbox: Sandbox) -> Counter[str]:
    """The number of files of each name. The catalog keeps all versions."""
    found = Counter[str]()
    for name, count in sandbox.listed().items():
        if not re.fullmatch(r"home/catalog/.*/\.v/\d+\.json", name):
            found[re.sub(r"/\.v/\d+\.", "/.v/#.", name)] += count
    return found


def children() -> list[int]:
    """The worker processes of this program by name."""
    found = []
    for pid in processes():
        with contextlib.suppress(OSError):
            parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if int(parent) == os.getpid() and b"worker" in words:
                found.append((words[words.index(b"--name") + 1], pid))
    return [pid for _, pid in sorted(found)]


def ended(token: str) -> list[int]:
    """The processes of a run that do not end."""
    deadline = time.monotonic() + END_SECONDS
    while (left := with_token(token)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def with_token(token: str) -> list[int]:
    found = []
    for pid in processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"{TOKEN}={token}".encode() in words and pid != os.getpid():
                found.append(pid)
    return found


def processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def signalled(pid: int, how: str) -> None:
    """Sends a signal to a worker, unless it has ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, getattr(signal, f"SIG{how}"))


if __name__ == "__main__":
    main()
