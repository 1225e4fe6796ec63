"""Mistakes of the first hour, and what the errors say of them."""

from __future__ import annotations

import datetime
import io
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
from euphrates.errors import UnknownArgument, UnknownName

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


FLOW = eu.Flow("first")
PLACED = FLOW.place(SOURCE)
TABLE = eu.query({"n": [1, 2]}).collect()
FRAME = pl.DataFrame({"n": [1, 2]})


def report() -> eu.Report:
    flow = eu.Flow()
    flow.chain(SOURCE, eu.collect())
    return flow.go()


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: eu.col("a", "b"), '.select("city", "price") for several'),
        (lambda: eu.col(), 'eu.col("price")'),
        (lambda: eu.lit(), "for example eu.lit("),
        (lambda: eu.call(), 'eu.call("substr"'),
        (lambda: eu.query(), 'eu.query("rows.csv")'),
        (lambda: eu.query("a.csv", "b.csv"), 'eu.query("rows.csv")'),
        (lambda: eu.query(n=[1]), 'eu.query({"n": [1, 2]})'),
        (lambda: eu.sql(), 'eu.sql("select'),
        (lambda: eu.sql("select * from t", {"t": QUERY}), "t={"),
        (lambda: eu.Flow(memory="1GiB"), "write flow.go(memory=…)"),
        (lambda: eu.Flow("a", "b"), 'eu.Flow("cities")'),
        (lambda: eu.Query(), "eu.query("),
        (lambda: eu.Cluster.processes(), "eu.Cluster.processes(2)"),
        (lambda: eu.Cluster.processes(n=2), "write workers=2"),
        (lambda: eu.Cluster.processes(2, cores=3), "flow.go(cluster=cluster, cores=2)"),
        (lambda: eu.Cluster.at("127.0.0.1:1", token="x"), 'token_file="token"'),
        (lambda: eu.Cluster.join("127.0.0.1:0"), "workers=8"),
        (lambda: eu.scan(), "for example eu.scan("),
        (lambda: eu.map(), "for example eu.map("),
        (lambda: eu.sort(["a"], "b"), "by name: stable=…"),
        (lambda: eu.project("a", "b"), 'write a list: eu.project(["a", "b"])'),
        (lambda: eu.generate("integers", 9), "by name: rows=…"),
        (lambda: eu.sort("a", descending=True), 'write by="price desc"'),
        (lambda: eu.open_striped(), "eu.open_striped("),
        (lambda: eu.striped_session(), "eu.striped_session("),
        (lambda: eu.striped_home("at:127.0.0.1:1"), 'token_file="token"'),
        (lambda: eu.scan_delta(), "eu.scan_delta("),
        (lambda: eu.sort_delta("a"), "eu.sort_delta("),
        (lambda: eu.scan_iceberg(), "catalog="),
        (lambda: eu.perturb(0.5), 'eu.perturb(module="scan_1"'),
        (lambda: eu.forget(), "eu.forget("),
        (lambda: eu.module(), "eu.module("),
        (lambda: FLOW >> SOURCE, "write flow.chain(a, b)"),
        (lambda: FLOW | SOURCE, "write flow.chain(a, b)"),
        (lambda: SOURCE >> eu.count(), "write flow.chain(a, b)"),
        (lambda: PLACED | eu.count(), "write a >> b"),
        (lambda: QUERY >> eu.count(), "write .then(module)"),
        (lambda: QUERY + QUERY, "write .union(other)"),
        (lambda: QUERY > 5, 'write .filter("a > 1")'),
        (lambda: eu.col("a") ^ 2, 'eu.call("power", a, 2)'),
        (lambda: QUERY.schema(), "write .schema, without ()"),
        (lambda: TABLE["n"], 'write .to_pydict()["a"]'),
        (lambda: [*TABLE], "table.to_pylist()"),
        (lambda: report()["collect_1"], '.collected("collect_1")'),
    ],
)
def test_calls_and_operators_that_do_not_exist_say_what_to_write(
    call: Callable[[], object], remedy: str
) -> None:
    with pytest.raises(UnknownArgument) as error:
        call()
    assert isinstance(error.value, eu.UsageError) and isinstance(error.value, TypeError)
    assert remedy in str(error.value.remedy)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: eu.query(row for row in [{"n": 1}]), "eu.query(list(rows))"),
        (lambda: eu.query(b"a.csv"), "os.fsdecode(path)"),
        (lambda: eu.query(["a.csv", Path("b.csv")]), "eu.scan([…])"),
        (lambda: eu.query(FRAME["n"]), 'eu.query({"n": values})'),
        (lambda: eu.query(np.array([1, 2])), 'eu.query({"n": values})'),
        (lambda: eu.query(io.StringIO("n")), "the path of a file"),
        (lambda: eu.query(eu.scan), "call it: eu.scan(…)"),
        (lambda: eu.query(eu.Query), "a dict of columns"),
        (lambda: eu.Query({"n": [1]}), "write eu.query(…)"),
        (lambda: eu.scan(FRAME), "write eu.query(rows)"),
        (lambda: eu.scan(b"a.csv"), "os.fsdecode(path)"),
        (lambda: eu.scan(io.StringIO("n")), "the path of the file"),
        (lambda: eu.scan([FRAME]), "the path of a file"),
        (lambda: eu.save(FRAME), "write eu.query(rows)"),
        (lambda: eu.filter(lambda row: row), 'write SQL, "price > 3"'),
        (lambda: eu.query(eu.from_arrow("a.csv")).collect(), "eu.scan('a.csv') reads a file"),
        (lambda: eu.from_arrow(Path("a.csv")), "write eu.scan('a.csv')"),
        (lambda: eu.Flow(SOURCE), "flow.chain(a, b)"),
        (lambda: eu.Flow.from_json({}), "json.dumps(document)"),
        (lambda: eu.Flow().place(SOURCE, count="4"), "a whole number"),
        (lambda: eu.Flow().place(SOURCE, id=5), 'write id="first"'),
        (lambda: eu.Flow().place(SOURCE, workers=5), 'workers=["w0", "w1"]'),
        (lambda: eu.Cluster(), "Cluster.processes(2)"),
        (lambda: eu.Cluster.at("127.0.0.1:1", token_file=5), "token_file="),
        (lambda: QUERY.collect(scratch=5), "scratch="),
        (lambda: QUERY.collect(home=5), "home="),
        (lambda: FLOW.check(variables=5), "variables={"),
        (lambda: QUERY.drop(eu.col("n")), 'write .drop("price")'),
        (lambda: QUERY.rename(str.upper), 'write .rename({"old": "new"})'),
        (lambda: QUERY.rename({"n": 5}), 'give text, "price"'),
        (lambda: eu.col("n").alias(5), 'give text, "price"'),
        (lambda: QUERY.filter(FRAME["n"] > 1), '.join(other, "id")'),
        (lambda: QUERY.with_columns(m=[1, 2, 3]), '.join(other, "id")'),
        (lambda: QUERY.window("n", total=5), "write eu.lit(5)"),
        (lambda: QUERY.window(None, total="sum(n)"), "or eu.lit(None) for null"),
        (lambda: eu.col("n") == None, 'write eu.col("a").is_null()'),  # noqa: E711
        (lambda: eu.col("n") != None, 'write eu.col("a").is_not_null()'),  # noqa: E711
        (lambda: eu.call("upper(a)"), 'eu.call("upper", eu.col("city"))'),
        (lambda: eu.call(5), 'eu.call("upper", eu.col("city"))'),
        (lambda: eu.var(5), 'eu.var("path"'),
        (lambda: eu.module("limit", 5), 'eu.module("limit", {"rows": 3})'),
        (lambda: eu.open_striped(Path("a")), "models/first"),
        (lambda: eu.open_striped("a", "w"), 'write "wb"'),
        (lambda: eu.scan_delta(5), "path="),
        (lambda: eu.studio("flow.py"), "give an eu.Flow or a query"),
    ],
)
def test_values_that_do_not_fit_are_refused_where_they_are_given(
    call: Callable[[], object], remedy: str
) -> None:
    with pytest.raises(eu.UsageError) as error:
        call()
    assert remedy in str(error.value.remedy)


