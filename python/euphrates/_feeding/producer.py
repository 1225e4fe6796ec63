"""Runs the flow of an epoch. Its sink encodes the batches for the consumers, on its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from .._euphrates import Ports
from .._user_code.module import Module
from ..errors import CorruptError, EuphratesError, FlowError
from .slots import Slot, SlotPool, encode, encoded_size
from .units import Unit

if TYPE_CHECKING:
    from ..running import Running

_WAIT_SECONDS = 0.25
"""How often a sink without room looks whether the flow has been cancelled."""


class Encoded(NamedTuple):
    """A unit in shared memory."""

    epoch: int
    number: int
    slot: Slot
    size: int
    rows: int
    digest: int | None


class Ended(NamedTuple):
    """The flow of an epoch has ended, with this error if it has failed."""

    epoch: int
    error: EuphratesError | None


class UnitSink(Module):
    """The sink of a flow whose rows are split."""

    outputs = ()
    order = "ordered"
    parallel = False

    def __init__(self, feed: Callable[[Ports], None]) -> None:
        self._feed = feed

    def schemas(self, inputs: list[Any]) -> list[Any]:
        return []

    def run(self, ports: Ports) -> None:
        self._feed(ports)


class Producer:
    """Runs one epoch, at most `units_ahead` units before the consumers."""

    def __init__(
        self,
        epoch: int,
        start: Callable[[UnitSink], Running],
        units: Callable[[Iterator[pa.RecordBatch]], Iterator[Unit]],
        slots: SlotPool,
        post: Callable[[Any], None],
        units_ahead: int,
    ) -> None:
        self._epoch = epoch
        self._start = start
        self._units = units
        self._slots = slots
        self._post = post
        self._room = threading.Semaphore(units_ahead)
        self._lock = threading.Lock()
        self._stopped = False
        self._running: Running | None = None
        self._error: CorruptError | None = None
        self._thread = threading.Thread(target=self._run, name="euphrates-split", daemon=True)
        self._thread.start()

    def taken(self) -> None:
        """A unit has been given out: there is room for another."""
        self._room.release()

    def stop(self) -> None:
        """Cancels the flow. Does not wait."""
        with self._lock:
            self._stopped = True
            running = self._running
        if running is not None:
            running.cancel()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        error: EuphratesError | None = None
        try:
            running = self._start(UnitSink(self._feed))
            with self._lock:
                self._running = running
            if self._stopped:
                running.cancel()
            running.finish()
        except EuphratesError as raised:
            # The flow raises an error of its sink as one of user code.
            error = self._error or raised
        except Exception as raised:
            error = FlowError(f"{type(raised).__name__}: {raised}")
        if not self._stopped:
            self._post(Ended(self._epoch, error))

    def _feed(self, ports: Ports) -> None:
        try:
            for unit in self._units(pa.record_batch(batch) for batch in ports):
                while not self._room.acquire(timeout=_WAIT_SECONDS):
                    ports.check()
                self._post(self._encoded(unit))
        except CorruptError as raised:
            self._error = raised
            raise

    def _encoded(self, unit: Unit) -> Encoded:
        size = encoded_size(unit.batch)
        slot = self._slots.take(size, self._epoch)
        encode(unit.batch, slot)
        return Encoded(self._epoch, unit.number, slot, size, unit.batch.num_rows, unit.digest)
