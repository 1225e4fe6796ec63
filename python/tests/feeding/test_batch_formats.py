"""Batches of queries and consumers in other formats, with the names of Ray Data's methods."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import euphrates as eu
from feeding_cases import integers

ROWS = pa.table(
    {
        "n": pa.array(range(10), pa.int32()),
        "x": pa.array([None if n == 3 else n / 2 for n in range(10)]),
        "text": [f"row {n}" for n in range(10)],
        "pair": pa.array([[n, -n] for n in range(10)], pa.list_(pa.int64(), 2)),
    }
)


@pytest.fixture(params=["query", "consumer"])
def source(request: pytest.FixtureRequest) -> Iterator[Any]:
    rows = eu.query(ROWS)
    if request.param == "query":
        yield rows
        return
    with rows.split(1, batch_size=4) as consumers:
        yield consumers[0]


def test_batches_have_the_size_and_the_format(source: Any) -> None:
    by_rows = list(source.iter_batches(batch_size=3))
    assert [len(batch["n"]) for batch in by_rows] == [3, 3, 3, 1]
    assert all(isinstance(batch["n"], np.ndarray) for batch in by_rows)
    assert by_rows[0]["pair"].tolist() == [[0, 0], [1, -1], [2, -2]]
    frames = list(source.iter_batches(batch_size=5, batch_format="pandas"))
    assert pd.concat(frames)["text"].tolist() == ROWS["text"].to_pylist()
    tables = list(source.iter_batches(batch_size=None, batch_format="pyarrow"))
    assert pa.concat_tables(tables).equals(ROWS)


BIG = 2**53 + 1
"""An integer that a floating point number of 64 bits does not hold."""
WITH_NULLS = pa.table(
    {
        "int64": pa.array([BIG, None, -BIG], pa.int64()),
        "uint64": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "int8": pa.array([-128, None, 127], pa.int8()),
        "bool": pa.array([True, None, False]),
        "code": pa.array([BIG, None, 1]).dictionary_encode(),
        "list": pa.array([[BIG, None], None, [1, 2]], pa.list_(pa.int64())),
        "pair": pa.array([[BIG, None], [1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
        "struct": pa.array([{"n": BIG}, None, {"n": None}], pa.struct([("n", pa.int64())])),
        "map": pa.array([[("a", BIG), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
    }
)


@pytest.fixture(params=["query", "consumer"])
def with_nulls(request: pytest.FixtureRequest) -> Iterator[Any]:
    rows = eu.query(WITH_NULLS)
    if request.param == "query":
        yield rows
        return
    with rows.split(1) as consumers:
        yield consumers[0]


def plain(value: Any) -> Any:
    """A value without arrays of NumPy and without the missing value of pandas."""
    if isinstance(value, np.ndarray | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return None if value is pd.NA else value


def test_arrays_of_integers_with_nulls_are_exact(with_nulls: Any) -> None:
    (batch,) = with_nulls.iter_batches(batch_format="numpy")
    for name, values in batch.items():
        assert values.dtype == object, name
        assert plain(values) == WITH_NULLS[name].to_pylist(), name
    assert batch["pair"].shape == (3, 2)
    assert batch["int8"].astype(float)[0] == -128 and np.isnan(batch["int8"].astype(float)[1])


def test_frames_of_integers_with_nulls_are_exact(with_nulls: Any) -> None:
    (frame,) = with_nulls.iter_batches(batch_format="pandas")
    types = {"int64": "Int64", "uint64": "UInt64", "int8": "Int8", "bool": "boolean"}
    assert {name: str(frame.dtypes[name]) for name in types} == types
    for name in WITH_NULLS.column_names:
        if name != "code":
            assert plain(frame[name].tolist()) == WITH_NULLS[name].to_pylist(), name
    assert frame["code"].cat.categories.tolist() == [BIG, 1]


def test_columns_without_nulls_have_the_types_of_numpy() -> None:
    rows = eu.query(WITH_NULLS).filter("int8 is not null")
    (batch,) = rows.iter_batches()
    assert [batch[name].dtype for name in ("int64", "uint64", "int8", "bool")] == [
        *("int64", "uint64", "int8", "bool")
    ]
    assert str(rows.to_pandas().dtypes["int64"]) == "int64"


def test_frames_of_a_query_keep_their_index_beside_exact_integers() -> None:
    index = pd.Index([7, 8], name="i")
    columns = {"a": pd.array([BIG, None], "Int64"), "b": [1.5, 2.5]}
    for position in ("i", None):
        frame = pd.DataFrame(columns, index=index if position else None)
        made = eu.query(frame).to_pandas()
        assert made["a"].tolist() == [BIG, pd.NA] and str(made.dtypes["a"]) == "Int64"
        assert made.equals(frame)
    empty = eu.query(WITH_NULLS).filter("int8 = 3").to_pandas()
    assert len(empty) == 0 and [*empty.columns] == WITH_NULLS.column_names


def test_frames_may_have_two_columns_of_one_name() -> None:
    table = pa.table([pa.array([1, 2]), pa.array([BIG, None])], names=["n", "n"])
    from euphrates._user_code.rows import frame_of

    assert frame_of(table).iloc[:, 1].tolist() == [BIG, pd.NA]


def test_times_of_nanoseconds_are_rounded_down() -> None:
    rows = eu.query(pa.table({"t": pa.array([1_999, None], pa.time64("ns"))}))
    (batch,) = rows.iter_batches()
    assert batch["t"].tolist() == rows.to_pandas()["t"].tolist() == rows.to_pydict()["t"]
    assert batch["t"].tolist() == [datetime.time(0, 0, 0, 1), None]


def test_last_batch_may_be_dropped(source: Any) -> None:
    assert [len(one["n"]) for one in source.iter_batches(batch_size=4, drop_last=True)] == [4, 4]


def test_rows_are_dicts(source: Any) -> None:
    assert list(source.iter_rows()) == ROWS.to_pylist()


VALUES = {
    "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
    "map of lists": pa.array([[([1], 1)], None], pa.map_(pa.list_(pa.int64()), pa.int64())),
    "timestamp": pa.array([-1, 1_999, None], pa.timestamp("ns")),
    "timestamp with a zone": pa.array([-1, None], pa.timestamp("ns", "Asia/Tokyo")),
    "time": pa.array([1_999, None], pa.time64("ns")),
    "duration": pa.array([-1, None], pa.duration("ns")),
    "dictionary": pa.array([1_999, None], pa.timestamp("ns")).dictionary_encode(),
    "list": pa.array([[1_999, None], None, []], pa.list_(pa.timestamp("ns"))),
    "fixed-size list": pa.array([[1, 2], None], pa.list_(pa.timestamp("ns"), 2)),
    "struct": pa.array(
        [{"m": [("a", 5)], "t": 1}, None, {"m": None, "t": None}],
        pa.struct([("m", pa.map_(pa.string(), pa.int32())), ("t", pa.timestamp("ns"))]),
    ),
    "map of maps": pa.array(
        [[("a", [("b", 1)])]], pa.map_(pa.string(), pa.map_(pa.string(), pa.timestamp("ns")))
    ),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_rows_have_the_values_of_a_list(kind: str) -> None:
    rows = eu.query(pa.table({"value": VALUES[kind], "n": range(len(VALUES[kind]))}))
    expected = rows.to_pylist()
    found = list(rows.iter_rows())
    with rows.split(1) as consumers:
        received = list(consumers[0].iter_rows())
    assert found == received == expected
    types = [type(row["value"]) for row in expected]
    assert [type(row["value"]) for row in found] == types
    assert [type(row["value"]) for row in received] == types


def test_values_that_python_does_not_hold_are_named() -> None:
    rows = eu.query(pa.table({"t": pa.array([10**12], pa.timestamp("s"))}))
    with pytest.raises(eu.UsageError, match=r"does not hold .* of type"):
        list(rows.iter_rows())
    with rows.split(1) as consumers, pytest.raises(eu.UsageError, match="column `t` of type"):
        list(consumers[0].iter_rows())


def test_materialized_rows_are_a_query(source: Any) -> None:
    assert source.materialize().filter("n > 7").to_pydict()["n"] == [8, 9]


@pytest.mark.parametrize("size", [0, -3, 2.0, "2"])
def test_wrong_size_is_an_error(source: Any, size: Any) -> None:
    with pytest.raises(eu.UsageError, match=f"batch_size is {size!r}"):
        source.iter_batches(batch_size=size)


def test_unknown_format_is_an_error(source: Any) -> None:
    with pytest.raises(eu.UsageError, match="no batch format `arrow`") as caught:
        source.iter_batches(batch_format="arrow")
    assert caught.value.remedy == "known: numpy, pandas, pyarrow"


@pytest.mark.parametrize("ahead", [4, -1, "1"])
def test_prefetching_is_bounded(source: Any, ahead: Any) -> None:
    with pytest.raises(eu.UsageError, match=f"prefetch_batches is {ahead!r}"):
        source.iter_batches(prefetch_batches=ahead)


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_prefetching_changes_no_rows(ahead: int) -> None:
    with integers(1000).split(1, batch_size=10) as consumers:
        for size in (7, 25, 1000, 3000):
            batches = consumers[0].iter_batches(batch_size=size, prefetch_batches=ahead)
            assert np.concatenate([one["n"] for one in batches]).tolist() == list(range(1000))


def test_units_within_a_batch_are_given_back_when_the_loop_is_left() -> None:
    """The first batch ends within the second unit, so only the first unit is acknowledged."""
    with integers(100).split(2, batch_size=10) as consumers:
        for count, _ in enumerate(consumers[0].iter_batches(batch_size=15)):
            if count == 1:
                break
        assert [row["n"] for row in consumers[1].iter_rows()] == list(range(10, 100))


def test_stats_are_those_of_the_last_run() -> None:
    rows = integers(10)
    with pytest.raises(eu.UsageError, match="the query has not run"):
        rows.stats()
    assert len(list(rows.iter_rows())) == 10
    assert rows.stats().startswith("flow `query` finished")


def test_shuffle_depends_on_seed_and_rows_alone() -> None:
    rows = integers(1000)
    first = rows.shuffle(1).to_pydict()["n"]
    assert sorted(first) == list(range(1000)) != first
    assert rows.shuffle(1).to_pydict(cores=1)["n"] == first
    assert rows.sort("n desc").shuffle(1).to_pydict(workers=3)["n"] == first
    assert rows.shuffle(2).to_pydict()["n"] != first
    assert rows.shuffle(1, by="n").to_pydict(workers=2) == rows.shuffle(1, by="n").to_pydict()


def test_shuffle_spreads_equal_rows() -> None:
    table = pa.table({"x": [1] * 500 + [2] * 500, "list": [[1], None] * 500})
    found = eu.query(table).shuffle(7).to_pydict()["x"]
    assert sorted(found) == table["x"].to_pylist()
    assert 200 < found[:500].count(1) < 300


@pytest.mark.parametrize("seed", [1 << 63, -(1 << 63) - 1, "7", 0.5])
def test_seed_has_64_bits(seed: Any) -> None:
    with pytest.raises(eu.UsageError, match="the seed is"):
        integers(3).shuffle(seed)


def test_shuffle_by_an_unknown_column_is_an_error() -> None:
    with pytest.raises(eu.UsageError, match="no column named `m`"):
        integers(3).shuffle(1, by="m")
