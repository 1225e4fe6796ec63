"""Names and arguments of pandas, Polars, Spark, DuckDB and Ray Data: every error says what to write
instead, and what it says can be run.
"""

from __future__ import annotations

import ast
import datetime
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import euphrates as eu
from euphrates._other_names import arguments, names
from euphrates.errors import UnknownArgument, UnknownName

ROWS = eu.query(
    {
        **{name: [1, 2] for name in ("a", "b", "day", "id", "n", "old", "price", "x")},
        "city": ["Ur", "Kish"],
        "time": [datetime.datetime(2026, 1, 1)] * 2,
    }
)
NAMES = {
    "rows": ROWS,
    "other": ROWS,
    "function": lambda batch: batch,
    "eu": eu,
}


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda q: q.sort("a", ascending=False), 'write .sort("price desc")'),
        (lambda q: q.sort(by="a"), 'write .sort("price")'),
        (lambda q: q.sort("a", nulls_last=True), 'write .sort("price nulls first")'),
        (lambda q: q.sort("a", inplace=True), "leave it out: a query does not change"),
        (lambda q: q.join(q, left_on="a", right_on="b"), "pairs of a left and a right name"),
        (lambda q: q.join(q, "a", suffixes=("_x", "_y")), 'write suffix="_right"'),
        (lambda q: q.join(q, "a", "left"), "for example .join(cities"),
        (lambda q: q.join(q), "for example .join(cities"),
        (lambda q: q.group_by("a", as_index=False), "rows have no index"),
        (lambda q: q.group_by(by="a"), 'write .group_by("a")'),
        (lambda q: q.group_by("a")["b"], "write .agg("),
        (lambda q: q.distinct(subset="a"), 'or .latest("id", by="day")'),
        (lambda q: q.distinct("a"), "for example .distinct()"),
        (lambda q: q.limit(n=5), r"write .limit(5)"),
        (lambda q: q.limit(), "for example .limit(1, offset=1)"),
        (lambda q: q.rename(columns={"a": "b"}), 'write .rename({"old": "new"})'),
        (lambda q: q.rename(a="b"), 'for example .rename({"a": "x"})'),
        (lambda q: q.drop(columns=["a"]), 'write .drop("a", "b")'),
        (lambda q: q.filter(expr="a > 1"), 'write .filter("price > 3")'),
        (lambda q: q.unpivot(on=["a"]), 'write .unpivot(["a", "b"])'),
        (lambda q: q.pivot(index="a", columns="b"), 'write by="day"'),
        (lambda q: q.join_asof(q, left_on="a"), "a left and right name"),
        (lambda q: q.top(n=3, by="a"), 'write .top(20, by="price")'),
        (lambda q: q.shuffle(), "for example .shuffle(seed=1)"),
        (lambda q: q.iter_batches(100), "for example .iter_batches(batch_size=2)"),
        (lambda q: q.iter_batches(local_shuffle_buffer_size=9), "write .shuffle(seed=1)"),
        (lambda q: q.iter_rows(named=True), "rows are dicts"),
        (lambda q: q.sort("a", descendin=True), "did you mean `descending`?"),
        (lambda q: len(q), 'write .group_by().agg(n="count()")'),
        (lambda q: q.__setitem__("d", 5), "write rows = rows.with_columns("),
        (lambda q: eu.col("a").cast("int", strict=False), "try_cast"),
        (lambda q: eu.Flow().place(eu.count(), parallelism=2), "write count=4"),
        (lambda q: eu.Flow().attach("a", "b", maxsize=9), 'write bytes_max="1MiB"'),
        (lambda q: eu.Flow().chain(eu.count(), count=2), "count=4"),
        (lambda q: eu.Flow()["count_1"], "the handle that .place(module) returns"),
        (lambda q: eu.scan("a.csv", parse_dates=["a"]), "write types="),
        (lambda q: eu.scan("a.csv", nrows=5), "write .limit(5) behind it"),
        (lambda q: eu.scan("a.csv", index_col=0), "rows have no index"),
        (lambda q: eu.map(len, batch_format="pandas"), "batch.to_pandas()"),
    ],
)
def test_arguments_of_other_libraries_are_answered_with_ours(
    call: Callable[[Any], object], remedy: str
) -> None:
    with pytest.raises(UnknownArgument) as error:
        call(ROWS)
    assert isinstance(error.value, eu.UsageError) and isinstance(error.value, TypeError)
    assert remedy in str(error.value.remedy)
    assert str(error.value) == f"{error.value.message}; {error.value.remedy}"


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda q: q.group_by("a").agg({"b": "sum"}), 'write .agg(b="sum(b)")'),
        (lambda q: q.group_by("a").agg(b=("b", "mean")), 'write "avg(b)"'),
        (lambda q: q.group_by("a").agg("sum(b)"), 'write .agg(total="sum(b)")'),
        (lambda q: q.with_columns("a * 2"), 'write .with_columns(total="a * 2")'),
        (lambda q: q.with_columns({"d": "a"}), 'write .with_columns(d="a")'),
        (lambda q: q.select({"a": "x"}), '.rename({"old": "new"})'),
        (lambda q: q.join(q, eu.col("a") == eu.col("b")), "for other conditions .sql("),
        (lambda q: q.join(q, None, how="cross"), "cross join t"),
        (lambda q: q.save("a.csv", index=False), "rows have no index"),
        (lambda q: q.save("a/", partition_cols=["a"]), "write partition_by"),
        (lambda q: q.save("a.csv", sep=";"), "write delimiter"),
        (lambda q: q.save("a/", delimiter=";"), "or save one file"),
        (lambda q: q.save(None), 'give "sales.parquet"'),
        (lambda q: q.save("@a", delimiter=";"), "leave it out"),
        (lambda q: q.collect(streaming=True), "every flow streams"),
        (lambda q: q.collect(n_jobs=4), "write cores"),
        (lambda q: eu.Flow().go(memory_limit="1GiB"), "write memory"),
        (lambda q: eu.Flow().chain([eu.count()]), "one by one"),
        (lambda q: eu.col(["a", "b"]), "the name of one column"),  # type: ignore[arg-type]
        (lambda q: eu.col("a").is_in(1), "write .is_in([1, 2])"),  # type: ignore[arg-type]
        (lambda q: eu.query("select * from a"), "write eu.sql(…)"),
        (lambda q: eu.sql(q), 'eu.sql("select * from rows", rows=…)'),
    ],
)
def test_values_as_other_libraries_have_them_are_answered_with_ours(
    call: Callable[[Any], object], remedy: str
) -> None:
    with pytest.raises(eu.UsageError) as error:
        call(ROWS)
    assert remedy in str(error.value.remedy)


