"""Random queries, whose rows DuckDB's must equal.

A seed makes the same queries again. `EUPHRATES_SEEDS=100:140` runs other seeds than the ordinary
ones, 50 queries each.
"""

from __future__ import annotations

import os
import random
from datetime import date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu
from random_queries import TABLES, QueryMaker
from slt.records import is_ordered
from test_sql import are_close, rows

QUERIES_OF_A_SEED = 50
FIRST, END = map(int, os.environ.get("EUPHRATES_SEEDS", "0:40").split(":"))


def tables() -> dict[str, pa.Table]:
    """Tables with few values, and nulls; one without rows. Sums of their numbers are exact."""
    found = {
        "a": {
            "id": pa.array([1, 2, 2, 3, None, 5, 7], pa.int64()),
            "k": pa.array([1, 1, 2, None, 2, 3, 0], pa.int32()),
            "s": ["x", "", "y", None, "x", "z", ""],
            "v": [1.5, -0.0, 0.0, None, float("nan"), 2.5, -3.0],
            "b": [True, False, None, True, False, None, True],
        },
        "b": {
            "id": pa.array([2, 2, 3, None, 4, 1], pa.int32()),
            "k": pa.array([1, None, 2, 2, 9, 1], pa.int64()),
            "s": ["x", None, "", "w", "y", "x"],
            "d": pa.array(
                [*map(Decimal, ["1.50", "0.00"]), None, *map(Decimal, ["-2.25", "1.50", "7.00"])],
                pa.decimal128(9, 2),
            ),
            "u": pa.array([1, 2, None, 255, 0, 1], pa.uint8()),
        },
        "c": {
            "id": pa.array([1, 2, 3, 3, None], pa.int16()),
            "k": pa.array([1, 2, 2, None, 0], pa.int64()),
            "s": ["x", "y", "", "x", None],
            "day": [
                date(2020, 1, 1),
                None,
                date(2020, 2, 29),
                date(1969, 12, 31),
                date(2020, 1, 1),
            ],
            "t": pa.array(
                [
                    *(datetime(2020, 1, 1, 12), datetime(2020, 1, 1), None),
                    *(datetime(2021, 5, 5, 5, 5, 5), datetime(2020, 1, 1)),
                ],
                pa.timestamp("us"),
            ),
        },
        "e": {
            "id": pa.array([], pa.int64()),
            "k": pa.array([], pa.int64()),
            "s": pa.array([], pa.string()),
            "v": pa.array([], pa.float64()),
        },
    }
    return {name: pa.table(columns) for name, columns in found.items()}


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    for name, table in tables().items():
        connection.register("given", table)
        connection.execute(f"create table {name} as from given")
    return connection


def test_columns_that_queries_name_are_those_of_the_tables() -> None:
    assert {name: table.column_names for name, table in tables().items()} == {
        name: list(columns) for name, columns in TABLES.items()
    }


@pytest.mark.parametrize("seed", range(FIRST, END))
def test_random_queries_have_the_rows_of_duckdb(
    seed: int, oracle: duckdb.DuckDBPyConnection
) -> None:
    maker = QueryMaker(random.Random(seed))
    given = tables()
    for number in range(QUERIES_OF_A_SEED):
        query = maker.query()
        theirs = oracle.sql(query).to_arrow_table()
        try:
            ours = eu.sql(query, **given).to_pyarrow()
        except eu.EuphratesError as error:
            pytest.fail(f"seed {seed}, query {number}: {query}\n{error}")
        message = f"seed {seed}, query {number}: {query}"
        ordered = is_ordered(query)
        found, expected = rows(ours, ordered), rows(theirs, ordered)
        assert found == expected or are_close(found, expected), message
