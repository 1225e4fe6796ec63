"""Kills and errors at the system calls of every kind of commit: old or new state, no leftovers.

Each scenario tries its distinct calls, each with a kill on one side and one of the errors, in turn;
`bench/torture/crash_points.py` tries all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import rig
from crash_points import ERRORS, SCENARIOS, Scenario, Torture, distinct
from s3_server import s3, s3_session  # noqa: F401

pytestmark = pytest.mark.skipif(
    rig.missing("syscalls") is not None, reason=str(rig.missing("syscalls"))
)


@pytest.fixture(scope="module", autouse=True)
def guarded() -> Iterator[None]:
    """One guardian for all runs."""
    with rig.Syscalls():
        yield


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_fault_leaves_exactly_old_or_new_state(
    scenario: Scenario, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = request.getfixturevalue("s3") if scenario.has_objects else None
    torture = Torture(scenario, tmp_path, s3=store)
    calls = distinct(torture.begin().calls)[:: scenario.every]
    actions = itertools.cycle(["kill-before", *ERRORS[:2], "kill-after", *ERRORS[2:]])
    outcomes = [torture.at(rig.Fault(call.kind, call.nth, next(actions))) for call in calls]
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    assert not wrong, "\n".join(f"{one.point}: {'; '.join(one.wrong)}" for one in wrong)
