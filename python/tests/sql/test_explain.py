"""`explain`, and the methods of queries that are written in SQL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import euphrates as eu

SALES = {"city": ["Ur", "Kish", "Ur", None], "n": [1, 2, 3, 4], "day": [1, 1, 2, 2]}


def lines(query: eu.Query, **options: int) -> list[str]:
    found: list[str] = query.to_pydict(**options)["explain"]
    return found


def test_explain_tells_the_flow_and_what_is_pushed_down(tmp_path: Path) -> None:
    path = tmp_path / "sales.parquet"
    eu.query(SALES).save(path)
    told = "\n".join(lines(eu.sql(f"Explain select n from '{path}' where n > 2")))
    assert "scan_1 → " in told
    assert "filter" in told
    assert "n > 2" in told or "1 of 3 columns" in told or "n: Int64" in told
    assert "explain" not in told


def test_explain_analyze_runs_when_its_lines_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    asked = eu.sql(f"explain analyze copy (select n from sales) to '{path}'", sales=SALES)
    assert asked.columns == ["explain"]
    assert "analyze" in repr(asked)
    assert not path.exists()
    assert lines(asked, cores=1)[0].startswith("flow `query` finished in")
    assert path.read_text() == "n\n1\n2\n3\n4\n"


def test_errors_of_an_explained_query_show_their_place() -> None:
    with pytest.raises(eu.UsageError, match=r"\n    +selec 1\n {12}\^"):
        eu.sql("explain selec 1")
    with pytest.raises(eu.UsageError, match="no column named `wrong`"):
        eu.sql("explain analyze select wrong from sales", sales=SALES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("explain", "project_1 × "),
        ("explain analyze", "finished in"),
        ("describe", "n  Int64"),
        ("summarize", "approx_unique"),
    ],
)
def test_the_command_prints_what_explain_tells(words: str, said: str) -> None:
    command = [sys.executable, "-m", "euphrates", "sql", f"{words} select 1 as n"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_pivot_has_a_column_for_each_value_and_aggregate() -> None:
    sales = eu.query(SALES)
    wide = sales.pivot("city", ["Ur", "Kish", None], by="day", total="sum(n)").sort("day")
    assert wide.to_pydict() == {"day": [1, 2], "Ur": [1, 3], "Kish": [2, None], "None": [None, 4]}
    both = sales.pivot("city", ["Ur"], total=eu.col("n").sum(), rows="count()")
    assert both.to_pydict() == {"Ur_total": [4], "Ur_rows": [2]}
    with pytest.raises(eu.UsageError, match="values"):
        sales.pivot("city", [], total="sum(n)")


def test_unpivot_is_the_contrary_of_pivot() -> None:
    wide = eu.query({"day": [1, 2], "Ur": [1, 3], "Kish": [2, None]})
    long = wide.unpivot(["Ur", "Kish"], name="city", value="n").sort("day", "city")
    assert long.to_pydict() == {"day": [1, 1, 2], "city": ["Kish", "Ur", "Ur"], "n": [2, 1, 3]}
    assert wide.unpivot("Kish", include_nulls=True).collect().num_rows == 2


def test_join_asof_finds_the_row_before_or_behind() -> None:
    trades = eu.query({"t": [3, 7, None], "who": ["a", "b", "a"]})
    prices = {"t": [1, 3, 7], "who": ["a", "a", "c"], "price": [10, 30, 70]}

    def found(**options: object) -> list[object]:
        joined = trades.join_asof(prices, "t", **options)  # type: ignore[arg-type]
        return joined.sort("t").to_pydict()["price"]

    assert found() == [30, 70, None]
    assert found(by="who") == [30, None, None]
    assert found(how="inner", by="who") == [30]
    assert found(allow_exact_matches=False) == [10, 30, None]
    assert found(strategy="forward", allow_exact_matches=False) == [70, None, None]
    renamed = trades.join_asof(eu.query(prices).rename({"t": "u"}), ("t", "u"), by=["who"])
    assert renamed.columns == ["t", "who", "u", "price"]


def test_an_asof_join_beyond_memory_is_that_of_duckdb(tmp_path: Path) -> None:
    import duckdb

    path = str(tmp_path / "n.parquet")
    eu.generate("integers", rows=400_000).select("n % 97 as k", "n as t", "n * 7 as x").save(path)
    query = (
        "select count(*) as n, sum(b.x) as s from a asof join"
        " (select k, t + 40 as t, x from a where t % 3 = 0) b on a.k = b.k and a.t >= b.t"
    )
    ours = eu.sql(query, a=path).to_pylist(memory="64MiB")
    theirs = duckdb.connect()
    theirs.execute(f"create view a as from '{path}'")
    assert [tuple(row.values()) for row in ours] == theirs.sql(query).fetchall()


@pytest.mark.parametrize(("options", "is_reported"), [((), False), (("--log", "plain"), True)])
def test_rows_are_printed_without_a_report_unless_it_is_asked_for(
    options: tuple[str, ...], is_reported: bool
) -> None:
    command = [sys.executable, "-m", "euphrates", *options, "sql", "select 1 as n"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "n\n-\n1\n(1 row)\n"
    assert ("finished in" in done.stderr) is is_reported
    assert is_reported or done.stderr == ""
