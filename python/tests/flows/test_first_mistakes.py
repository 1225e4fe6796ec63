"""Mistakes of the first hour, and what the errors say of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import euphrates as eu

SOURCE = eu.generate("integers", rows=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: eu.Flow().chain(SOURCE, eu.count, eu.collect()),
        lambda: eu.Flow().chain(SOURCE, eu.count(), eu.collect),
        lambda: eu.Flow().place(eu.sort),
        lambda: SOURCE.then(eu.count),
        lambda: eu.map(eu.count),
    ],
)
def test_a_function_of_a_module_that_is_not_called_is_named(make: Callable[[], object]) -> None:
    with pytest.raises(
        eu.UsageError, match=r"eu\.\w+ is the function that makes a module"
    ) as error:
        make()
    assert str(error.value.remedy).startswith("call it: eu.")


def test_expressions_are_taken_where_sql_is() -> None:
    flow = eu.Flow()
    doubled = (eu.col("n") * 2).alias("m")
    flow.chain(SOURCE, eu.filter(eu.col("n") > 0), eu.project(["n", doubled]), eu.collect())
    assert flow.go().collected().to_pydict() == {"n": [1, 2], "m": [2, 4]}
    flow = eu.Flow()
    sums = eu.aggregate([], values={"total": eu.col("n").sum()})
    flow.chain(SOURCE, sums, eu.collect())
    assert flow.go().collected().to_pylist() == [{"total": 3}]
    assert eu.Flow.from_json(flow.to_json()).go().collected().to_pylist() == [{"total": 3}]
