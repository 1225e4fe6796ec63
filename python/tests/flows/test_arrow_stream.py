"""Queries as Arrow streams: other libraries pull their rows while the flow runs."""

from __future__ import annotations

import datetime as dt
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import euphrates as eu

BATCH_ROWS = 1000
ENDLESS = 10**15


class Source(eu.Module):
    """Endless rows, of which it counts the batches that the flow has taken."""

    inputs, parallel = (), False

    def __init__(self, taken: list[int], full: threading.Event, ended: threading.Event) -> None:
        self._taken, self._full, self._ended = taken, full, ended

    def schemas(self, inputs: list[Any]) -> Any:
        return {"n": "int64"}

    def run(self, ports: eu.Ports) -> None:
        try:
            for first in range(0, ENDLESS, BATCH_ROWS):
                batch = pa.record_batch({"n": range(first, first + BATCH_ROWS)})
                if not ports.try_put(batch):
                    self._full.set()
                    ports.put(batch)
                self._taken.append(first)
        finally:
            self._ended.set()


class Endless:
    """A query of endless rows, and what its source tells."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.full, self.ended = threading.Event(), threading.Event()
        flow = eu.Flow("endless")
        flow.place(Source(self.taken, self.full, self.ended))
        self.query = eu.query(flow)


def reader(rows: Any) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_stream(rows)


def test_libraries_take_a_query_as_a_table() -> None:
    numbers = eu.query(eu.generate("integers", rows=100_000)).filter("n % 2 = 0")
    assert sorted(pa.table(numbers)["n"].to_pylist()) == list(range(0, 100_000, 2))
    assert pl.DataFrame(numbers)["n"].sum() == sum(range(0, 100_000, 2))
    assert duckdb.sql("select count(*), max(n) from numbers").fetchall() == [(50_000, 99_998)]


def test_source_is_a_stream_like_a_query() -> None:
    assert reader(eu.generate("integers", rows=3)).read_all().to_pydict() == {"n": [0, 1, 2]}


def test_producer_waits_for_the_consumer() -> None:
    endless = Endless()
    batches = reader(endless.query)
    batches.read_next_batch()
    assert endless.full.wait(60)
    assert len(endless.taken) * BATCH_ROWS * 8 < 64 << 20
    batches.close()


def test_dropped_stream_cancels_the_flow() -> None:
    endless = Endless()
    batches = reader(endless.query)
    assert batches.read_next_batch().num_rows > 0
    assert not endless.ended.is_set()
    del batches
    gc.collect()
    assert endless.ended.wait(60)


@pytest.mark.parametrize("end", ["del batches", "batches = None", "raise SystemExit"])
def test_program_may_end_behind_a_stream_that_was_left(end: str) -> None:
    code = f"""
import euphrates as eu
import pyarrow as pa
numbers = eu.query(eu.generate("integers", rows=10**12)).filter("n % 2 = 0")
batches = pa.RecordBatchReader.from_stream(numbers)
batches.read_next_batch()
{end}
"""
    for _ in range(3):
        left = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (left.returncode, left.stderr) == (0, "")


def test_limit_of_duckdb_ends_an_endless_flow() -> None:
    endless = Endless()
    numbers = endless.query
    assert duckdb.sql("select n from numbers limit 3").fetchall() == [(0,), (1,), (2,)]
    del numbers
    gc.collect()
    assert endless.ended.wait(60)


def test_stream_that_is_never_read_starts_no_flow() -> None:
    endless = Endless()
    reader(endless.query)
    gc.collect()
    assert not endless.taken and not endless.ended.is_set()


@pytest.mark.parametrize("take", [pa.table, pl.DataFrame])
def test_error_of_the_flow_reaches_the_consumer(take: Any) -> None:
    broken = eu.query({"n": [1, 0]}).select(x="1 / n")
    with pytest.raises((pa.ArrowInvalid, pl.exceptions.ComputeError), match="Divide by zero"):
        take(broken)


def test_error_of_the_flow_reaches_duckdb() -> None:
    broken = eu.query({"n": [1, 0]}).select(x="1 / n")
    with pytest.raises(duckdb.Error, match="Divide by zero"):
        duckdb.sql("select * from broken").fetchall()
    assert broken.columns == ["x"]


def test_error_behind_some_batches_comes_behind_their_rows() -> None:
    # The rows before the error are more than the queues hold.
    late = eu.query(eu.generate("integers", rows=2 * 10**7)).select(x="1 / (n - 19000000)")
    batches = reader(late)
    assert batches.read_next_batch().num_rows > 0
    with pytest.raises(pa.ArrowInvalid, match="Divide by zero"):
        batches.read_all()


def test_empty_result_has_its_schema() -> None:
    nothing = eu.query({"n": [1], "city": ["Ur"]}).filter("n > 1")
    table = reader(nothing).read_all()
    assert (table.num_rows, table.column_names) == (0, ["n", "city"])
    assert table.schema == pa.schema(nothing)
    assert duckdb.sql("select * from nothing").fetchall() == []


def types() -> Iterator[tuple[str, pa.Array]]:
    day, noon = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 12)
    yield "dictionary", pa.array(["Ur", None, "Ur"]).dictionary_encode()
    yield "decimal", pa.array([Decimal("1.25"), None, Decimal("-7")], pa.decimal128(20, 2))
    yield "wide_decimal", pa.array([Decimal(10) ** 50, None, Decimal(1)], pa.decimal256(60, 0))
    yield "date", pa.array([day, None, day])
    yield "timestamp", pa.array([noon, None, noon], pa.timestamp("ms"))
    yield "zoned", pa.array([noon, None, noon], pa.timestamp("us", "Europe/Berlin"))
    yield "list", pa.array([[1, None], None, []], pa.list_(pa.int32()))
    yield "struct", pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": []}])
    yield "map", pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64()))
    yield "binary", pa.array([b"\x00", None, b""])
    yield "truth", pa.array([True, None, False])


@pytest.mark.parametrize("name", dict(types()))
def test_values_keep_their_type(name: str) -> None:
    values = dict(types())[name]
    given = pa.table({"place": [0, 1, 2], name: values})
    rows = eu.query(given)
    table = reader(rows).read_all()
    assert table.schema == pa.schema(rows)
    assert table.schema.field(name).type == values.type
    assert table[name].to_pylist() == values.to_pylist()


def test_dictionaries_that_differ_from_batch_to_batch_keep_their_values() -> None:
    words = [["a", "b"], ["c", "b"], ["a", "d"]]
    batches = [pa.table({"w": pa.array(some).dictionary_encode()}) for some in words]
    rows = eu.query(eu.from_arrow(batches, order=True))
    assert reader(rows).read_all()["w"].to_pylist() == [*"abcbad"]


def test_query_as_a_table_of_a_query_is_a_part_of_its_flow() -> None:
    numbers = eu.query(eu.generate("integers", rows=10)).filter("n > 2")
    both = eu.sql("select count(*) as c from numbers")
    assert [node["module"] for node in both.flow._document["modules"]][:2] == ["generate", "filter"]
    assert eu.query(numbers) is numbers
    assert both.to_pydict() == {"c": [7]}


def test_query_given_to_from_arrow_is_a_flow_of_its_own() -> None:
    numbers = eu.query(eu.generate("integers", rows=10)).filter("n > 7")
    doubled = eu.query(eu.from_arrow(numbers, order=True)).select(n="n * 2")
    assert doubled.to_pydict() == {"n": [16, 18]}
    assert doubled.to_pydict() == {"n": [16, 18]}
