"""Batches of a running flow, one by one, for the program that has started it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

from .._euphrates import Batch, Ports
from ..flow import Flow
from .module import Module

_WAIT_SECONDS = 0.05
"""How often a full or empty stream looks whether the other side has gone."""


class _BatchSink(Module):
    """The sink of a flow whose batches the program takes."""

    outputs = ()
    order = "ordered"
    parallel = False

    def __init__(self, batches: queue.Queue[Batch]) -> None:
        self._batches = batches

    def schemas(self, inputs: list[Any]) -> list[Any]:
        return []

    def run(self, ports: Ports) -> None:
        for batch in ports:
            while True:
                try:
                    self._batches.put(batch, timeout=_WAIT_SECONDS)
                    break
                except queue.Full:
                    ports.check()


def batches(complete: Callable[[Any], Flow], options: dict[str, Any]) -> Iterator[Batch]:
    """The batches of a flow. The flow runs while they are taken, and waits otherwise."""
    # One waits here and one in the sink, so the flow is at most two batches ahead.
    waiting: queue.Queue[Batch] = queue.Queue(maxsize=1)
    running = complete(_BatchSink(waiting)).start(**options)
    try:
        while True:
            try:
                yield waiting.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                if running.wait(0):
                    break
        while not waiting.empty():
            yield waiting.get()
        running.finish()
    finally:
        running.cancel()
