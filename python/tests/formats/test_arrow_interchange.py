"""Data exchange with other libraries by Arrow: zero-copy, each stream released once."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from arrow_streams import CountedStream
from euphrates import _euphrates

COLUMNS = {"n": [1, 2, 3], "s": ["a", None, "ç"], "f": [0.5, None, 2.0]}


def test_int96_timestamps_are_read_at_any_depth(
    tmp_path: Path, collected: Callable[..., eu.Table]
) -> None:
    days = [datetime.datetime(year, 12, 31, 23, 59, 59, 999_999) for year in (1, 1582, 2024, 9999)]
    plain = pa.array([*days, None], pa.timestamp("us"))
    nested = pa.StructArray.from_arrays([plain, pa.array(range(5))], ["at", "n"])
    table = pa.table({"at": plain, "in": nested, "all": pa.array([days] * 5)})
    path = tmp_path / "old.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    read = collected(eu.scan(path)).to_pyarrow()
    assert read.schema.field("at").type == pa.timestamp("us")
    assert read.to_pylist() == table.to_pylist()


SPARSE = [None, 1, None, None, 2]
FLOATS = [float("nan"), 0.0, -0.0, None, float("inf")]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [-128, 127, None]),
        (pa.uint8(), [255, 0]),
        (pa.int64(), SPARSE),
        (pa.int64(), [None]),
        (pa.uint64(), [2**64 - 1, 0, 2**63]),
        (pa.float32(), FLOATS),
        (pa.float64(), FLOATS),
        (pa.date32(), SPARSE),
        (pa.time64("us"), SPARSE),
        (pa.timestamp("us", "UTC"), SPARSE),
        (pa.decimal128(9, 2), [decimal.Decimal("-1.25"), None]),
        (pa.decimal128(18, 2), [decimal.Decimal("-1.25"), None]),
        (pa.string(), ["a", "", None, "ç" * 100]),
        (pa.large_string(), ["a", "a", None]),
        (pa.binary(), [b"\xff" * 100, b"", None]),
        (pa.binary(3), [b"abc", None]),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [5, 40_000])
def test_written_parquet_is_readable_by_other_engines(
    kind: pa.DataType, values: list[Any], rows: int, tmp_path: Path
) -> None:
    """Few distinct values are dictionary-encoded; the distinct numbers beside them are not."""
    raw = pa.array((values * rows)[:rows], pa.int64() if values is SPARSE else kind)
    column = raw.cast(pa.int32()).cast(kind) if kind == pa.date32() else raw.cast(kind)
    path = tmp_path / "out.parquet"
    flow = eu.Flow("save")
    table = pa.table({"row": pa.array(range(rows), pa.int64()), "value": column})
    flow.chain(eu.from_arrow(table), eu.sort(["row"]), eu.save(path))
    flow.go()
    found = pq.read_table(path, page_checksum_verification=True)
    assert str(found["value"].to_pylist()) == str(column.to_pylist())
    assert pl.read_parquet(path).equals(pl.from_arrow(found))
    counts = f"select count(value), count(distinct row) from '{path}' where row >= {rows // 2}"
    expected = (rows - rows // 2 - column[rows // 2 :].null_count, rows - rows // 2)
    assert duckdb.connect().sql(counts).fetchall() == [expected]


@pytest.mark.parametrize(
    "make",
    [
        lambda: COLUMNS,
        lambda: pa.table(COLUMNS),
        lambda: pa.record_batch(COLUMNS),
        lambda: pa.table(COLUMNS).to_reader(),
        lambda: pl.DataFrame(COLUMNS),
        lambda: pd.DataFrame(COLUMNS).astype({"s": "str"}),
        lambda: duckdb.connect().from_arrow(pa.table(COLUMNS)),
        lambda: [pa.record_batch(COLUMNS)],
        lambda: lambda: iter([pl.DataFrame(COLUMNS)]),
    ],
    ids=["dict", "table", "batch", "reader", "polars", "pandas", "duckdb", "list", "function"],
)
def test_arrow_sources_are_accepted(
    make: Callable[[], Any], collected: Callable[..., eu.Table]
) -> None:
    columns = collected(eu.from_arrow(make())).to_pydict()
    columns["f"] = [None if value != value else value for value in columns["f"]]
    assert columns == COLUMNS


def test_results_convert_to_other_libraries(collected: Callable[..., eu.Table]) -> None:
    rows = collected(eu.from_arrow(pa.table(COLUMNS)))
    assert rows.to_pyarrow().to_pydict() == COLUMNS
    assert pa.table(rows).to_pydict() == COLUMNS
    assert pl.DataFrame(rows).to_dict(as_series=False) == COLUMNS
    assert rows.to_polars().to_dict(as_series=False) == COLUMNS
    assert rows.to_pandas()["n"].tolist() == COLUMNS["n"]
    assert duckdb.sql("select sum(n), count(s) from rows").fetchall() == [(6, 2)]
    assert rows.to_duckdb().count("*").fetchall() == [(3,)]
    assert rows.to_duckdb(duckdb.connect()).max("n").fetchall() == [(3,)]
    assert rows.to_pylist()[1] == {"n": 2, "s": None, "f": None}
    assert len(rows) == rows.num_rows == 3
    assert rows.column_names == ["n", "s", "f"]
    assert rows.schema.to_pyarrow() == pa.table(COLUMNS).schema
    assert "<td" in rows._repr_html_()


def test_exchange_is_zero_copy(collected: Callable[..., eu.Table]) -> None:
    source = pa.table({"n": pa.array(range(1000)), "s": pa.array(["x" * 10] * 1000)})
    result = pa.table(collected(eu.from_arrow(source), eu.map(lambda batch: batch)))

    def addresses(table: pa.Table) -> list[int]:
        buffers = (b for column in table.columns for b in column.chunk(0).buffers() if b)
        return [buffer.address for buffer in buffers]

    assert addresses(result) == addresses(source)


def test_values_convert_to_python_types(collected: Callable[..., eu.Table]) -> None:
    day = datetime.date(2024, 2, 29)
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 5)
    zone = datetime.timezone.utc
    table = pa.table(
        {
            "bool": [True, None],
            "uint": pa.array([1, None], pa.uint8()),
            "bytes": [b"\0\xff", None],
            "fixed": pa.array([b"ab", None], pa.binary(2)),
            "view": pa.array(["x", None], pa.string_view()),
            "word": pa.array(["x", None]).dictionary_encode(),
            "day": [day, None],
            "moment": [moment, None],
            "zoned": pa.array([moment.replace(tzinfo=zone), None], pa.timestamp("us", "UTC")),
            "money": [decimal.Decimal("1.50"), None],
            "list": [[1, None], None],
            "struct": [{"a": 1}, None],
            "null": [None, None],
        }
    )
    ours = collected(eu.from_arrow(table))
    assert ours.to_pydict() == table.to_pydict()
    assert pa.table(ours).equals(table)


def test_dict_is_a_table_of_its_values(collected: Callable[..., eu.Table]) -> None:
    day = datetime.date(1969, 7, 20)
    moment = datetime.datetime(2001, 1, 1, 2, 3, 4, 5)
    columns = {"d": [day, None], "m": [None, moment], "b": [b"x", b""], "t": [True, None]}
    assert collected(eu.from_arrow(columns)).to_pydict() == columns
    assert collected(eu.from_arrow({"x": [1, 2.5]})).to_pydict() == {"x": [1.0, 2.5]}
    for wrong in ({"x": [1, "a"]}, {"x": [object()]}, {"x": [1], "y": []}):
        with pytest.raises(eu.UsageError):
            eu.from_arrow(wrong)


def test_a_dict_has_values_of_every_type_that_pyarrow_knows(
    collected: Callable[..., eu.Table],
) -> None:
    moment = datetime.datetime(1960, 1, 2, tzinfo=datetime.timezone.utc)
    columns = {
        "decimal": [decimal.Decimal("1.5"), decimal.Decimal("20.25")],
        "list": [[1], None],
        "struct": [{"a": 1}, {"a": 2}],
        "moment": [moment, None],
        "numbers": np.array([1, 2], dtype="int16"),
        "days": np.array(["1960-01-01", "2024-02-29"], dtype="datetime64[D]"),
    }
    table = collected(eu.from_arrow(columns)).to_pyarrow()
    assert table.equals(pa.table(columns))
    made = collected(eu.from_arrow({"n": (n for n in [1, 2]), "list": [[1], []]}))
    assert made.to_pydict() == {"n": [1, 2], "list": [[1], []]}
    with pytest.raises(eu.UsageError, match=r"different numbers of rows: `n` 2, `m` 1"):
        eu.from_arrow({"n": [1, 2], "m": [[1]]})
    with pytest.raises(eu.UsageError, match="is of no column type"):
        eu.from_arrow({"n": [2**70]})


def test_an_index_of_pandas_is_a_column_if_it_has_a_name() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "k": ["x", "y", "x"]}, index=[5, 9, 7])
    assert eu.query(frame).to_pydict() == {"a": [1, 2, 3], "k": ["x", "y", "x"]}
    assert frame.index.tolist() == [5, 9, 7]
    assert set(eu.query(frame.groupby("k").sum()).columns) == {"a", "k"}
    assert set(eu.query(frame.set_index("k", append=True)).columns) == {"a", "k"}
    assert eu.query(frame[frame["a"] > 5]).to_pydict() == {"a": [], "k": []}


def test_columns_of_polars_may_have_nothing_but_nulls() -> None:
    columns = {"a": [1, 2], "n": [None, None], "l": [[None], []], "s": [{"x": None}, None]}
    assert eu.query(pl.DataFrame(columns)).to_pydict() == columns


def test_a_list_of_dicts_is_a_table_of_rows() -> None:
    rows = [{"a": 1, "b": "x"}, {"b": "y", "c": [2]}]
    assert eu.query(rows).to_pydict() == {"a": [1, None], "b": ["x", "y"], "c": [None, [2]]}
    assert eu.sql("select sum(a) as s from t", t=rows).to_pydict() == {"s": [1]}
    assert eu.sql("select sum(a) as s from rows").to_pydict() == {"s": [1]}
    assert eu.query([pa.table({"n": [1]}), pa.table({"n": [2]})]).collect().num_rows == 2
    for wrong, says in (
        ([1, 2], r"\[\{\"n\": 1\}"),
        ([], "a list of dicts"),
        (pl.LazyFrame(rows), "collect"),
    ):
        with pytest.raises(eu.UsageError, match=says):
            eu.query(wrong)


def test_large_tables_are_split_into_batches(collected: Callable[..., eu.Table]) -> None:
    source = pa.table({"n": pa.array(range(1_000_000))})
    table = collected(eu.from_arrow(source, order=True))
    assert len(table.batches) >= 4
    assert pa.table(table).combine_chunks().equals(source)


def test_non_tables_are_rejected(collected: Callable[..., eu.Table]) -> None:
    for wrong, says in [
        (3, "is int, which holds no Arrow data"),
        (None, "give a pyarrow, Polars, pandas or DuckDB table"),
        (pl.LazyFrame(COLUMNS), r"collect\(\) it first"),
        ([{"n": 1}], "pyarrow.Table.from_pylist"),
        ([], "list is empty"),
        ([3], "list holds"),
        (pa.chunked_array([[1]]), "is not a table"),
        (iter([pa.table(COLUMNS)]), "schema="),
    ]:
        with pytest.raises(eu.UsageError, match=says):
            collected(eu.from_arrow(wrong))
    for wrong, says in [
        ({}, "no columns"),
        ({"n": 1}, "column 'n' is of type int, not a list"),
        ({"n": "abc"}, "column 'n' is of type str"),
    ]:
        with pytest.raises(eu.UsageError, match=says):
            eu.from_arrow(wrong)
    iterator = iter([pa.table({"n": [1]}), pa.table({"n": [2]})])
    rows = collected(eu.from_arrow(iterator, schema={"n": "int64"}, order=True)).to_pydict()
    assert rows == {"n": [1, 2]}
    changing = [pa.table({"n": [1]}), pa.table({"m": [2]})]
    with pytest.raises(eu.FlowError, match="promised were n: Int64"):
        collected(eu.from_arrow(changing))


def test_stream_is_pulled_with_backpressure() -> None:
    stream = CountedStream(batches=10_000, rows=1000)
    flow = eu.Flow()
    source = flow.place(eu.from_arrow(stream))
    flow.attach(source, flow.place(eu.limit(5)), bytes_max=10_000)
    flow.attach("limit_1", flow.place(eu.collect()))
    assert len(flow.go().collected()) == 5
    assert stream.given < 100
    assert stream.released == 1


def test_streams_and_batches_are_released_exactly_once(
    collected: Callable[..., eu.Table],
) -> None:
    stream = CountedStream(batches=20, rows=10)
    table = collected(eu.from_arrow(stream), eu.map(lambda batch: batch))
    assert (stream.opened, stream.released, stream.given) == (1, 1, 20)
    assert stream.batches_released == 0
    theirs = pa.table(table)
    del table
    assert stream.batches_released == 0
    assert theirs.num_rows == 200
    del theirs
    assert stream.batches_released == 20


def test_streams_of_unrun_flows_are_released() -> None:
    stream = CountedStream(batches=20, rows=10)
    flow = eu.Flow()
    flow.chain(eu.from_arrow(stream), eu.collect())
    flow.check()
    assert (stream.opened, stream.released, stream.given) == (1, 1, 0)
    capsule = flow.go().collected().__arrow_c_stream__()
    del capsule
    assert (stream.opened, stream.released) == (2, 2)
    failing = CountedStream(batches=20, rows=10, fails_at=3)
    flow = eu.Flow()
    flow.chain(eu.from_arrow(failing), eu.collect())
    with pytest.raises(eu.FlowError, match="the well is dry"):
        flow.go()
    assert failing.released == 1
    assert failing.batches_released == 3


TYPES = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(5)),
    *(pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("us"), pa.duration("s")),
    *(pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.month_day_nano_interval()),
    *(pa.decimal32(5, 2), pa.decimal64(10, 3), pa.decimal128(38, -2), pa.decimal256(70, 10)),
    *(pa.list_(pa.int64()), pa.large_list(pa.string()), pa.list_(pa.int8(), 3)),
    pa.struct([pa.field("a b", pa.int64(), nullable=False), pa.field("c", pa.list_(pa.date32()))]),
    *(pa.map_(pa.string(), pa.int64()), pa.dictionary(pa.int32(), pa.string())),
    pa.sparse_union([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
    pa.list_(pa.field("item", pa.int64(), metadata={"unit": "mm"})),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_schema_is_printed_as_it_is_written(kind: pa.DataType) -> None:
    given = pa.schema([pa.field("a", kind), pa.field("b", pa.int64(), nullable=False)])
    words = _euphrates.schema_words(given)
    schema = eu.schema(words)
    assert dict(zip(schema.names, schema.types, strict=True)) == words
    assert pa.schema(eval(repr(schema), {"schema": eu.schema})) == given


@pytest.mark.parametrize("column", ["i", "{'x': i}", "[i]"])
def test_intervals_for_polars_are_an_error_with_a_remedy(column: str) -> None:
    # Polars panics, with an exception that is none of `Exception`.
    rows = eu.sql(f"select {column} as c from (select interval '1 month' as i)").collect()
    with pytest.raises(eu.UsageError, match=r"`c`(.|\n)*intervals(.|\n)*cast it to text"):
        rows.to_polars()
    assert rows.num_rows == 1
