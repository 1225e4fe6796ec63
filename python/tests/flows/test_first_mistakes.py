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


QUERY = eu.query(SOURCE)


@pytest.mark.parametrize(
    ("owner", "name", "remedy"),
    [
        (QUERY, "head", r"write \.limit\(5\)"),
        (QUERY, "to_parquet", r"write \.save\("),
        (QUERY, "write_csv", r"write \.save\("),
        (QUERY, "filtre", "did you mean `filter`"),
        (QUERY.group_by("n"), "mean", r'write \.agg\(mean="avg\(x\)"\)'),
        (eu, "read_csv", r"write eu\.scan\("),
        (eu, "DataFrame", r"write eu\.query\("),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(
    owner: object, name: str, remedy: str
) -> None:
    with pytest.raises(AttributeError, match=remedy):
        getattr(owner, name)


def test_columns_are_given_one_by_one_or_as_a_list() -> None:
    rows = eu.query({"a": [1, 1, 2], "b": [1, 2, 3], "c": [0, 0, 0]})
    assert rows.select(["b", "a"]).columns == rows.select("b", "a").columns == ["b", "a"]
    assert rows.drop(["a", "b"]).columns == ["c"]
    assert rows.group_by(["a", "c"]).agg(n="count()").columns == ["a", "c", "n"]
    assert rows.sort(["a", "b"], descending=[False, True]).to_pydict()["b"] == [2, 1, 3]
    assert rows.sort("a", eu.col("b"), descending=True).to_pydict()["b"] == [3, 2, 1]
    with pytest.raises(eu.UsageError, match="2 columns, and `descending` 1 values"):
        rows.sort("a", "b", descending=[True])


def test_a_number_that_is_no_expression_is_told_to_be_a_literal() -> None:
    with pytest.raises(eu.UsageError) as error:
        eu.query({"a": [1]}).with_columns(b=1)  # type: ignore[arg-type]
    assert error.value.remedy == "write eu.lit(1)"


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
