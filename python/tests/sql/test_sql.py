"""SQL queries, whose results DuckDB's must equal."""

from __future__ import annotations

import math
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from sql_tables import tables

HERE = Path(__file__).parent
BENCH = HERE.parents[2] / "bench" / "peers"
TPCH = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def queries(file: str) -> list[str]:
    lines = (HERE / file).read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    return [query.strip() for query in text.split(";") if query.strip()]


def outermost(query: str) -> str:
    """The query without what stands in parentheses."""
    while (shorter := re.sub(r"\([^()]*\)", "", query)) != query:
        query = shorter
    return query


def plain(value: Any) -> Any:
    """A value that is the same for equal values of different types."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        number = float(value)
        # A quotient of decimals is a decimal here, and a double in DuckDB.
        return "nan" if math.isnan(number) else float(f"{number + 0.0:.6g}")
    if hasattr(value, "isoformat"):
        return value.isoformat().removesuffix("T00:00:00")
    return value


def rows(table: pa.Table, is_ordered: bool) -> list[list[Any]]:
    columns = [[plain(value) for value in column.to_pylist()] for column in table.columns]
    found = [list(row) for row in zip(*columns, strict=True)]
    return found if is_ordered else sorted(found, key=str)


def are_close(found: list[list[Any]], expected: list[list[Any]]) -> bool:
    """Whether only the last digits of floating point numbers differ."""

    def is_close(one: Any, other: Any) -> bool:
        both_numbers = isinstance(one, float) and isinstance(other, float)
        return math.isclose(one, other, rel_tol=1e-5) if both_numbers else one == other

    return len(found) == len(expected) and all(
        all(map(is_close, one, other)) for one, other in zip(found, expected, strict=True)
    )


def same(query: str, ours: pa.Table, theirs: pa.Table, *, is_ordered: bool) -> None:
    assert rows(ours, is_ordered) == rows(theirs, is_ordered), query


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in tables().items():
        connection.register("given", table)
        connection.execute(f"create table {name} as from given")
    return connection


@pytest.mark.parametrize("query", queries("queries.sql"))
def test_query_has_the_rows_of_duckdb(query: str, oracle: duckdb.DuckDBPyConnection) -> None:
    ours = eu.sql(query, **tables()).to_pyarrow()
    theirs = oracle.sql(query).to_arrow_table()
    # DuckDB allows two columns of one name.
    assert len(set(ours.column_names)) == theirs.num_columns
    same(query, ours, theirs, is_ordered="order by" in outermost(query))


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tpch")
    paths = {name: str(folder / f"{name}.parquet") for name in TPCH}
    for name, path in paths.items():
        eu.generate(name, scale=0.02).save(path)
    return paths


@pytest.fixture(scope="module")
def web_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Some rows of the log that the benchmark generates, in several row groups."""
    sys.path.insert(0, str(BENCH))
    import weblog

    path = str(tmp_path_factory.mktemp("weblog") / "hits.parquet")
    pq.write_table(weblog.part(1, 4000), path, row_group_size=1000)
    return path


@pytest.mark.parametrize("number", range(1, 23))
def test_tpch_query_has_the_rows_of_duckdb(number: int, tpch: dict[str, str]) -> None:
    query = queries("tpch.sql")[number - 1]
    ours = eu.sql(query, **tpch).to_pyarrow()
    connection = duckdb.connect()
    for name, path in tpch.items():
        connection.execute(f"create view {name} as from '{path}'")
    same(query, ours, connection.sql(query).to_arrow_table(), is_ordered=True)


def test_queries_have_the_same_rows_on_several_processes(
    tpch: dict[str, str], web_log: str
) -> None:
    """The queries of TPC-H, and those of the web log of the benchmark."""
    connection = duckdb.connect()
    for name, path in (tpch | {"hits": web_log}).items():
        connection.execute(f"create view {name} as from '{path}'")
    texts = [(query, tpch) for query in queries("tpch.sql")]
    texts += [(query, {"hits": web_log}) for query in queries(str(BENCH / "weblog.sql"))]
    with eu.Cluster.processes(2) as cluster:
        for query, paths in texts:
            ours = eu.sql(query, **paths).to_pyarrow(cluster=cluster)
            theirs = connection.sql(query).to_arrow_table()
            is_ordered = "order by" in outermost(query)
            found, expected = rows(ours, is_ordered), rows(theirs, is_ordered)
            assert are_close(found, expected), query


