"""Batches of queries and consumers in other formats, with the names of Ray Data's methods."""

from __future__ import annotations

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


def test_last_batch_may_be_dropped(source: Any) -> None:
    assert [len(one["n"]) for one in source.iter_batches(batch_size=4, drop_last=True)] == [4, 4]


def test_rows_are_dicts(source: Any) -> None:
    assert list(source.iter_rows()) == ROWS.to_pylist()


def test_materialized_rows_are_a_query(source: Any) -> None:
    assert source.materialize().filter("n > 7").to_pydict()["n"] == [8, 9]


@pytest.mark.parametrize("size", [0, -3])
def test_wrong_size_is_an_error(source: Any, size: int) -> None:
    with pytest.raises(eu.UsageError, match=f"batch_size is {size}"):
        source.iter_batches(batch_size=size)


def test_unknown_format_is_an_error(source: Any) -> None:
    with pytest.raises(eu.UsageError, match="no batch format `arrow`") as caught:
        source.iter_batches(batch_format="arrow")
    assert caught.value.remedy == "known: numpy, pandas, pyarrow"


def test_prefetching_is_bounded(source: Any) -> None:
    with pytest.raises(eu.UsageError, match="prefetch_batches is 4"):
        source.iter_batches(prefetch_batches=4)


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


@pytest.mark.parametrize("seed", [1 << 63, -(1 << 63) - 1])
def test_seed_has_64_bits(seed: int) -> None:
    with pytest.raises(eu.UsageError, match="the seed is"):
        integers(3).shuffle(seed)


def test_shuffle_by_an_unknown_column_is_an_error() -> None:
    with pytest.raises(eu.UsageError, match="no column named `m`"):
        integers(3).shuffle(1, by="m")
