"""Splits that are resumed within an epoch: every row is consumed once."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import euphrates as eu
from feeding_cases import flat, integers, numbers

ROWS, SIZE = 1000, 7


def first_half(consumers: eu.Split, steps: int, seed: int) -> tuple[list[int], list[Any]]:
    """The rows that consumers take in random order until they stop, and their states."""
    chance = random.Random(seed)
    loops = [iter(one) for one in consumers]
    taken: list[int] = []
    for _ in range(steps):
        taken += next(chance.choice(loops))["n"].to_pylist()
    # A state goes through a file of the checkpoint.
    return taken, [json.loads(json.dumps(one.state_dict())) for one in consumers]


@pytest.mark.parametrize(("before", "after"), [(4, 3), (1, 2), (3, 4)])
def test_other_numbers_of_consumers_resume_an_epoch(before: int, after: int) -> None:
    rows = integers(ROWS).shuffle(5, by="n")
    with rows.split(before, batch_size=SIZE, resumable=True) as consumers:
        taken, states = first_half(consumers, 60, seed=before)
    with rows.split(after, batch_size=SIZE, state=states) as consumers:
        more, states = first_half(consumers, 50, seed=after)
    with rows.split(2, batch_size=SIZE, state=states) as consumers:
        rest = flat(numbers(consumers[0]))
    assert sorted([*taken, *more, *rest]) == list(range(ROWS))


def test_each_epoch_has_the_order_of_its_own_seed() -> None:
    orders = [flat_rows(integers(50).shuffle(seed, by="n")) for seed in (7, 8, 9)]
    assert orders[0] != orders[1]
    shuffled = {"shuffle_seed": 7, "shuffle_by": "n", "batch_size": 4}
    with integers(50).split(1, **shuffled) as consumers:
        assert [flat(numbers(consumers[0])) for _ in orders] == orders
    with integers(50).split(1, resumable=True, **shuffled) as consumers:
        list(consumers[0])
        taken, states = first_half(consumers, 3, seed=1)
    with integers(50).split(1, state=states, **shuffled) as consumers:
        assert [*taken, *flat(numbers(consumers[0]))] == orders[1]
        assert flat(numbers(consumers[0])) == orders[2]


def flat_rows(rows: eu.Query) -> list[int]:
    """The column `n` in order."""
    found: list[int] = rows.to_pydict()["n"]
    return found


def test_consumers_load_their_states() -> None:
    rows = integers(ROWS).sort("n")
    with rows.split(2, batch_size=SIZE, resumable=True) as consumers:
        taken, states = first_half(consumers, 30, seed=1)
    with rows.split(1, batch_size=SIZE, resume=True) as consumers:
        consumers[0].load_state_dict(states)
        rest = flat(numbers(consumers[0]))
        assert sorted([*taken, *rest]) == list(range(ROWS))
        # The next epoch has all rows again.
        assert flat(numbers(consumers[0])) == list(range(ROWS))


def test_resume_waits_for_the_states_of_all() -> None:
    consumers = integers(ROWS).sort("n").split(2, batch_size=SIZE, resume=True, timeout=0.5)
    with consumers, pytest.raises(eu.ResourceError, match=r"have not begun in 0.5 s: 1"):
        list(consumers[0])


def test_state_in_a_split_without_resume_is_an_error() -> None:
    rows = integers(ROWS).sort("n")
    with rows.split(1, batch_size=SIZE, resumable=True) as consumers:
        _, states = first_half(consumers, 3, seed=1)
        consumers[0].close()
    with rows.split(1, batch_size=SIZE, resumable=True) as consumers:
        consumers[0].load_state_dict(states)
        with pytest.raises(eu.UsageError, match="does not wait for states"):
            list(consumers[0])


def test_other_rows_are_an_error() -> None:
    rows = integers(ROWS)
    with rows.sort("n").split(1, batch_size=SIZE, resumable=True) as consumers:
        _, states = first_half(consumers, 3, seed=1)
    for other in (rows.sort("n desc"), integers(5).sort("n")):
        consumers = other.split(1, batch_size=SIZE, state=states)
        with consumers, pytest.raises(eu.CorruptError, match="units 0 to 2 have other rows"):
            list(consumers[0])


def test_state_behind_a_loop_has_what_was_acknowledged() -> None:
    with integers(ROWS).sort("n").split(2, batch_size=SIZE, resumable=True) as consumers:
        for count, _ in enumerate(consumers[0], 1):
            if count == 3:
                inside = consumers[0].state_dict()
                break
        assert [unit[:2] for unit in inside["units"]] == [[0, 3]]
        assert [unit[:2] for unit in consumers[0].state_dict()["units"]] == [[0, 2]]
        for _ in consumers[1]:
            consumers[1].acknowledge()
            break
        assert [unit[:2] for unit in consumers[1].state_dict()["units"]] == [[2, 3]]


def test_equal_shares_resume() -> None:
    rows = integers(ROWS).sort("n")
    with rows.split(2, batch_size=SIZE, resumable=True, equal=True) as consumers:
        loops = [iter(one) for one in consumers]
        taken = [n for _ in range(3) for loop in loops for n in next(loop)["n"].to_pylist()]
        states = [one.state_dict() for one in consumers]
    with rows.split(1, batch_size=SIZE, state=states, equal=True) as consumers:
        rest = flat(numbers(consumers[0]))
    assert sorted([*taken, *rest]) == list(range(ROWS - ROWS % SIZE))


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (integers(9), {"batch_size": 3}, "a stream without order cannot be resumed"),
        (integers(9).sort("n"), {}, "without a batch size"),
    ],
)
def test_streams_that_cannot_be_resumed(rows: eu.Query, options: Any, message: str) -> None:
    with pytest.raises(eu.UsageError, match=message):
        rows.split(1, resumable=True, **options)


def test_state_of_a_stream_that_cannot_be_resumed_is_an_error() -> None:
    with integers(9).split(1) as consumers, pytest.raises(eu.UsageError, match="no digests"):
        consumers[0].state_dict()


STATE: dict[str, Any] = {"version": 1, "epoch": 0, "units": [[0, 2, "5"]]}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "has not made"),
        ({**STATE, "version": 2}, "has not made"),
        ({**STATE, "units": [[1]]}, "has not made"),
        ([STATE, {**STATE, "epoch": 1}], "several epochs: 0, 1"),
        ([STATE, STATE], "unit 0 is in two of the states"),
        ([STATE, {**STATE, "units": [[1, 3, "5"]]}], "unit 1 is in two of the states"),
        ({**STATE, "units": [[3, 1, "5"]]}, "unit 3"),
    ],
)
def test_wrong_states(state: Any, message: str) -> None:
    with pytest.raises(eu.UsageError, match=message):
        integers(9).sort("n").split(1, batch_size=SIZE, state=state)