def test_names_are_the_same_whatever_their_capitals() -> None:
    table = pa.table({"WatchID": [1, 2], "URL": ["a", "b"]})
    query = "select watchid, Url as Address from Hits where URL = 'b' order by ADDRESS"
    assert eu.sql(query, hits=table).to_pylist() == [{"WatchID": 2, "Address": "b"}]


def test_columns_that_differ_in_capitals_alone_are_told_apart_by_quotes() -> None:
    table = pa.table({"a": [1], "A": [2]})
    assert eu.sql('select "a" + 0 as x, "A" + 0 as y from t', t=table).to_pylist() == [
        {"x": 1, "y": 2}
    ]


def test_columns_are_called_like_words_of_the_language() -> None:
    """`user` and others are functions for the parser; the names of columns come first."""
    words = ["user", "current_date", "localtime", "select", "trim", "struct", "desc", "a b"]
    words += ['"', ""]
    table = pa.table({word: [at, at + 100, None] for at, word in enumerate(words)})
    for at, word in enumerate(words):
        name = '"' + word.replace('"', '""') + '"'
        text = f"select {name} from t where {name} > -1 group by {name} order by {name} desc"
        assert eu.sql(text, t=table).to_pydict() == {word: [at + 100, at]}
        built = eu.query(table).filter(eu.col(word) > 50).select(n=eu.col(word) + 1)
        assert built.to_pydict() == {"n": [at + 101]}
    assert eu.query(table).filter("user > 50").select("user").to_pydict() == {"user": [100]}
    found = eu.sql("select user, t.user + 1 as n from t where user = 0", t=table)
    assert found.to_pydict() == {"user": [0], "n": [1]}


def test_name_in_single_quotes_is_a_folder_rather_than_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sales = eu.query({"n": [1, 2]})
    sales.save("sales/")
    sales.save("sales/", mode="append")
    count = "select count(*) as c from {}"
    assert eu.sql(count.format("'sales'")).to_pydict() == {"c": [4]}
    assert eu.sql(count.format("sales")).to_pydict() == {"c": [2]}
    assert eu.sql(count.format("'sales'"), sales=sales.limit(1)).to_pydict() == {"c": [1]}
    others = [{"n": 1}]
    assert eu.sql(count.format("'others'")).to_pydict() == {"c": [len(others)]}
    del sales
    with pytest.raises(eu.UsageError) as error:
        eu.sql(count.format("sales"))
    assert "from 'sales/'" in str(error.value.remedy)


def test_tables_are_paths_collections_and_variables(tmp_path: Path) -> None:
    path = tmp_path / "n.parquet"
    eu.query({"n": [1, 2]}).save(path)
    eu.query({"n": [3]}).save("@more")
    local = {"n": [4]}
    assert local
    query = f"""
        select n from '{path}' union all select n from "@more" union all select n from local
        order by n"""
    assert eu.sql(query).to_pydict() == {"n": [1, 2, 3, 4]}


