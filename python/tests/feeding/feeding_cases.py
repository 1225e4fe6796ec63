"""Consumers in processes of their own, for the tests of splits."""

from __future__ import annotations

import multiprocessing as mp
import os
from collections.abc import Callable
from typing import Any

import euphrates as eu

SPAWN = mp.get_context("spawn")
WAIT_SECONDS = 60


def integers(rows: int) -> eu.Query:
    return eu.query(eu.generate("integers", rows=rows))


class Programs:
    """Processes that run a function with a consumer, and what it returned or raised."""

    def __init__(self) -> None:
        self._results: Any = SPAWN.Queue()
        self.processes: list[Any] = []

    def start(self, function: Callable[..., Any], *arguments: Any) -> Any:
        process = SPAWN.Process(target=_called, args=(self._results, function, arguments))
        process.start()
        self.processes.append(process)
        return process

    def result(self) -> Any:
        """The next result of any of them; an error is raised."""
        result = self._results.get(timeout=WAIT_SECONDS)
        if isinstance(result, BaseException):
            raise result
        return result

    def end(self) -> None:
        for process in self.processes:
            process.join(WAIT_SECONDS)
            assert process.exitcode is not None


def _called(results: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        result = function(*arguments)
    except Exception as error:
        result = error
    results.put(result)


def numbers(consumer: eu.Consumer) -> list[list[int]]:
    """The column `n` of all batches of an epoch."""
    return [batch["n"].to_pylist() for batch in consumer]


def flat(lists: list[list[int]]) -> list[int]:
    return [number for one in lists for number in one]


def epochs(consumer: eu.Consumer, count: int) -> tuple[int, list[list[int]]]:
    """The numbers of each of several epochs."""
    return consumer.number, [flat(numbers(consumer)) for _ in range(count)]


def take_and_die(consumer: eu.Consumer, batches: int, taken: Any) -> None:
    """Dies with a batch that it has not acknowledged."""
    for count, batch in enumerate(consumer, 1):
        taken.put(batch["n"].to_pylist())
        if count == batches:
            taken.close()
            taken.join_thread()
            os._exit(1)


def take_and_wait(consumer: eu.Consumer, taken: Any, go_on: Any) -> list[int]:
    """Holds its first batch until it is told to go on."""
    found: list[int] = []
    for batch in consumer:
        if not found:
            taken.set()
            go_on.wait(WAIT_SECONDS)
        found += batch["n"].to_pylist()
    return found
