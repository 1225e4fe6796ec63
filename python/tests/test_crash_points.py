"""Kills and errors at the system calls of every kind of commit: old or new state, nothing left.

Of each scenario the calls that differ are tried, each with a kill on one of its sides and one of
the errors, in turn; `bench/torture/crash_points.py` tries all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import rig
from crash_points import ERRORS, SCENARIOS, Scenario, Torture, distinct

pytestmark = pytest.mark.skipif(
    rig.missing("syscalls") is not None, reason=str(rig.missing("syscalls"))
)


@pytest.fixture(scope="module", autouse=True)
def guarded() -> Iterator[None]:
    """One guardian for all runs."""
    with rig.Syscalls():
        yield


# Data of a replaced version, or a manifest that was taken back, stays when the call that removes it
# fails or is the last before a kill; no later `gc` finds it.
LEAVES = {"repair", "repair of a manifest", "gc"}


def case(scenario: Scenario) -> object:
    leaves = pytest.mark.xfail(reason="leaves files that no later gc finds")
    return pytest.param(
        scenario, id=scenario.name, marks=[leaves] if scenario.name in LEAVES else []
    )


@pytest.mark.parametrize("scenario", map(case, SCENARIOS))
def test_a_kill_or_an_error_leaves_the_old_or_the_new_state_and_nothing_else(
    scenario: Scenario, tmp_path: Path
) -> None:
    torture = Torture(scenario, tmp_path)
    calls = distinct(torture.begin().calls)
    actions = itertools.cycle(["kill-before", *ERRORS[:2], "kill-after", *ERRORS[2:]])
    outcomes = [torture.at(rig.Fault(call.kind, call.nth, next(actions))) for call in calls]
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    assert not wrong, "\n".join(f"{one.point}: {'; '.join(one.wrong)}" for one in wrong)
