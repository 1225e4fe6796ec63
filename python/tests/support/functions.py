"""Functions and modules that flows of the tests import."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

import euphrates as eu


def same(batch: eu.Batch) -> eu.Batch:
    return batch


def doubled(batch: eu.Batch, factor: int = 2) -> pa.RecordBatch:
    n = batch.to_pyarrow().column("n")
    return pa.record_batch({"n": pc.multiply(n, factor)})


def raising(batch: eu.Batch) -> eu.Batch:
    if len(batch):
        raise ValueError("seven is right out")
    return batch


def spinning(batch: eu.Batch) -> eu.Batch:
    while len(batch):
        try:
            pass
        except Exception:
            continue
    return batch


def sleeping(batch: eu.Batch) -> eu.Batch:
    if len(batch):
        time.sleep(1000)
    return batch


def keeping_a_lock() -> Callable[[eu.Batch], eu.Batch]:
    """A function that cannot be pickled, since it closes over a lock."""
    lock = threading.Lock()

    def locked(batch: eu.Batch) -> eu.Batch:
        with lock:
            return batch

    return locked


def dawdling(batch: eu.Batch) -> eu.Batch:
    time.sleep(0.2)
    return batch


def pausing(batch: eu.Batch) -> eu.Batch:
    time.sleep(0.005)
    return batch


def after_go(batch: eu.Batch) -> eu.Batch:
    """Passes the first 200 rows through, and others once there is a file `go` here."""
    numbers = batch.to_pyarrow().column("n")
    while len(batch) and numbers[0].as_py() >= 200 and not os.path.exists("go"):
        time.sleep(0.01)
    time.sleep(0.001)
    return batch


class SlowToCome:
    """Passes batches through. Unpickling it takes five minutes, and it reports when that begins."""

    def __call__(self, batch: eu.Batch) -> eu.Batch:
        return batch

    def __reduce__(self) -> tuple[Any, ...]:
        return come, (os.getpid(),)


def come(origin: int) -> SlowToCome:
    if os.getpid() != origin:
        Path(os.environ["SLOW_TO_COME"]).touch()
        time.sleep(300)
    return SlowToCome()


class Split(eu.Module):
    """Sends batches alternately to two outputs."""

    inputs = ("in",)
    outputs = ("even", "odd")

    def __init__(self, first: int = 0) -> None:
        self.first = first

    def schemas(self, inputs: list[eu.Schema]) -> Any:
        return {"even": inputs[0], "odd": inputs[0]}

    def run(self, ports: eu.Ports) -> None:
        turn = self.first
        while (batch := ports.get("in")) is not None:
            ports.put(self.outputs[turn % 2], batch)
            turn += 1


class Numbers(eu.Module):
    """A source of runs."""

    inputs = ()
    streams = True

    def __init__(self, runs: int, *, rows: int) -> None:
        self.runs = runs
        self.rows = rows

    def schemas(self, inputs: list[eu.Schema]) -> Any:
        return {"n": "int64"}

    def run(self, ports: eu.Ports) -> None:
        for run in range(ports.instance, self.runs, ports.instances):
            ports.begin_run(run)
            first = run * self.rows
            ports.put(pa.table({"n": range(first, first + self.rows)}))
            ports.end_run()


class Last(eu.Module):
    """A sink that keeps what it has received."""

    outputs = ()
    order = "ordered"
    seen: ClassVar[list[int]] = []
    lock = threading.Lock()

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            with self.lock:
                self.seen.extend(batch.to_pydict()["n"])


class Paired(eu.Module):
    """Counts batches of two inputs in order of arrival."""

    inputs = ("left", "right")

    def schemas(self, inputs: list[eu.Schema]) -> Any:
        return {"side": "string", "rows": "int64"}

    def run(self, ports: eu.Ports) -> None:
        rows = dict.fromkeys(self.inputs, 0)
        left = list(self.inputs)
        while left:
            name = ports.select(left)
            assert name is not None
            batch = ports.get(name)
            if batch is None:
                left.remove(name)
            else:
                rows[name] += len(batch)
        ports.put(pa.table({"side": list(rows), "rows": list(rows.values())}))


def duckdb_doubled(batch: eu.Batch) -> Any:
    import duckdb

    return duckdb.connect().sql("select n * 2 as n from batch")


class WorkerIdentity(eu.Module):
    """Reports its worker once: its own process is a child of the worker."""

    inputs = ()

    def schemas(self, inputs: list[eu.Schema]) -> Any:
        return {"pid": "int64"}

    def run(self, ports: eu.Ports) -> None:
        ports.put(pa.table({"pid": [os.getppid()]}))


def pid(batch: eu.Batch) -> pa.RecordBatch:
    """The batch, and the process that had it."""
    table = batch.to_pyarrow()
    return table.append_column("pid", pa.array([os.getpid()] * len(batch), pa.int64()))


def clock(batch: eu.Batch) -> pa.RecordBatch:
    """The batch, and the wall clock time."""
    now = pa.array([time.time()] * len(batch), pa.float64())
    return batch.to_pyarrow().append_column("clock", now)


def forking(batch: eu.Batch) -> eu.Batch:
    """Forks a child that exits as programs do, and checks its exit code."""
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    return batch