@pytest.mark.parametrize(
    ("owner", "name", "remedy"),
    [
        (PLACED, "filter", "a >> eu.filter(…)"),
        (PLACED, "go", "write flow.go()"),
        (TABLE, "columns", "write .column_names"),
        (TABLE, "shape", "table.num_rows"),
        (TABLE, "head", "write eu.query(table)"),
        (TABLE, "sort", "write eu.query(table)"),
        (TABLE, "to_parquet", 'eu.query(table).save("rows.parquet")'),
        (eu.Cluster, "local", "eu.Cluster.processes(2)"),
        (eu, "LocalCluster", "eu.Cluster.processes(2)"),
        (eu, "load", 'eu.query("rows.csv")'),
        (QUERY.group_by("n"), "to_pydict", 'write .agg(total="sum(a)").to_pydict'),
    ],
)
def test_names_of_results_and_clusters_are_answered(owner: Any, name: str, remedy: str) -> None:
    with pytest.raises(UnknownName) as error:
        getattr(owner, name)
    assert remedy in str(error.value.remedy)


def test_warnings_name_the_line_of_the_program(tmp_path: Path) -> None:
    file = tmp_path / "absent"
    with pytest.warns(UserWarning, match="token") as warned, pytest.raises(eu.UsageError):
        eu.Cluster.at("127.0.0.1:1", token_file=file, channel_security="token")
    assert [one.filename for one in warned] == [__file__]