def test_statements_write_files_and_collections(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    eu.sql(f"copy (select 1 as n) to '{path}'").flow.go()
    assert path.read_text() == "n\n1\n"
    eu.sql("create table numbers as select 2 as n").flow.go()
    assert eu.query("@numbers").to_pydict() == {"n": [2]}
    with pytest.raises(eu.UsageError, match="numbers"):
        eu.sql("create table numbers as select 3 as n").flow.go()
    eu.sql("create or replace table numbers as select 3 as n").flow.go()
    assert eu.query("@numbers").to_pydict() == {"n": [3]}


def test_sql_builds_the_flow_of_the_methods() -> None:
    sales = {"city": ["Ur", "Kish"], "price": [2, 3]}
    text = eu.sql(
        "select city, sum(price) as paid from sales where price > 1 group by city order by paid",
        sales=sales,
    )
    built = eu.query(sales).filter("price > 1").group_by("city").agg(paid="sum(price)").sort("paid")
    kinds = [
        [(m["module"], m["config"]) for m in q.flow._document["modules"]] for q in (text, built)
    ]
    assert kinds[0][1:] == kinds[1][1:]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from peple", r"no table named `peple`(.|\n)*people"),
        ("select nme from people", r"no column named `nme`(.|\n)*name"),
        ("select foo(id) from people", "no function named `foo`"),
        ("select sum(name) from people", "no function takes the arguments of `sum"),
        ("select id from people p, sales s where amount = id and person = oops", "oops"),
        ("select city from people join cities on people.city = cities.city", "(?i)ambiguous"),
        ("selec 1", r"cannot be parsed(.|\n)*\^"),
        ("select 1; select 2", "2 statements"),
        ("", "there is no statement"),
        ("select name + 1 from people", "(?i)numbers|coerce|Utf8"),
        ("drop table people", "drop table"),
        ("explain (costs off) select 1", "cannot be parsed"),
        ("select list_sort([1], lambda x: x) from people", "(?i)lambda"),
        ("select list_transform(id, lambda x: x) from people", "not a list"),
        ("select q.id from people p", "no table named `q`"),
        ("pivot people on city using sum(age)", r"values of its column(.|\n)*on city in"),
        ("select * from people unpivot (v for n in (age + 1))", "takes columns"),
        ("select * from range('a')", "whole numbers"),
        ("select * from range(1, 2, 0)", "zero"),
        ("select * from rows_of(1)", "no function named `rows_of` has rows"),
        ("select 1 from people a asof join sales s on a.id = s.person", "asof join compares"),
        ("select 1 from people a asof join sales s", "asof join has no condition"),
        ("select 1 from people a asof full join sales s on a.id > s.person", "(?i)parsed"),
        ("select 1 from people a asof join sales s on a.id > s.person or true", "no condition of"),
        ("select (select id, age from people) as x", "(?i)one column"),
        ("select id from people limit id", "no column"),
        ("select id from people limit 1 + random()", "limit"),
        ("insert into people values (1)", "insert"),
        ("select count(*) from people tablesample (many)", "how many rows"),
        ("select 1 from people, sales using sample 3", "follows several tables"),
        ("select 1 as a union select 1, 2", "union|columns"),
        ("select id from people for update", "for update"),
        ("select " + " + ".join(["id"] * 3000) + " from people", "2999 operators"),
        ("copy (select 1 as n) to 'n.csv'", r"flow\.go"),
    ],
)
def test_what_is_wrong_or_not_supported_is_named(query: str, said: str) -> None:
    with pytest.raises(eu.UsageError, match=said):
        eu.sql(query, **tables()).to_pyarrow()


@pytest.mark.parametrize(("word", "value"), [("or", True), ("and", False)])
def test_long_chains_are_planned(word: str, value: bool) -> None:
    operator = "=" if word == "or" else "<>"
    terms = [f"id {operator} {number}" for number in range(500)]
    query = f"select {f' {word} '.join(terms)} as x from people where id = 3"
    assert eu.sql(query, **tables()).to_pydict() == {"x": [value]}


def test_subquery_of_several_rows_fails() -> None:
    with pytest.raises(eu.EuphratesError, match="more than one row"):
        eu.sql("select (select id from people) as x", **tables()).to_pyarrow()


def test_failing_rows_are_named() -> None:
    with pytest.raises(eu.EuphratesError, match="row"):
        eu.sql("select id / (id - 1) as x from people", **tables()).to_pyarrow()


def test_batches_come_while_the_flow_runs_and_its_error_comes_last() -> None:
    numbers = eu.generate("integers", rows=200_000)
    assert sum(len(batch) for batch in numbers.batches()) == 200_000
    for batch in eu.generate("integers", rows=10**12).batches():
        assert len(batch) > 0
        break
    failing = numbers.select("1 / (n - 150000) as x")
    with pytest.raises(eu.FlowError, match="row"):
        list(failing.batches())
    assert list(numbers.filter("n < 0").batches()) == []


def test_samples_take_their_share_and_one_reader_takes_the_same_for_a_seed() -> None:
    numbers = {"n": list(range(10_000))}
    query = "select n from numbers tablesample (10 percent) repeatable ({})"
    one, again, other = (
        eu.sql(query.format(seed), numbers=numbers).to_pydict(cores=1)["n"] for seed in (1, 1, 2)
    )
    assert 800 < len(one) < 1200
    assert one == again != other
    three = eu.sql("select n from numbers using sample 3 rows", numbers=numbers)
    assert len(set(three.to_pydict()["n"])) == 3


def test_failing_casts_name_the_value_the_type_and_the_remedy() -> None:
    with pytest.raises(eu.EuphratesError) as failed:
        eu.sql("select n::int as n from t", t={"n": ["1", "abc"]}).to_pydict()
    said = str(failed.value)
    assert "'abc'" in said and "Int32" in said and "try_cast" in said
