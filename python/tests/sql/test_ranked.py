"""The first rows by an order, of all and for each key, beside DuckDB."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu

random.seed(5)
ROWS = 20_000
TABLE = pa.table(
    {
        "key": [random.randrange(3000) for _ in range(ROWS)],
        "Updated At": random.sample(range(10 * ROWS), ROWS),
        "row_number": [random.random() for _ in range(ROWS)],
    }
)


def test_latest_is_the_row_with_the_greatest_value_of_each_key() -> None:
    ours = eu.query(TABLE).latest("key", by='"Updated At"').sort("key").to_pydict()
    theirs = _connection().sql(
        'select distinct on (key) * from TABLE_ order by key, "Updated At" desc'
    )
    assert ours == theirs.to_arrow_table().to_pydict()


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("TABLE_", TABLE)
    return connection


@pytest.mark.parametrize("rows", [1, 3])
def test_top_rows_of_each_key_are_those_of_duckdb(rows: int) -> None:
    ours = eu.query(TABLE).top(rows, by='"Updated At" asc', per=["key"])
    theirs = _connection().sql(
        "select * from TABLE_ qualify row_number() over"
        f' (partition by key order by "Updated At") <= {rows} order by key, "Updated At"'
    )
    assert ours.sort("key", '"Updated At"').to_pydict() == theirs.to_arrow_table().to_pydict()


def test_nulls_are_least_and_equal_rows_count_once() -> None:
    rows = {"k": [1, 1, 2, 3, 3], "t": [None, 1, None, 4, 4]}
    assert eu.query(rows).latest("k", by="t").sort("k").to_pydict() == {
        "k": [1, 2, 3],
        "t": [1, None, 4],
    }


def test_top_without_a_key_is_sorted() -> None:
    assert eu.query({"n": [1, None, 3, 2]}).top(2, by="n").to_pydict() == {"n": [3, 2]}


def test_top_by_nothing_is_an_error() -> None:
    with pytest.raises(eu.UsageError, match="names no column"):
        eu.query({"n": [1]}).top(1, by=[])
