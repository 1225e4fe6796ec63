"""Batches of a running flow, one by one, for the program that has started it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._euphrates import Batch, Ports
from ..errors import UsageError
from ..flow import Flow
from ..running import Running
from .module import Module

if TYPE_CHECKING:
    from ..report import Report
    from .streamed import Streamed

_WAIT_SECONDS = 0.05
"""How often a full or empty stream looks whether the other side has gone."""


class _BatchSink(Module):
    """The sink of a flow whose batches the program takes; `None` comes behind the last one."""

    outputs = ()
    order = "ordered"
    parallel = False

    def __init__(self, batches: queue.Queue[Batch | None]) -> None:
        self._batches = batches

    def schemas(self, inputs: list[Any]) -> list[Any]:
        return []

    def run(self, ports: Ports) -> None:
        for batch in ports:
            self._put(batch, ports)
        self._put(None, ports)

    def _put(self, batch: Batch | None, ports: Ports) -> None:
        while True:
            try:
                return self._batches.put(batch, timeout=_WAIT_SECONDS)
            except queue.Full:
                ports.check()


class BatchStream:
    """The batches of a flow that runs while they are taken, and waits otherwise. One thread takes
    them; any may cancel the flow.
    """

    def __init__(self, complete: Callable[[Any], Flow], options: dict[str, Any]) -> None:
        # One waits here and one in the sink, so the flow is at most two batches ahead.
        self._waiting: queue.Queue[Batch | None] = queue.Queue(maxsize=1)
        self._running = complete(_BatchSink(self._waiting)).start(**options)
        self.report: Report | None = None
        """The report of the flow, behind the last batch."""

    def __iter__(self) -> Iterator[Batch]:
        while (batch := _next(self._waiting, self._running)) is not None:
            yield batch
        self.report = self._running.finish()

    def cancel(self) -> None:
        """Cancels the flow without waiting: the iteration over its batches raises `Interrupted`."""
        self._running.cancel()

    def close(self) -> None:
        """Cancels the flow unless it has ended, and waits for its end."""
        self._running._stop()


def batches(complete: Callable[[Any], Flow], options: dict[str, Any]) -> Iterator[Batch]:
    """The batches of a flow, which starts when the first is taken."""
    stream = BatchStream(complete, options)
    try:
        yield from stream
    finally:
        stream.close()


def reader(query: Streamed) -> Any:
    """The rows of a query as a pyarrow reader. The flow starts when the first batch is read."""
    needs_pyarrow("an Arrow stream of a query")
    import pyarrow as pa

    schema = pa.schema(query.schema)
    stream = (pa.record_batch(batch) for batch in query.batches())
    return pa.RecordBatchReader.from_batches(schema, stream)


def needs_pyarrow(what: str) -> None:
    """Rejects what cannot be made without pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        remedy = "install pyarrow, or take the batches: for batch in query.batches()"
        raise UsageError(f"{what} needs pyarrow", remedy=remedy) from None


def _next(waiting: queue.Queue[Batch | None], running: Running) -> Batch | None:
    """The next batch; none behind the last one, and of a flow that has failed."""
    while True:
        try:
            return waiting.get(timeout=_WAIT_SECONDS)
        except queue.Empty:
            if running.wait(0) and waiting.empty():
                return None
