"""Kills and errors at the system calls of commits of striped files: old or new version only."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import euphrates as eu
import rig
from crash_points import ABSENT, ERRORS, EUPHRATES, Scenario, Torture, distinct, nothing
from crash_sandbox import Sandbox

pytestmark = pytest.mark.skipif(
    rig.missing("syscalls") is not None, reason=str(rig.missing("syscalls"))
)
OLD, NEW = b"old" * 1_000_000, b"new" * 1_000_001
LAYOUT = ("--data=1", "--parity=1", "--disks=d0,d1")


def put(sandbox: Sandbox, content: bytes) -> list[str]:
    # Beside the sandbox, in which nothing may be left over.
    source = sandbox.root.parent / "content"
    source.write_bytes(content)
    return [EUPHRATES, "file", "put", str(source), "f", "--overwrite", *LAYOUT]


SESSION = """
import sys
import euphrates as eu
half = len(content := b"new" * 1_000_001) // 2
session = eu.striped_session("f", 2, data=1, parity=1, disks=["d0", "d1"], home=sys.argv[1])
with session:
    for number, part in enumerate((content[:half], content[half:])):
        with session.writer(number) as file:
            file.pwrite(part, number * half)
"""
"""Two writers share a stripe, and the process commits: the fault is in any of these steps."""


def in_session(sandbox: Sandbox) -> list[str]:
    return [sys.executable, "-c", SESSION, str(sandbox.home)]


def old(sandbox: Sandbox) -> None:
    sandbox.must(*put(sandbox, OLD)[1:])


def state(sandbox: Sandbox) -> str:
    """Which content the file has, after all of it has been read."""
    try:
        with eu.open_striped("f", home=sandbox.home) as file:
            content = file.read()
    except eu.UsageError as error:
        assert "no striped file" in str(error), error
        return ABSENT
    return {OLD: "old", NEW: "new"}.get(content, "neither")


def session_state(sandbox: Sandbox) -> str:
    # The last session that ends removes the folder of sessions; it may stay, but empty.
    with contextlib.suppress(OSError):
        (sandbox.home / "sessions").rmdir()
    return state(sandbox)


def damaged(sandbox: Sandbox) -> None:
    old(sandbox)
    segment = next((sandbox.root / "d1" / "f").rglob("*.blocks"))
    with open(segment, "r+b") as file:
        file.seek(segment.stat().st_size // 2)
        file.write(b"damage")


def verified(sandbox: Sandbox) -> str:
    done = sandbox.euphrates("file", "verify", "f")
    assert done.returncode in (0, 3), done.stderr
    assert state(sandbox) == "old"
    return "sound" if done.returncode == 0 else "damaged"


SCENARIOS = [
    Scenario("striped file", nothing, lambda box: put(box, NEW), state, (ABSENT, "new")),
    Scenario("striped file replaced", old, lambda box: put(box, NEW), state, ("old", "new")),
    Scenario("session", nothing, in_session, session_state, (ABSENT, "new"), every=8),
    Scenario("session that replaces", old, in_session, session_state, ("old", "new"), every=8),
    Scenario(
        "rm of a striped file",
        old,
        lambda box: [EUPHRATES, "file", "rm", "f"],
        state,
        ("old", ABSENT),
    ),
    Scenario(
        "repair of a striped file",
        damaged,
        lambda box: [EUPHRATES, "file", "repair", "f"],
        verified,
        ("damaged", "sound"),
    ),
]


@pytest.fixture(scope="module", autouse=True)
def guarded() -> Iterator[None]:
    """One guardian for all runs."""
    with rig.Syscalls():
        yield


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_fault_leaves_exactly_the_old_or_the_new_version(
    scenario: Scenario, tmp_path: Path
) -> None:
    torture = Torture(scenario, tmp_path)
    every = 1 if os.environ.get("EUPHRATES_TORTURE") else scenario.every
    calls = distinct(torture.begin().calls)[::every]
    actions = itertools.cycle(["kill-before", *ERRORS[:2], "kill-after", *ERRORS[2:]])
    outcomes = [torture.at(rig.Fault(call.kind, call.nth, next(actions))) for call in calls]
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    assert not wrong, "\n".join(f"{one.point}: {'; '.join(one.wrong)}" for one in wrong)
