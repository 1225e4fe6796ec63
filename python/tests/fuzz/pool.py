"""Runs many cases in child processes that may crash or hang, and attributes each failure.

A child reports each case that it begins and its outcome. If it dies, or is silent for too long, its
current case has failed; a new child replaces it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

SECONDS_MAX = 180
"""Longer than any case takes on a loaded machine."""
HERE = Path(__file__).resolve().parents[1]


@dataclasses.dataclass
class Outcome:
    """The outcome of a case."""

    seed: int
    kind: str
    outcome: str
    """`right`, `refused`, `wrong`, `crashed` or `hung`."""
    why: str

    @property
    def failed(self) -> bool:
        return self.outcome not in ("right", "refused")

    def __str__(self) -> str:
        again = f"cd python/tests && python -m fuzz --seed {self.seed}"
        if self.kind:
            again += f" --kind {self.kind}"
        return f"seed {self.seed} ({self.kind}) {self.outcome}:\n{self.why}\nagain: {again}"


@dataclasses.dataclass
class Summary:
    """The outcomes of all cases."""

    counts: collections.Counter[tuple[str, str]]
    failures: list[Outcome]

    def table(self) -> str:
        """The number of outcomes by kind."""
        ways = sorted({way for _, way in self.counts})
        lines = [f"{'':12}" + "".join(f"{way:>10}" for way in ways)]
        for kind in sorted({kind for kind, _ in self.counts}):
            numbers = "".join(f"{self.counts[kind, way]:>10}" for way in ways)
            lines.append(f"{kind:12}{numbers}")
        return "\n".join(lines)


def run(
    seeds: Iterable[int],
    *,
    kind: str | None = None,
    processes: int = 2,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> Summary:
    """Runs the cases of these seeds."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for seed in seeds:
        waiting.put(seed)
    lock = threading.Lock()
    summary = Summary(collections.Counter(), [])

    def note(outcome: Outcome) -> None:
        with lock:
            summary.counts[outcome.kind, outcome.outcome] += 1
            if outcome.failed:
                summary.failures.append(outcome)
            tell(outcome)

    threads = [
        threading.Thread(target=_serve, args=(waiting, kind, note)) for _ in range(processes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    summary.failures.sort(key=lambda outcome: outcome.seed)
    return summary


def _serve(
    waiting: queue.SimpleQueue[int], kind: str | None, note: Callable[[Outcome], None]
) -> None:
    """Sends cases to a child, and replaces the child when it fails."""
    process: subprocess.Popen[str] | None = None
    try:
        while True:
            try:
                seed = waiting.get_nowait()
            except queue.Empty:
                return
            if process is None:
                process = _started()
            outcome = _asked(process, seed, kind)
            note(outcome)
            if outcome.outcome in ("crashed", "hung"):
                _ended(process)
                process = None
    finally:
        if process is not None:
            _ended(process)


def _started() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "fuzz", "--serve"],
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "RUST_BACKTRACE": "0", "PYTHONPATH": os.pathsep.join(_paths())},
    )


def _paths() -> list[str]:
    """The path on which workers find the functions of cases."""
    return [str(HERE), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _asked(process: subprocess.Popen[str], seed: int, kind: str | None) -> Outcome:
    """Runs one case. A timer kills the child if it is silent for too long."""
    assert process.stdin is not None and process.stdout is not None
    hung = threading.Event()

    def give_up() -> None:
        hung.set()
        process.send_signal(signal.SIGABRT)

    timer = threading.Timer(SECONDS_MAX, give_up)
    timer.start()
    try:
        told = _answer(process.stdin, process.stdout, seed, kind)
    except (BrokenPipeError, EOFError) as error:
        status = process.wait()
        why = f"the process ended with {status}; it wrote:\n{error}"
        return Outcome(seed, kind or "", "hung" if hung.is_set() else "crashed", why)
    finally:
        timer.cancel()
    return Outcome(seed, **told)


def _answer(given: IO[str], answers: IO[str], seed: int, kind: str | None) -> dict[str, Any]:
    given.write(json.dumps({"seed": seed, "kind": kind}) + "\n")
    given.flush()
    besides: collections.deque[str] = collections.deque(maxlen=200)
    for line in answers:
        if line.startswith(_MARK):
            told: dict[str, Any] = json.loads(line[len(_MARK) :])
            return told
        besides.append(line)
    raise EOFError("".join(besides))


def _ended(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
        process.stdin.close()
        process.wait(20)
    # Including the workers of its cluster, if any are left.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_MARK = "@outcome "


def serve() -> None:
    """The child: runs the cases that arrive on standard input."""
    from . import context, run

    for line in sys.stdin:
        asked = json.loads(line)
        outcome = run.run(asked["seed"], asked["kind"])
        print(f"\n{_MARK}{json.dumps(outcome)}", flush=True)
    context.close()
