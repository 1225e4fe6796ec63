"""Flows for tests of failures, and checks that their output is complete or absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import euphrates as eu

ROWS = 4_000_000
SECONDS = 12
"""The timeout after which a flow counts as hanging."""


def numbers(rows: int, *modules: Any) -> eu.Flow:
    flow = eu.Flow("numbers")
    flow.chain(eu.generate("integers", rows=rows), *modules)
    return flow


def result(running: Any) -> eu.Report | eu.EuphratesError:
    """The report or error of a flow, which must end."""
    assert running.wait(SECONDS), "the flow hangs"
    try:
        return running.finish()
    except eu.EuphratesError as error:
        return error


def rows_out(running: Any) -> int:
    return sum(module.rows_out for module in running.progress().modules)


def descending_numbers(rows: int, sink: Any) -> eu.Flow:
    return numbers(rows, eu.sort([{"column": "n", "descending": True}]), sink)


def saving(own: Path, rows: int = ROWS) -> tuple[eu.Flow, Callable[[], pa.Array | None]]:
    """A flow, and a function that reads its output if it exists."""
    path = own / "out.parquet"

    def read() -> pa.Array | None:
        return pq.read_table(path)["n"].combine_chunks() if path.exists() else None

    return descending_numbers(rows, eu.save(path)), read


def writing(_: Path, rows: int = ROWS) -> tuple[eu.Flow, Callable[[], pa.Array | None]]:
    def read() -> pa.Array | None:
        again = eu.Flow("read")
        try:
            again.chain(eu.read("out", order=True), eu.collect())
            table = again.go().collected().to_pyarrow()
        except eu.UsageError:
            return None
        return table["n"].combine_chunks()

    return descending_numbers(rows, eu.write("out")), read


def output_is_consistent(
    read: Any, outcome: eu.Report | eu.EuphratesError, rows: int = ROWS
) -> bool:
    """Whether the output is complete after success, and absent after failure."""
    got = read()
    if isinstance(outcome, eu.EuphratesError):
        return got is None
    return got == pl.int_range(rows - 1, -1, -1, eager=True).to_arrow()
