"""SQL over the input of a module."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

import euphrates as eu

Run = Callable[..., eu.Table]
ENGINES = pytest.mark.parametrize("engine", ["duckdb", "polars"])


def numbers(rows: int, **options: Any) -> eu.modules.ModuleCall:
    return eu.generate("integers", rows=rows, **options)


@ENGINES
def test_query_over_the_whole_input(engine: str, collected: Run) -> None:
    query = "select n % 3 as k, count(*) as c from input group by n % 3 order by k"
    rows = collected(numbers(300_000), eu.external_sql(query, engine=engine))
    assert rows.to_pydict() == {"k": [0, 1, 2], "c": [100_000] * 3}


@ENGINES
def test_query_per_batch_keeps_the_order(engine: str, collected: Run) -> None:
    query = "select n, n * 2 as twice from input where n % 2 = 0"
    rows = collected(
        numbers(300_000, order=True), eu.external_sql(query, engine=engine, per_batch=True)
    )
    assert rows.to_pydict()["n"] == list(range(0, 300_000, 2))


@ENGINES
def test_query_reads_an_input_twice(engine: str, collected: Run) -> None:
    query = "select count(*) as c from input a join input b on a.n = b.n + 1"
    assert collected(numbers(200_000), eu.external_sql(query, engine=engine)).to_pydict() == {
        "c": [199_999]
    }


@ENGINES
def test_query_over_two_inputs(engine: str) -> None:
    flow = eu.Flow()
    query = "select sum(few.n) as s from many join few on many.n = few.n"
    joined = flow.place(eu.external_sql(query, inputs=["many", "few"], engine=engine))
    flow.attach(flow.place(numbers(500_000)), joined, input="many")
    flow.attach(flow.place(numbers(100)), joined, input="few")
    flow.attach(joined, flow.place(eu.collect()))
    assert flow.go().collected().to_pydict() == {"s": [4950]}


@ENGINES
def test_query_over_rejoined_branches(engine: str) -> None:
    flow = eu.Flow()
    tee = flow.place(numbers(1_000_000)) >> eu.tee()
    joined = flow.place(
        eu.external_sql(
            "select count(*) as c from a join b using (n)", inputs=["a", "b"], engine=engine
        )
    )
    flow.attach(tee, joined, input="a", bytes_max=100_000)
    flow.attach(tee, joined, input="b", bytes_max=100_000)
    flow.attach(joined, flow.place(eu.collect()))
    assert flow.go().collected().to_pydict() == {"c": [1_000_000]}


def test_invalid_queries_are_rejected(collected: Run) -> None:
    for query, says in [("select m from input", "m"), ("selekt", "selekt")]:
        with pytest.raises(eu.UsageError, match=says) as caught:
            collected(numbers(3), eu.external_sql(query))
        assert "module external_sql_1" in str(caught.value)
        told = "".join(traceback.format_exception(caught.value.__cause__)) + str(caught.value)
        assert "File" not in told, "no line of these is the user's"
    with pytest.raises(eu.UsageError, match="no engine is called `oracle`"):
        collected(numbers(3), eu.external_sql("select 1", engine="oracle"))


def test_query_failure_at_run_time_is_reported(collected: Run) -> None:
    with pytest.raises(eu.FlowError, match="external_sql_1"):
        collected(numbers(300_000), eu.external_sql("select cast('x' || n as int) as x from input"))