OWNERS = {
    "query": ROWS,
    "group": ROWS.group_by("a"),
    "expression": eu.col("a"),
    "flow": eu.Flow(),
    "placed": eu.Flow().place(eu.generate("integers", rows=1)),
    "cluster": eu.Cluster,
    "report": eu.Report("{}", "", []),
    "table": ROWS.collect(),
}


@pytest.mark.parametrize("kind", OWNERS)
def test_every_listed_name_is_unknown_and_answered(kind: str) -> None:
    for name, instead in names._TABLES[kind].items():
        with pytest.raises(UnknownName) as error:
            getattr(OWNERS[kind], name)
        assert isinstance(error.value, eu.UsageError) and isinstance(error.value, AttributeError)
        said = instead.removeprefix("nothing: ")
        assert str(error.value).endswith(("write " if said == instead else "out: ") + said)
        assert not hasattr(OWNERS[kind], name)


@pytest.mark.parametrize(
    ("owner", "name", "remedy"),
    [
        (ROWS, "prices", 'write eu.col("prices") for a column, SQL'),
        (ROWS, "stack", 'write eu.col("stack") for a column, SQL'),
        (ROWS, "string_agg", 'write .sql("select string_agg(a) as value from self")'),
        (ROWS, "dense_rank", 'write .window("city", order_by="day", value="dense_rank()")'),
        (ROWS, "slect", "did you mean `select`?"),
        (eu.col("a"), "cbrt", 'write eu.call("cbrt", eu.col("a"))'),
        (eu.col("a"), "clip", "for a function of SQL, or SQL in a text"),
        (eu.Flow(), "with_columns", "write eu.query(…) for methods"),
        (eu.Flow(), "to_parquet", "eu.save("),
        (ROWS, "to_csv", 'write .save("rows.csv")'),
        (ROWS, "sink_ipc", 'write .save("rows.arrow")'),
        (ROWS, "write_delta", 'write .save_delta("sales")'),
        (ROWS, "to_excel", "write .to_pandas() and its to_excel, or .save("),
        (eu.col("a"), "sin", 'write eu.call("sin", eu.col("a"))'),
        (eu, "read_parquet", 'write eu.scan("rows.parquet")'),
        (eu, "init", "leave it out: flows run in this process"),
    ],
)
def test_names_that_nothing_is_near_are_answered(owner: object, name: str, remedy: str) -> None:
    with pytest.raises(UnknownName) as error:
        getattr(owner, name)
    assert str(error.value.remedy).startswith(remedy) or remedy in str(error.value.remedy)