def test_a_report_answers_for_its_rows() -> None:
    for name in ("to_pandas", "rows", "collect", "sort"):
        with pytest.raises(UnknownName, match=r"collected\(\)"):
            getattr(report(), name)


def test_names_of_native_classes_that_python_asks_for_are_missing_as_ever() -> None:
    assert not hasattr(TABLE, "__arrow_c_array__") and not hasattr(TABLE, "_repr_png_")
    assert pa.table(TABLE).num_rows == pl.DataFrame(TABLE).height == 2
    assert not hasattr(eu.Cluster, "_other")


def test_operators_with_the_column_on_the_right_are_those_of_sql() -> None:
    n = eu.col("n")
    rows = eu.query({"n": [2, 3]})
    computed = rows.select(
        (2**n).alias("p"), (7 // n).alias("q"), (7 % n).alias("r"), (+n).alias("n")
    )
    assert computed.to_pydict() == {"p": [4, 8], "q": [3, 2], "r": [1, 1], "n": [2, 3]}


def test_expressions_are_keys_and_values_of_windows_and_of_sorts() -> None:
    rows = eu.query({"k": [1, 1], "n": [3, 2]})
    total = eu.col("n").sum()
    summed = rows.window(eu.col("k"), order_by=eu.col("n"), total=total)
    assert summed.to_pydict() == rows.window("k", order_by="n", total="sum(n)").to_pydict()
    assert rows.then(eu.sort(eu.col("n"))).to_pydict()["n"] == [2, 3]


def test_variables_of_the_caller_are_tables_of_a_query() -> None:
    rows = {"n": [1, 2]}
    assert eu.sql("select max(n) as m from rows").to_pydict() == {"m": [2]}
    assert rows["n"] == [1, 2]


@pytest.mark.parametrize("values", [[1, "x"], [True, 2], [2.5, "x"]])
def test_pandas_column_of_several_types_has_a_remedy(values: list[Any]) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    with pytest.raises(eu.UsageError, match="column a") as error:
        eu.query(frame).to_pydict()
    assert "astype(str)" in str(error.value.remedy)
    frame["a"] = frame["a"].astype(str)
    assert eu.query(frame).to_pydict() == {"a": [str(value) for value in values]}
