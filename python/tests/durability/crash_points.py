"""Kinds of commits, and the invariants after a kill or an error at any of their system calls.

A scenario is a command that changes an old state to a new one. It runs repeatedly under
`rig.Syscalls`, each time with a fault at another call. Afterwards the state must be the old or the
new one; after the next start and `euphrates gc`, no file may remain that a fault-free run does not
leave.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import euphrates as eu
import rig
from crash_sandbox import EUPHRATES, NAMES, Sandbox
from rig.faults.syscalls import Call, Run
from s3_server import S3Server

ERRORS = ("EIO", "ENOSPC", "ENOMEM", "EAGAIN")
# Expected exit codes of an error: neither a signal (negative), nor Rust's panic code 101.
TYPED = {1, 2, 3, 4}
# Messages about an output that is visible despite the error.
UNSYNCED = "complete and visible, but may not survive a loss of power"
# Messages about a commit of several outputs that the next start completes.
UNCOMPLETED = "publishes whatever is missing"
OLD, NEW = 1_000, 2_000
ABSENT = "absent"


def save(path: Path | str, **config: Any) -> dict[str, Any]:
    return {"module": "save", "config": {"path": str(path), **config}}


def folder_sink(**config: Any) -> Callable[[Sandbox], dict[str, Any]]:
    def sink(sandbox: Sandbox) -> dict[str, Any]:
        given = {"path": str(sandbox.out / "d"), "file_bytes": 4_000, **config}
        return {"module": "save_dataset", "config": given}

    return sink


def write(name: str, **config: Any) -> dict[str, Any]:
    return {"module": "write", "config": {"collection": name, **config}}


def file_state(path: Path) -> str:
    if not path.exists():
        return ABSENT
    return str(pq.read_table(path).num_rows)


def collection_state(sandbox: Sandbox, name: str) -> str:
    """The number of rows of a collection, all of which are read, or its absence."""
    flow = eu.Flow("state")
    flow.chain(eu.read(name), eu.collect())
    try:
        table = flow.go(home=sandbox.home, progress=False).collected()
    except eu.UsageError as error:
        assert "no collection" in str(error), error
        return ABSENT
    numbers = sorted(table.to_pydict()["n"])
    assert numbers == list(range(len(numbers)))
    return str(len(numbers))


@dataclass(frozen=True)
class Scenario:
    """A command, the states that it changes, and how they are made."""

    name: str
    old: Callable[[Sandbox], None]
    command: Callable[[Sandbox], Sequence[str | Path]]
    state: Callable[[Sandbox], str]
    states: tuple[str, str]
    kinds: tuple[str, ...] = ("rename", "link", "unlink", "fsync", "mkdir")
    folders: tuple[str, ...] = ("out",)
    # Whether one of the outputs is an object.
    has_objects: bool = False
    # The sampling interval over distinct calls for short runs.
    every: int = 1


@dataclass
class Outcome:
    """The outcome at one crash point."""

    point: str
    wrong: list[str] = field(default_factory=list)


def nothing(sandbox: Sandbox) -> None:
    """The old state is empty."""


def run_flow(
    rows: int, *sinks: Callable[[Sandbox], dict[str, Any]], on: tuple[str, ...] = ()
) -> Callable[[Sandbox], list[str]]:
    def command(sandbox: Sandbox) -> list[str]:
        made = sandbox.flow("flow", rows, *(sink(sandbox) for sink in sinks))
        return [EUPHRATES, "run", str(made), *on]

    return command


def before(rows: int, *sinks: Callable[[Sandbox], dict[str, Any]]) -> Callable[[Sandbox], None]:
    def old(sandbox: Sandbox) -> None:
        sandbox.must(*run_flow(rows, *sinks)(sandbox)[1:])

    return old


MIRRORED: dict[str, Any] = {"disks": ["d0", "d1"], "copies": 2}


def file_sink(**config: Any) -> Callable[[Sandbox], dict[str, Any]]:
    return lambda sandbox: save(sandbox.out / "a.parquet", **config)


def sink(name: str, **config: Any) -> Callable[[Sandbox], dict[str, Any]]:
    return lambda sandbox: write(name, **config)


def three(overwrite: bool) -> list[Callable[[Sandbox], dict[str, Any]]]:
    again = {"overwrite": True} if overwrite else {}
    return [file_sink(**again), sink("b", **again), sink("c", **MIRRORED, **again)]


def state_of_three(sandbox: Sandbox) -> str:
    # Reading a collection counts as the next start, which completes a decided commit.
    found = {collection_state(sandbox, name) for name in ("b", "c")}
    found.add(file_state(sandbox.out / "a.parquet"))
    return found.pop() if len(found) == 1 else f"a part of it: {sorted(found)}"


def state_of_two(sandbox: Sandbox) -> str:
    found = {collection_state(sandbox, "b"), file_state(sandbox.out / "a.parquet")}
    return found.pop() if len(found) == 1 else f"a part of it: {sorted(found)}"


def state_of_folder_and_collection(sandbox: Sandbox) -> str:
    found = {collection_state(sandbox, "b"), file_state(sandbox.out / "d")}
    return found.pop() if len(found) == 1 else f"a part of it: {sorted(found)}"


def with_object(overwrite: bool) -> list[Callable[[Sandbox], dict[str, Any]]]:
    again = {"overwrite": True} if overwrite else {}

    def object_sink(sandbox: Sandbox) -> dict[str, Any]:
        assert sandbox.s3 is not None
        return save(sandbox.s3.url("o.parquet"), **again)

    return [file_sink(**again), object_sink, sink("b", **again)]


def state_with_object(sandbox: Sandbox) -> str:
    assert sandbox.s3 is not None
    found = {collection_state(sandbox, "b"), file_state(sandbox.out / "a.parquet")}
    is_there = sandbox.s3.keys() == ["o.parquet"]
    rows = pq.read_table(io.BytesIO(sandbox.s3.get("o.parquet"))).num_rows if is_there else ABSENT
    found.add(str(rows))
    return found.pop() if len(found) == 1 else f"a part of it: {sorted(found)}"


def state_of(name: str) -> Callable[[Sandbox], str]:
    return lambda sandbox: collection_state(sandbox, name)


def damaged(sandbox: Sandbox) -> None:
    """A mirrored collection with one damaged copy."""
    before(OLD, sink("c", **MIRRORED))(sandbox)
    segment = next((sandbox.root / "d1" / "c").rglob("*.arrow"))
    with open(segment, "r+b") as file:
        file.seek(segment.stat().st_size // 2)
        file.write(b"damage")


def without_manifest(sandbox: Sandbox) -> None:
    """A mirrored collection with a damaged manifest in the catalog."""
    before(OLD, sink("c", **MIRRORED))(sandbox)
    (sandbox.home / "catalog/c/.v/0000000001.json").write_text("damaged")


def verified(sandbox: Sandbox) -> str:
    done = sandbox.euphrates("verify", "c")
    assert done.returncode in (0, 3), done.stderr
    assert collection_state(sandbox, "c") == str(OLD)
    return "sound" if done.returncode == 0 else "damaged"


def leavings(sandbox: Sandbox) -> None:
    """The leftovers of a run killed half-way in a commit of three outputs."""
    with rig.Syscalls([sandbox.root]) as syscalls:
        command = run_flow(OLD, *three(False))(sandbox)
        syscalls.run(command, rig.Fault("rename", 2, "kill-after"), env=sandbox.environment)


SCENARIOS = [
    Scenario(
        "file",
        nothing,
        run_flow(NEW, file_sink()),
        lambda sandbox: file_state(sandbox.out / "a.parquet"),
        (ABSENT, str(NEW)),
    ),
    Scenario(
        "file replaced",
        before(OLD, file_sink()),
        run_flow(NEW, file_sink(overwrite=True)),
        lambda sandbox: file_state(sandbox.out / "a.parquet"),
        (str(OLD), str(NEW)),
    ),
    Scenario(
        "folder",
        nothing,
        run_flow(NEW, folder_sink()),
        lambda sandbox: file_state(sandbox.out / "d"),
        (ABSENT, str(NEW)),
    ),
    Scenario(
        "folder replaced",
        before(OLD, folder_sink()),
        run_flow(NEW, folder_sink(mode="overwrite")),
        lambda sandbox: file_state(sandbox.out / "d"),
        (str(OLD), str(NEW)),
    ),
    Scenario(
        "folder and collection replaced",
        before(OLD, folder_sink(), sink("b")),
        run_flow(NEW, folder_sink(mode="overwrite"), sink("b", overwrite=True)),
        state_of_folder_and_collection,
        (str(OLD), str(NEW)),
    ),
    Scenario("collection", nothing, run_flow(NEW, sink("b")), state_of("b"), (ABSENT, str(NEW))),
    Scenario(
        "collection replaced",
        before(OLD, sink("b")),
        run_flow(NEW, sink("b", overwrite=True)),
        state_of("b"),
        (str(OLD), str(NEW)),
    ),
    Scenario(
        "mirrored collection",
        nothing,
        run_flow(NEW, sink("c", **MIRRORED)),
        state_of("c"),
        (ABSENT, str(NEW)),
    ),
    Scenario(
        "mirrored collection replaced",
        before(OLD, sink("c", **MIRRORED)),
        run_flow(NEW, sink("c", **MIRRORED, overwrite=True)),
        state_of("c"),
        (str(OLD), str(NEW)),
    ),
    Scenario(
        "three outputs",
        nothing,
        run_flow(NEW, *three(False)),
        state_of_three,
        (ABSENT, str(NEW)),
    ),
    Scenario(
        "three outputs replaced",
        before(OLD, *three(False)),
        run_flow(NEW, *three(True)),
        state_of_three,
        (str(OLD), str(NEW)),
    ),
    Scenario(
        "three outputs of two workers",
        nothing,
        run_flow(NEW, *three(False), on=("--cluster", "processes:2")),
        state_of_three,
        (ABSENT, str(NEW)),
        every=8,
    ),
    Scenario(
        "file, object and collection",
        nothing,
        run_flow(NEW, *with_object(False)),
        state_with_object,
        (ABSENT, str(NEW)),
        has_objects=True,
    ),
    Scenario(
        "file, object and collection replaced",
        before(OLD, *with_object(False)),
        run_flow(NEW, *with_object(True)),
        state_with_object,
        (str(OLD), str(NEW)),
        has_objects=True,
    ),
    Scenario(
        "two outputs that can be resumed",
        nothing,
        run_flow(NEW, file_sink(), sink("b"), on=("--resume",)),
        state_of_two,
        (ABSENT, str(NEW)),
    ),
    Scenario(
        "rm",
        before(OLD, sink("c", **MIRRORED)),
        lambda sandbox: [EUPHRATES, "rm", "c"],
        state_of("c"),
        (str(OLD), ABSENT),
    ),
    Scenario(
        "repair",
        damaged,
        lambda sandbox: [EUPHRATES, "repair", "c"],
        verified,
        ("damaged", "sound"),
    ),
    Scenario(
        "repair of a manifest",
        without_manifest,
        lambda sandbox: [EUPHRATES, "repair", "c"],
        verified,
        ("damaged", "sound"),
    ),
    Scenario(
        "gc",
        leavings,
        lambda sandbox: [EUPHRATES, "gc", str(sandbox.out)],
        state_of_three,
        (ABSENT, ABSENT),
    ),
]


def faults(run: Run, errors: Sequence[str]) -> Iterator[rig.Fault]:
    """A kill before and after each call of a run, and each error at it."""
    for call in run.calls:
        yield rig.Fault(call.kind, call.nth, "kill-before")
        yield rig.Fault(call.kind, call.nth, "kill-after")
        for error in errors:
            yield rig.Fault(call.kind, call.nth, error)


class Torture:
    """Runs a scenario at one crash point after another."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        environment: dict[str, str] | None = None,
        s3: S3Server | None = None,
    ) -> None:
        self.scenario = scenario
        self.sandbox = Sandbox(folder, environment, s3 if scenario.has_objects else None)
        self.sandbox.make()
        scenario.old(self.sandbox)
        self.sandbox.keep()
        self.calm: Run = Run()
        self.allowed: dict[str, Counter[str]] = {}

    def begin(self) -> Run:
        """Runs the command without a fault, and records the states before and after it."""
        old, new = self.scenario.states
        assert self.scenario.state(self.sandbox) == old
        self.sandbox.reset()
        self.tidy()
        listed = self.sandbox.listed()
        self.sandbox.reset()
        self.calm = self.run(None)
        assert self.calm.returncode == 0, self.calm.stderr
        assert self.scenario.state(self.sandbox) == new
        self.tidy()
        self.allowed = {old: listed} | {new: self.sandbox.listed()}
        return self.calm

    def at(self, fault: rig.Fault) -> Outcome:
        """Runs the command with a fault, and returns the violated invariants."""
        self.sandbox.reset()
        run = self.run(fault)
        outcome = Outcome(f"{self.scenario.name} at {fault}: {''.join(map(str, run.hit))}")
        if not fault.action.startswith("kill") and run.returncode not in {0, *TYPED}:
            outcome.wrong.append(f"exit code {run.returncode}: {run.stderr}")
        try:
            state = self.scenario.state(self.sandbox)
        except (eu.EuphratesError, pa.ArrowException, AssertionError) as error:
            outcome.wrong.append(f"the state cannot be read: {error}")
            return outcome
        if state not in self.scenario.states:
            outcome.wrong.append(f"neither old nor new: {state}")
        elif (
            run.hit
            and run.returncode in TYPED
            and state != self.scenario.states[0]
            and not (UNSYNCED in run.stderr or UNCOMPLETED in run.stderr)
        ):
            outcome.wrong.append(f"an error, and it has been done: {run.stderr}")
        self.tidy()
        # The next start rolls a commit of several outputs forward or back.
        state = self.scenario.state(self.sandbox)
        if state not in self.scenario.states:
            outcome.wrong.append(f"neither old nor new after the next start: {state}")
        left = self.sandbox.listed() - self.allowed.get(state, Counter())
        if left:
            outcome.wrong.append(f"left over: {sorted(left)}")
        return outcome

    def run(self, fault: rig.Fault | None) -> Run:
        command = self.scenario.command(self.sandbox)
        options = {"env": self.sandbox.environment, "cwd": self.sandbox.root}
        with rig.Syscalls([self.sandbox.root], self.scenario.kinds) as syscalls:
            return syscalls.run(command, fault, **options)

    def tidy(self) -> None:
        """Performs the next start, and `gc`."""
        flow = self.sandbox.flow(
            "next", 10, save(self.sandbox.out / "next.parquet", overwrite=True)
        )
        self.sandbox.must("run", flow)
        self.sandbox.must("gc", *(self.sandbox.root / folder for folder in self.scenario.folders))


def distinct(calls: Sequence[Call]) -> list[Call]:
    """One call of each kind at each kind of path, for short runs."""
    seen, found = set(), []
    for call in calls:
        what = (call.kind, *(NAMES.sub("*", path) for path in call.paths))
        if what not in seen:
            seen.add(what)
            found.append(call)
    return found