def test_errors_survive_pickling() -> None:
    with pytest.raises(UnknownArgument) as error:
        ROWS.sort("a", ascending=True)  # type: ignore[call-arg]
    again = pickle.loads(pickle.dumps(error.value))
    assert (type(again), str(again)) == (UnknownArgument, str(error.value))


def test_type_errors_from_within_a_method_stay_what_they_are() -> None:
    with pytest.raises(TypeError) as error:
        ROWS.limit(1).then(eu.map(lambda batch: batch)).drop(*5)  # type: ignore[misc]
    assert not isinstance(error.value, eu.UsageError)
    with pytest.raises(TypeError, match=r"'int' object") as error:
        ROWS.unpivot(5)  # type: ignore[arg-type]
    assert not isinstance(error.value, eu.UsageError)


def runnable() -> Iterator[tuple[str, str]]:
    """What the answers say to write, as expressions over `NAMES`: those with a gap are examples."""
    listed = [*names.METHODS.values(), *names.GROUPED.values()]
    of_queries = set(arguments.ARGUMENTS) & set(dir(eu.Query))
    listed += [text for name in of_queries for text in arguments.ARGUMENTS[name].values()]
    for text in sorted({*listed}):
        owner = "rows.group_by('city')" if text.startswith(".agg") else "rows"
        for end in range(len(text), 0, -1):
            expression = owner + text[:end] if text.startswith(".") else text[:end]
            if "(" in expression and is_expression(expression):
                yield text, expression
                break


def is_expression(text: str) -> bool:
    try:
        parsed = ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    used = {node.id for node in ast.walk(parsed) if isinstance(node, ast.Name)}
    return not isinstance(parsed.body, ast.Tuple) and used <= {*NAMES} and "…" not in text


def needs_more(text: str) -> bool:
    """Whether an answer is about other columns, or needs PyTorch or a library that draws."""
    return any(word in text for word in ("items", "t_right", "torch", ".hist", ".plot"))


ANSWERS = [one for one in runnable() if not needs_more(one[0])]


def test_most_answers_are_run() -> None:
    assert len(ANSWERS) > 90


@pytest.mark.parametrize(("text", "expression"), ANSWERS, ids=[text for text, _ in ANSWERS])
def test_what_the_answers_say_can_be_run(
    text: str, expression: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = eval(expression, dict(NAMES))
    if isinstance(result, eu.Query):
        assert result.schema.names
