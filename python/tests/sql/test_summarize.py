"""`summarize`: a row of facts for each column, beside DuckDB."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu

RANDOM = random.Random(3)
ROWS = 5000


def _some(make: Any, nulls: float = 0.1) -> list[Any]:
    return [None if RANDOM.random() < nulls else make() for _ in range(ROWS)]


MIXED = pa.table(
    {
        "id": list(range(ROWS)),
        'it\'s "one"': _some(lambda: RANDOM.choice("abcde")),
        "share": _some(RANDOM.random, 0.5),
        "price": pa.array(_some(lambda: Decimal(RANDOM.randrange(10**6)) / 100)),
        "day": _some(lambda: datetime.date(2024, 1, 1) + datetime.timedelta(RANDOM.randrange(90))),
        "flag": _some(lambda: RANDOM.random() < 0.5),
        "small": pa.array(_some(lambda: RANDOM.randrange(100)), pa.uint8()),
    }
)
NOT_COMPARED = pa.table(
    {
        "list": [[1], [], None],
        "struct": [{"x": 1}, {"x": 2}, None],
        "span": pa.array([pa.MonthDayNano([1, 2, 3]), None, None], pa.month_day_nano_interval()),
    }
)


def test_facts_are_those_of_duckdb() -> None:
    connection = duckdb.connect()
    connection.register("mixed", MIXED)
    theirs = connection.sql("summarize mixed").to_arrow_table().to_pylist()
    ours = eu.query(MIXED).summarize().to_pylist()
    assert list(ours[0]) == list(theirs[0])
    for mine, its in zip(ours, theirs, strict=True):
        for fact in ("column_name", "min", "max", "count"):
            assert mine[fact] == its[fact], (fact, its["column_name"])
        assert mine["null_percentage"] == pytest.approx(float(its["null_percentage"]), abs=0.006)
        distinct = len(set(MIXED[its["column_name"]].drop_null().to_pylist()))
        assert mine["approx_unique"] == pytest.approx(distinct, rel=0.1)
        if mine["avg"] is None:
            assert its["std"] is None
            continue
        for fact in ("avg", "std"):
            assert mine[fact] == pytest.approx(float(its[fact]), rel=1e-9)
        values = sorted(map(float, MIXED[its["column_name"]].drop_null().to_pylist()))
        for fact, part in (("q25", 0.25), ("q50", 0.5), ("q75", 0.75)):
            span = values[-1] - values[0]
            exact = values[int(part * len(values))]
            assert mine[fact] == pytest.approx(exact, abs=0.02 * span), fact


def test_columns_without_an_order_are_counted() -> None:
    for row in eu.query(NOT_COMPARED).summarize().to_pylist():
        assert (row["count"], row["min"], row["approx_unique"]) == (3, None, None)
        nulls = NOT_COMPARED[row["column_name"]].null_count
        assert math.isclose(row["null_percentage"], 100 * nulls / 3)


def test_no_rows_have_no_facts() -> None:
    empty = eu.query(MIXED.slice(0, 0)).summarize().to_pylist()
    assert [row["column_name"] for row in empty] == MIXED.column_names
    facts = {"min", "max", "avg", "std", "q25", "q50", "q75", "null_percentage"}
    assert all(row[fact] is None for row in empty for fact in facts)
    assert all((row["count"], row["approx_unique"]) == (0, 0) for row in empty)


@pytest.mark.parametrize("rows", ["mixed", "select * from mixed", "/* all */\n (from mixed)"])
def test_the_statement_gives_the_rows_of_the_method(rows: str) -> None:
    told = eu.sql(f"Summarize {rows}", mixed=MIXED).select("column_name", "max", "count")
    assert told.to_pylist() == eu.query(MIXED).summarize().select(*told.columns).to_pylist()


def test_errors_of_a_summarized_query_show_their_place() -> None:
    with pytest.raises(eu.UsageError, match=r"\n {14}select 1 1\n {23}\^"):
        eu.sql("summarize select 1 1")
    with pytest.raises(eu.UsageError, match="found: summarize"):
        eu.sql("summarize")
