"""Expressions over aggregates match DuckDB."""

from __future__ import annotations

import decimal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu

TABLE = pa.table(
    {
        "k": pa.array(["a", "b", "a", None, "b", "c"]),
        "n": pa.array([1, 2, 3, 4, None, None], pa.int64()),
        "x": pa.array([0.5, float("nan"), -1.25, None, 2.0, None]),
        "d": pa.array([1, 2, 3, 4, 5, None], pa.int64()).cast(pa.decimal128(38, 0)),
    }
)

#: In Euphrates' dialect, and in DuckDB's where it differs.
VALUES = {
    "mean": ("sum(n) * 1.0 / count()", None),
    "whole": ("sum(n) / count()", "sum(n) // count(*)"),
    "range": ("max(n) - min(n)", None),
    "rounded": ("round(avg(x), 2)", None),
    "kinds": ("count(distinct n) + count(*)", None),
    "named": ("k || '-' || cast(count() as varchar)", None),
    "chosen": ("case when count(n) > 1 then sum(n) else -1 end", None),
    "known": ("coalesce(min(n), 0)", None),
    "none": ("sum(n) / nullif(count(n) - 1, 0)", "sum(n) // nullif(count(n) - 1, 0)"),
    "alone": ("sum(n)", None),
}


def aggregated(by: list[str], values: dict[str, str], **options: Any) -> list[dict[str, Any]]:
    flow = eu.Flow("over")
    flow.chain(eu.from_arrow(TABLE), eu.aggregate(by, values=values), eu.collect())
    return pa.table(flow.go(**options).collected()).to_pylist()


@pytest.mark.parametrize("by", [["k"], []])
def test_expressions_over_aggregates(by: list[str]) -> None:
    chosen = {name: both for name, both in VALUES.items() if by or name != "named"}
    found = aggregated(by, {name: ours for name, (ours, _) in chosen.items()})
    con = duckdb.connect()
    con.register("t", TABLE)
    items = [f"{theirs or ours} as {name}" for name, (ours, theirs) in chosen.items()]
    group = f"group by {', '.join(by)}" if by else ""
    query = con.sql(f"select {', '.join(by + items)} from t {group}").to_arrow_table()
    assert sorted(map(str, plain(found))) == sorted(map(str, plain(query.to_pylist())))


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: v if v is None or isinstance(v, str) else float(v) for name, v in row.items()}
        for row in rows
    ]


def test_error_over_aggregates_names_the_group() -> None:
    with pytest.raises(eu.FlowError, match="ivide by zero") as caught:
        aggregated(["k"], {"x": "1 / (count(n) - count(n))"})
    assert "row" in str(caught.value)


def test_overflowing_decimal_sums_fail() -> None:
    table = pa.table({"d": pa.array([decimal.Decimal(10**37)] * 10, pa.decimal128(38, 0))})
    flow = eu.Flow("sum")
    flow.chain(eu.from_arrow(table), eu.aggregate([], values={"s": "sum(d)"}), eu.collect())
    with pytest.raises(eu.FlowError, match="`s` is too large"):
        flow.go()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("sum(n) / m", "no column named `m`"),
        ("sum(n) +", "expected"),
        ("sum(max(n)) + 1", "cannot aggregate several"),
        ("round(n, 2)", "not one function|no function named `round`"),
    ],
)
def test_errors_over_aggregates_are_found_before_the_run(value: str, said: str) -> None:
    with pytest.raises(eu.UsageError, match=said):
        aggregated(["k"], {"x": value})


def test_expressions_over_aggregates_on_the_command_line(tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("k,n\na,1\na,4\nb,7\n")
    command = [
        str(Path(sys.executable).with_name("euphrates")),
        "aggregate",
        str(source),
        "-o",
        str(out),
    ]
    command += ["--by", "k", "--value", "width=max(n) - min(n)"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(out.read_text().split()) == ["a,3", "b,0", "k,width"]
