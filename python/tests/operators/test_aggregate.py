"""Aggregates match DuckDB."""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu
from aggregations import TPCH, sql, wrong

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))

ALL = {
    "rows": "count()",
    "n": "count(x)",
    "kinds": "count(distinct x)",
    "total": "sum(x)",
    "low": "min(x)",
    "high": "max(x)",
    "mean": "avg(x)",
}


def aggregated(
    source: Any,
    by: list[str],
    values: dict[str, str],
    *,
    count: int | None = None,
    report: list[eu.Report] | None = None,
    **go: Any,
) -> pa.Table:
    flow = eu.Flow("aggregate")
    first = flow.place(eu.from_arrow(source) if isinstance(source, pa.Table) else source)
    aggregate = flow.place(eu.aggregate(by, values=values), count=count)
    flow.attach(first, aggregate)
    flow.attach(aggregate, flow.place(eu.collect()))
    outcome = flow.go(**go)
    if report is not None:
        report.append(outcome)
    return pa.table(outcome.collected())


def expected(table: Any, by: list[str], values: dict[str, str]) -> pa.Table:
    con = duckdb.connect()
    if isinstance(table, pa.Table):
        con.register("t", table)
    else:
        con.sql(f"create view t as from '{table}'")
    return con.sql(sql(by, values)).to_arrow_table()


def check_same(found: pa.Table, wanted: pa.Table, by: list[str]) -> None:
    """Compares bags of rows; floats and decimals approximately."""
    assert found.column_names == wanted.column_names

    def rows(table: pa.Table) -> list[tuple[Any, ...]]:
        keyed = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
        key = [table.column_names.index(name) for name in by]
        return sorted(keyed, key=lambda row: [(row[k] is not None, str(row[k])) for k in key])

    for one, other in zip(rows(found), rows(wanted), strict=True):
        for a, b in zip(one, other, strict=True):
            is_float = isinstance(a, float | decimal.Decimal) and b is not None
            assert (float(a) == pytest.approx(float(b), nan_ok=True)) if is_float else a == b


def check(table: pa.Table, by: list[str], values: dict[str, str] = ALL, **options: Any) -> None:
    found = aggregated(table, by, values, **options)
    check_same(found, expected(table, by, values), by)


