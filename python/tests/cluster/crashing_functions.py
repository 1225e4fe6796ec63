"""Functions and classes for flows on workers that crash their process."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import euphrates as eu

ROW = 123_456
"""The row at which all of them crash."""


def segmentation_fault() -> None:
    ctypes.string_at(0)


def exit_code() -> None:
    os._exit(3)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def aborted() -> None:
    os.abort()


WAYS: dict[str, tuple[Callable[[], None], str]] = {
    "segmentation fault": (segmentation_fault, "signal 11 (SIGSEGV)"),
    "exit": (exit_code, "exit code 3"),
    "kill": (killed, "signal 9 (SIGKILL)"),
    "abort": (aborted, "signal 6 (SIGABRT)"),
}
"""Every way to crash, and the expected message."""


def is_in(batch: eu.Batch, row: int = ROW) -> bool:
    numbers = batch.to_pyarrow()["n"]
    return len(numbers) > 0 and numbers[0].as_py() <= row <= numbers[-1].as_py()


def crash(batch: eu.Batch, way: str) -> eu.Batch:
    """Crashes at one row, every time."""
    if is_in(batch):
        WAYS[way][0]()
    return batch


def crash_once(batch: eu.Batch, marker: str) -> eu.Batch:
    """Crashes at one row the first time any process sees it."""
    if is_in(batch) and not Path(marker).exists():
        Path(marker).touch()
        segmentation_fault()
    return batch


def crash_in_partition(batch: eu.Batch) -> eu.Batch:
    if ROW in batch.to_pyarrow()["n"].to_pylist():
        segmentation_fault()
    return batch


class Stateful(eu.Module):
    """Keeps a running sum, so that its state cannot be resumed elsewhere; crashes once, or
    always.
    """

    outputs = ("out",)

    def __init__(self, marker: str = "") -> None:
        self.marker = marker

    def schemas(self, inputs: Any) -> Any:
        return [{"sum": "int64"}]

    def run(self, ports: eu.Ports) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        total = 0
        for batch in ports:
            total += pc.sum(batch.to_pyarrow()["n"]).as_py() or 0
            if is_in(batch) and not (self.marker and Path(self.marker).exists()):
                if self.marker:
                    Path(self.marker).touch()
                segmentation_fault()
        ports.put(pa.table({"sum": [total]}))
