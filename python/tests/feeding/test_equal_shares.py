"""Splits with equal shares: every consumer gets the same number of batches."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import euphrates as eu
from euphrates._feeding.batch_formats import AHEAD_MAX
from euphrates._feeding.epoch import ROUNDS_AHEAD
from feeding_cases import SPAWN, WAIT_SECONDS, Programs, flat, integers, numbers, take_and_die


def all_batches(consumers: eu.Split) -> list[list[list[int]]]:
    """The batches of each consumer, which iterate at the same time."""
    found: dict[int, list[list[int]]] = {}

    def take(consumer: eu.Consumer) -> None:
        found[consumer.number] = numbers(consumer)

    threads = [threading.Thread(target=take, args=(one,)) for one in consumers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    return [found[number] for number in range(len(consumers))]


@pytest.mark.parametrize(("rows", "batches"), [(120, 4), (119, 3), (100, 3), (29, 0), (0, 0)])
def test_batches_of_a_size_are_equal_and_the_surplus_is_dropped(rows: int, batches: int) -> None:
    with integers(rows).split(3, equal=True, batch_size=10) as consumers:
        for _ in range(2):
            found = all_batches(consumers)
            assert [[len(one) for one in each] for each in found] == [[10] * batches] * 3
            kept = flat(flat_lists(found))
            assert len(set(kept)) == len(kept)


def flat_lists(lists: list[list[list[int]]]) -> list[list[int]]:
    return [one for each in lists for one in each]


@pytest.mark.parametrize("sizes", [[5, 1, 7, 3, 2, 2, 9], [1], [2, 1], [8, 8, 8]])
def test_rows_of_the_last_round_are_shared(sizes: list[int]) -> None:
    tables = []
    for size in sizes:
        first = sum(map(len, tables))
        tables.append(pa.table({"n": range(first, first + size)}))
    rows = eu.query(eu.from_arrow(tables, order=True))
    with rows.split(3, equal=True) as consumers:
        found = all_batches(consumers)
    assert len({len(each) for each in found}) == 1
    kept = sorted(flat(flat_lists(found)))
    assert len(set(kept)) == len(kept) > sum(sizes) - 3


def test_nobody_is_far_ahead() -> None:
    """A consumer waits for another that is `ROUNDS_AHEAD` batches behind."""
    with integers(1000).split(2, equal=True, batch_size=10, timeout=1) as consumers:
        ahead = iter(consumers[0])
        for _ in range(ROUNDS_AHEAD):
            next(ahead)
        with pytest.raises(eu.ResourceError, match="not connected in 1 s: 1") as caught:
            next(ahead)
        assert caught.value.remedy is not None and "timeout" in caught.value.remedy


def test_death_of_one_is_an_error_for_all() -> None:
    programs, seen = Programs(), SPAWN.Queue()
    with integers(1000).split(2, equal=True, batch_size=10) as consumers:
        dying = programs.start(take_and_die, consumers[1], 2, seen)
        with pytest.raises(eu.ResourceError, match="consumer 1 has ended within the epoch"):
            list(consumers[0])
        dying.join(WAIT_SECONDS)
    programs.end()


@pytest.mark.parametrize("ahead", [0, AHEAD_MAX])
def test_all_end_with_the_first_that_leaves(ahead: int) -> None:
    with integers(1000).split(2, equal=True, batch_size=10) as consumers:
        taken = 0

        def leave() -> None:
            batches = consumers[0].iter_batches(batch_size=None, prefetch_batches=ahead)
            for count, _ in enumerate(batches, 1):
                if count == 5:
                    break

        other = threading.Thread(target=leave)
        other.start()
        taken = len(list(consumers[1].iter_batches(batch_size=None, prefetch_batches=0)))
        other.join(WAIT_SECONDS)
    assert 5 <= taken <= 5 + ahead + ROUNDS_AHEAD
