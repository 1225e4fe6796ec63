"""Mistakes of the first hour, and what the errors say of them."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
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
        (SOURCE, "count", r"write \.group_by\(\)"),
        (SOURCE, "train_test_split", r"write \.filter\("),
        (QUERY, "head", r"write \.limit\(5\)"),
        (QUERY, "to_parquet", r"write \.save\("),
        (QUERY, "write_csv", r"write \.save\("),
        (QUERY, "filtre", "did you mean `filter`"),
        (QUERY, "sample", r"write \.then\(eu\.sample\(fraction=0\.1\)\)"),
        (QUERY, "melt", r"write \.unpivot\("),
        (eu.col("n"), "over", r"write rows\.window\("),
        (eu.col("n"), "round", r'write eu\.call\("round", eu\.col\("a"\)\)'),
        (eu.col("n"), "summ", "an expression has no `summ`; did you mean `sum`"),
        (eu, "when", "case when"),
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


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: eu.scan("a.csv", sep=";"), "write delimiter"),  # type: ignore[call-arg]
        (lambda: eu.scan("a.csv", ignore_errors=True), 'on_error="skip"'),  # type: ignore[call-arg]
        (lambda: eu.map(len, batch_size=8), "write rows_per_call"),  # type: ignore[call-arg]
        (lambda: eu.map(len, sep=8), "options: function"),  # type: ignore[call-arg]
    ],
)
def test_options_of_other_libraries_are_answered_with_ours(
    call: Callable[[], object], remedy: str
) -> None:
    with pytest.raises(TypeError, match=remedy):
        call()


def test_a_cluster_that_is_none_is_refused() -> None:
    for run in (QUERY.collect, QUERY._flow.start):
        with pytest.raises(eu.UsageError, match=r'4 is not a cluster(.|\n)*"processes:4"'):
            run(cluster=4)


def test_what_the_answers_say_can_be_run() -> None:
    rows = eu.query({"a": [1, None, 3], "b": [1, 2, 3], "day": [3, 1, 2]})
    numbered = rows.sql("select *, row_number() over (order by day) as n from self")
    assert numbered.sort("n").to_pydict()["b"] == [2, 3, 1]
    mean = "select day, avg(b) over (order by day rows 6 preceding) as mean from self order by day"
    assert rows.sql(mean).to_pydict()["mean"] == [2.0, 2.5, 2.0]
    assert rows.filter("hash(b) % 10 < 8").union(rows.filter("not hash(b) % 10 < 8")).columns
    assert rows.then(eu.sample(fraction=1.0)).collect().num_rows == 3
    filled = eu.call("coalesce", eu.col("a"), 0)
    assert rows.select(filled.alias("a")).to_pydict() == {"a": [1, 0, 3]}


@pytest.mark.parametrize("owner", [QUERY, eu.col("n")])
def test_items_are_answered_with_methods(owner: Any) -> None:
    with pytest.raises(TypeError, match=r"has no `\['n'\]`; write "):
        owner["n"]


def test_expressions_may_bring_their_names() -> None:
    rows = eu.query({"k": [1, 1, 2], "n": [1, 2, -3]})
    total = (eu.col("n") + eu.col("k")).alias("total")
    assert rows.with_columns(total, n=abs(eu.col("n"))).to_pydict() == {
        "k": [1, 1, 2],
        "n": [1, 2, 3],
        "total": [2, 3, -1],
    }
    sums = rows.group_by("k").agg(eu.col("n").sum().alias("s"), c="count()").sort("k")
    assert sums.to_pydict() == {"k": [1, 2], "s": [3, -3], "c": [2, 1]}
    with pytest.raises(eu.UsageError, match=r'write \.agg\(total="sum\(n\)"\)'):
        rows.group_by("k").agg(eu.col("n").sum())


def test_operators_of_python_are_those_of_sql() -> None:
    n, f = eu.col("n"), eu.col("f")
    rows = eu.query({"n": [-7, 7], "f": [1.26, 2.0]})
    both = rows.select((n // 2).alias("half"), round(f, 1).alias("f"), (f**2).alias("square"))
    assert (
        both.to_pydict()
        == rows.sql(
            "select n // 2 as half, round(f, 1) as f, power(f, 2) as square from self"
        ).to_pydict()
    )
    with pytest.raises(eu.UsageError, match="write parentheses"):
        n > 1 & f  # noqa: B015


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


@pytest.mark.parametrize(
    ("kind", "column_type"),
    [
        (float, "Float64"),
        (str, "Utf8"),
        (datetime.datetime, "Timestamp(µs)"),
        (np.float32, "Float32"),
        (np.dtype("int16"), "Int16"),
        (pa.decimal128(10, 2), "Decimal128(10, 2)"),
        (pl.Float64, "Float64"),
        (pl.String(), "Utf8"),
    ],
)
def test_types_of_columns_may_be_those_of_other_libraries(
    kind: Any, column_type: str, tmp_path: Path
) -> None:
    path = tmp_path / "n.csv"
    path.write_text("n\n1\n")
    assert eu.scan(path, types={"n": kind}).schema.types == [column_type]
    cast = eu.query({"n": ["1"]}).select(eu.col("n").cast(kind).alias("n"))
    assert cast.schema.types == [column_type]


@pytest.mark.parametrize("kind", [list, object(), {"int64"}])
def test_objects_that_are_no_types_of_columns_are_refused(kind: Any) -> None:
    with pytest.raises(eu.UsageError, match="is not the type of a column") as error:
        eu.scan("n.csv", types={"n": kind})
    assert "float64" in str(error.value.remedy)


@pytest.mark.parametrize(
    ("how", "remedy"),
    [("outer", 'write how="full"'), ("cross", "cross join"), ("asof", r"\.join_asof\(")],
)
def test_kinds_of_joins_of_other_libraries_are_answered_with_ours(how: Any, remedy: str) -> None:
    with pytest.raises(eu.UsageError, match=remedy):
        QUERY.join(QUERY, "n", how=how)


@pytest.mark.parametrize("number", ["2", 2.0, True, 0, None])
def test_numbers_of_workers_and_cores_are_whole(number: Any) -> None:
    with pytest.raises(eu.UsageError, match=f"workers is {number!r}"):
        eu.Cluster.processes(number)
    if number is not None:
        with pytest.raises(eu.UsageError, match=f"cores is {number!r}"):
            QUERY.collect(cores=number)
    assert QUERY.collect(cores=np.int64(2)).num_rows == 3


@pytest.mark.parametrize(
    ("run", "name", "remedy"),
    [
        (lambda: QUERY.save("n.parquet", compresion="zstd"), "compresion", "`compression`"),
        (lambda: QUERY.save("n.parquet", wrong=1), "wrong", "partition_by(.*)memory"),
        (lambda: QUERY.split(2, batchsize=1), "batchsize", "`batch_size`"),
        (lambda: QUERY.to_pydict(memry="1GiB"), "memry", "`memory`"),
    ],
)
def test_options_that_do_not_exist_are_answered_with_those_of_the_method(
    run: Callable[[], object], name: str, remedy: str
) -> None:
    with pytest.raises(eu.UsageError, match=f"no option `{name}`(.|\n)*{remedy}"):
        run()


def test_a_demo_that_nobody_reads_ends_without_an_error() -> None:
    command = [sys.executable, "-m", "euphrates", "demo", "--small"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 0


def test_the_values_of_a_pivot_are_a_list() -> None:
    with pytest.raises(eu.UsageError, match=r'write `\.pivot\("city", \["Ur"\]'):
        QUERY.pivot("n", "value", index="n")