@functools.cache
def numbers(seed: int, rows: int, keys: int) -> pa.Table:
    """Keys and values with duplicates and nulls."""
    luck = random.Random(seed)

    def column(make: Any, often: float = 0.05) -> list[Any]:
        return [None if luck.random() < often else make() for _ in range(rows)]

    table = pa.table(
        {
            "k": pa.array(column(lambda: luck.randrange(keys)), pa.int64()),
            "m": pa.array(column(lambda: luck.randrange(3)), pa.int32()),
            "t": pa.array(column(lambda: "key " * luck.randrange(6) + str(luck.randrange(9)))),
            "w": pa.array(column(lambda: f"w{luck.randrange(5)}")).dictionary_encode(),
            "x": pa.array(column(lambda: luck.randrange(-90, 90), 0.4), pa.int32()),
        }
    )
    return pa.Table.from_batches(table.to_batches(max_chunksize=max(rows // 20, 1)))


@pytest.mark.parametrize(
    "by", [[], ["k"], ["m"], ["t"], ["w"], ["k", "m"], ["m", "w"], ["k", "m", "t", "w"]], ids=str
)
def test_group_keys_of_any_type(by: list[str]) -> None:
    check(numbers(1, 4000, 300), by)


@pytest.mark.parametrize("by", [[], ["k"], ["t", "m"]], ids=str)
def test_empty_input(by: list[str]) -> None:
    table = numbers(2, 10, 5).slice(0, 0)
    found = aggregated(table, by, ALL)
    assert found.num_rows == (0 if by else 1)
    check_same(found, expected(table, by, ALL), by)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("keys", [1, 20, 100_000])
def test_any_number_of_instances_and_groups(keys: int, count: int) -> None:
    check(numbers(3, 30_000, keys), ["k"], count=count)


def test_keys_alone_give_distinct_keys() -> None:
    check(numbers(4, 2000, 100), ["k", "m"], {})


TIMES = [datetime.datetime(2020, 1, day) for day in (1, 2, 3)]
DECIMALS = [decimal.Decimal("1.25"), decimal.Decimal("-7"), None, decimal.Decimal("1.25")]
NUMBERS = {
    **{str(kind): pa.array([1, 100, None, 100], kind) for kind in (pa.int8(), pa.uint16())},
    **{str(kind): pa.array([2**31, 0, None, 0], kind) for kind in (pa.int64(), pa.uint64())},
    "float": pa.array([1.5, -2.5, None, -2.5], pa.float32()),
    "double": pa.array([1.5, float("inf"), None, 1.5], pa.float64()),
    "decimal": pa.array(DECIMALS, pa.decimal128(9, 2)),
    "wide decimal": pa.array(DECIMALS, pa.decimal128(38, 4)),
}
OTHERS = {
    "bool": pa.array([True, False, None, True]),
    "date": pa.array([1, 2, None, 1], pa.int32()).cast(pa.date32()),
    "time": pa.array([1, 2, None, 1], pa.int64()).cast(pa.time64("us")),
    "timestamp": pa.array([*TIMES, None], pa.timestamp("us")),
    "zoned": pa.array([*TIMES, None], pa.timestamp("us", "UTC")),
    "text": pa.array(["b", "a" * 40, None, "b"]),
    "large text": pa.array(["b", "a" * 40, None, "b"], pa.large_string()),
    "view": pa.array(["b", "a" * 40, None, "b"], pa.string_view()),
    "dictionary": pa.array(["b", "a" * 40, None, "b"]).dictionary_encode(),
    "binary": pa.array([b"", b"\xff\x00", None, b""]),
}


@pytest.mark.parametrize("kind", [*NUMBERS, *OTHERS])
def test_every_type(kind: str) -> None:
    values = (NUMBERS | OTHERS)[kind]
    twice = pa.concat_arrays([values, values.slice(1)])
    table = pa.table({"x": twice, "g": ["a", "b", "a", "a", "c", "c", "b"]})
    wanted = (
        ALL if kind in NUMBERS else {n: w for n, w in ALL.items() if w[:3] not in ("sum", "avg")}
    )
    check(table, ["g"], wanted)
    check(table, [], wanted)
    check(table, ["x", "g"], {"n": "count()"})


def test_signed_zeros_and_nan_form_one_group_each() -> None:
    table = pa.table({"x": [0.0, -0.0, float("nan"), -float("nan"), None, 1.0]})
    found = aggregated(table, ["x"], {"n": "count()", "high": "max(x)"})
    assert sorted(found["n"].to_pylist()) == [1, 1, 2, 2]
    top = aggregated(table, [], {"high": "max(x)", "low": "min(x)"}).to_pylist()[0]
    assert top["high"] != top["high"] and top["low"] == 0


WIDE = {"rows": "count()", "kinds": "count(distinct p)", "high": "max(p)", "total": "sum(k)"}


@functools.cache
def many(rows: int, keys: int) -> pa.Table:
    luck = random.Random(7)
    table = pa.table(
        {
            "k": [luck.randrange(keys) for _ in range(rows)],
            "p": [f"{n % 1000}" + "x" * 60 for n in range(rows)],
            "d": [f"d{luck.randrange(rows)}" + "y" * 30 for _ in range(rows)],
        }
    )
    return pa.Table.from_batches(table.to_batches(max_chunksize=10_000))


@pytest.mark.parametrize("cluster", [None, "processes:2"])
def test_beyond_memory_spills_to_scratch(cluster: str | None) -> None:
    table, report = many(100_000, 80_000), []
    go = {"memory": "16MB", "report": report, **({"cluster": cluster} if cluster else {})}
    check(table, ["k"], WIDE, **go)
    assert "went through scratch" in str(report[0])


def test_views_hold_only_their_own_bytes() -> None:
    """The views of all groups refer to one buffer, larger than any of them."""
    texts = pa.array([f"{number % 80_000:060}" for number in range(120_000)])
    table, report = pa.table({"v": texts.cast(pa.string_view())}), []
    check(
        table, ["v"], {"n": "count()", "kinds": "count(distinct v)"}, memory="16MB", report=report
    )
    assert "went through scratch" in str(report[0])


def test_distinct_values_of_one_group_beyond_memory() -> None:
    table, report = many(150_000, 10), []
    values = {"kinds": "count(distinct d)", "rows": "count()", "n": "count(distinct k)"}
    check(table, [], values, memory="16MB", report=report)
    assert "went through scratch" in str(report[0])


def test_nearly_unique_keys_skip_pre_aggregation() -> None:
    report: list[eu.Report] = []
    table = pa.table({"k": range(600_000), "v": range(600_000)})
    batches = pa.Table.from_batches(table.to_batches(max_chunksize=50_000))
    found = aggregated(batches, ["k"], {"v": "sum(v)"}, report=report, count=1)
    assert "rows passed on ungrouped" in str(report[0])
    assert found.num_rows == 600_000 and found["k"].equals(found["v"])


@pytest.mark.parametrize("by", [[], ["k"], ["t", "w"]], ids=str)
@pytest.mark.parametrize("keys", [["k"], ["t", "w"]], ids=str)
@pytest.mark.parametrize("together", [False, True])
def test_partitions_of_any_keys_are_rows(by: list[str], keys: list[str], together: bool) -> None:
    table = numbers(9, 20_000, 300)
    flow = eu.Flow("partitions")
    aggregate = eu.aggregate(by, values=ALL)
    flow.chain(eu.from_arrow(table), eu.partition(keys, together=together), aggregate, eu.collect())
    found = pa.table(flow.go(progress=False).collected())
    check_same(found, expected(table, by, ALL), by)


@pytest.mark.parametrize("by", [[], ["k"], ["t", "w"]], ids=str)
def test_several_processes(by: list[str]) -> None:
    check(numbers(5, 20_000, 3000), by, cluster="processes:2")


@pytest.fixture(scope="module")
def lineitem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    flow = eu.Flow("lineitem")
    flow.chain(eu.generate("lineitem", scale=0.1), eu.save(folder / "lineitem.parquet"))
    flow.go(home=folder / "home")
    return folder / "lineitem.parquet"


@pytest.mark.parametrize("name", TPCH)
def test_groups_of_tpch(name: str, lineitem: Path) -> None:
    by, values = TPCH[name]
    con = duckdb.connect()
    con.register("found", aggregated(eu.scan(lineitem), by, values))
    con.register("wanted", expected(lineitem, by, values))
    assert wrong(con, by, values) is None


@pytest.mark.parametrize(
    ("by", "values", "said"),
    [
        (["m"], {"t": "sum(x)"}, "no column named `m`"),
        (["key"], {"t": "sum(prise)"}, "price"),
        (["kee"], {}, "did you mean `key`"),
        (["key"], {"t": "total(price)"}, "no function named `total`"),
        (["key"], {"t": "mean(price)"}, 'write "avg(x)"'),
        (["key"], {"t": "price"}, "is not one function of something"),
        (["key"], {"t": "sum(price) + nil"}, "no column named `nil`"),
        (["key"], {"key": "sum(price)"}, "a value has the name of the key `key`"),
        (["key", "key"], {"t": "sum(price)"}, "`key` is in `by` twice"),
        (["key"], {"t": "sum(name)"}, "`sum(name)`: there is no sum of Utf8"),
        (["key"], {"t": "max(list)"}, "there is no max of List"),
        (["list"], {"t": "count()"}, "rows cannot be grouped by `list`"),
        ([], {}, "`by` and `values` are empty"),
        (["key"], {"t": "first(distinct price)"}, "`distinct` is not supported"),
        (["key"], {"t": "quantile_cont(price, 95)"}, "`95` is no fraction"),
        (["key"], {"t": "quantile_cont(name, 0.5)"}, "there is no quantile_cont of Utf8"),
    ],
)
def test_errors_are_reported_before_the_run(
    by: list[str], values: dict[str, str], said: str
) -> None:
    table = pa.table({"key": [1], "price": [1], "name": ["a"], "list": [[1]]})
    with pytest.raises(eu.UsageError) as caught:
        aggregated(table, by, values)
    assert said in str(caught.value)


def test_overflowing_sum_is_an_error() -> None:
    table = pa.table({"x": [2**62, 2**62]})
    with pytest.raises(eu.FlowError, match="the sum `total` is too large for Int64"):
        aggregated(table, [], {"total": "sum(x)"})
    found = aggregated(table, [], {"total": "sum(cast(x as decimal(38, 0)))"})
    assert found["total"].to_pylist() == [decimal.Decimal(2**63)]


def test_aggregate_expands_and_is_drawn() -> None:
    flow = eu.Flow("a")
    table = pa.table({"k": [1, 1], "x": [1, 2]})
    flow.chain(eu.from_arrow(table), eu.aggregate(["k"], values={"t": "sum(x)"}), eu.collect())
    spelled = flow.spelled_out()
    assert "pre_aggregate" in str(spelled.explain())
    assert spelled.go().collected().to_pylist() == [{"k": 1, "t": 3}]
    other = eu.Flow("b")
    before = eu.pre_aggregate(["k"], values={"t": "max(x)"})
    after = eu.aggregate(["k"], values={"t": "sum(x)"})
    other.chain(eu.from_arrow(table), before, after, eu.collect())
    with pytest.raises(eu.UsageError, match="give the `pre_aggregate` the same `by` and `values`"):
        other.go()


def test_aggregate_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("k,v\na,1\nb,2\na,3\n")
    words = [
        "aggregate",
        "in.csv",
        "-o",
        "out.csv",
        "--by",
        "k",
        "--value",
        "t=sum(v)",
        "--value",
        "n=count()",
    ]
    subprocess.run([EUPHRATES, *words], cwd=tmp_path, check=True, capture_output=True)
    assert sorted((tmp_path / "out.csv").read_text().split()) == ["a,4,2", "b,2,1", "k,t,n"]


def test_null_column_has_no_sum_or_extremes() -> None:
    table = pa.table({"k": [1, 1, 2], "x": pa.nulls(3)})
    values = {**ALL, "twice": "sum(x) + 1"}
    expected = {"rows": 3, "n": 0, "kinds": 0, "total": None, "low": None, "high": None}
    assert aggregated(table, [], values).to_pylist() == [{**expected, "mean": None, "twice": None}]
    groups = aggregated(table, ["k"], ALL)
    assert groups.schema.field("total").type == pa.int64()
    assert groups.schema.field("low").type == pa.null()
    found = {row["k"]: row for row in groups.to_pylist()}
    assert found == {
        1: {"k": 1, **expected, "rows": 2, "mean": None},
        2: {"k": 2, **expected, "rows": 1, "mean": None},
    }


def test_untyped_nulls_spill_and_cross_processes() -> None:
    rows, report = 100_000, []
    table = many(rows, 80_000).append_column("x", pa.nulls(rows))
    values = {"low": "min(x)", "total": "sum(x)", "kinds": "count(distinct p)", "high": "max(p)"}
    go = {"memory": "16MB", "report": report, "cluster": "processes:2"}
    groups = aggregated(table, ["k"], values, **go)
    assert "went through scratch" in str(report[0])
    assert groups["low"].null_count == groups["total"].null_count == groups.num_rows


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.decimal128(19, 3)], ids=str)
def test_mean_of_large_numbers_is_rounded_once(kind: pa.DataType) -> None:
    luck, most = random.Random(3), 2**63 - 1
    for count in (1, 3, 7, 10):
        least = 0 if kind == pa.uint64() else -most
        numbers = [luck.randint(least, most) for _ in range(count)]
        scale = 10**3 if pa.types.is_decimal(kind) else 1
        column = [decimal.Decimal(n) / scale for n in numbers] if scale > 1 else numbers
        table = pa.table({"x": pa.array(column, kind)})
        mean = aggregated(table, [], {"mean": "avg(x)"})["mean"][0].as_py()
        assert mean == float(fractions.Fraction(sum(numbers), count * scale))
