"""Words that users of databases write first: they work, or an error says what to write instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import euphrates as eu

ROWS = {"city": ["Ur", "Kish"], "price": [5, 3]}


def told(*arguments: str, folder: Path) -> str:
    command = [sys.executable, "-m", "euphrates", "sql", "--log", "quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60)
    return done.stdout + done.stderr


@pytest.mark.parametrize("query", ["describe t", "desc t", "describe select * from t"])
def test_describe_has_the_columns_of_a_table_or_query(query: str) -> None:
    columns = {"column_name": ["city", "price"], "column_type": ["Utf8", "Int64"]}
    assert eu.sql(query, t=ROWS).to_pydict() == columns


def test_the_command_describes_files(tmp_path: Path) -> None:
    eu.query(ROWS).save(tmp_path / "t.csv")
    assert told("describe 't.csv'", folder=tmp_path) == "city  Utf8\nprice  Int64\n"


def test_the_command_keeps_only_the_rows_that_it_prints(tmp_path: Path) -> None:
    said = told("select * from range(1000) t(n) order by n", folder=tmp_path)
    assert said.endswith("\n19\n(the first 20 rows; --output writes all)\n")
    assert told("select 1 as n", folder=tmp_path) == "n\n-\n1\n(1 row)\n"


@pytest.mark.parametrize("function", ["read_csv", "READ_CSV_AUTO"])
def test_functions_that_read_a_path_are_the_path(function: str, tmp_path: Path) -> None:
    eu.query(ROWS).save(tmp_path / "t.csv")
    rows = eu.sql(f"select sum(price) as paid from {function}('{tmp_path}/t.csv')")
    assert rows.to_pydict() == {"paid": [8]}


def test_csv_options_are_those_of_the_command(tmp_path: Path) -> None:
    eu.query(ROWS).save(tmp_path / "plain.csv")
    eu.query(ROWS).save(tmp_path / "r.parquet")
    (tmp_path / "t.csv").write_text("# a till\ncity;price\nUr;5\nKish;3\n")
    query = "select sum(a.price + b.price) as paid from 't.csv' a join 'r.parquet' b using (city)"
    said = told(query, "--delimiter", ";", "--skip-rows", "1", folder=tmp_path)
    assert said == "paid\n----\n  16\n(1 row)\n"
    with pytest.raises(eu.UsageError, match="takes one path, and no options"):
        eu.sql("select * from read_csv('t.csv', delim=';')")


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("insert into t values (1)", "tables are written whole"),
        ("update t set a = 1", "tables are written whole"),
        ("drop table t", "euphrates rm NAME"),
        ("create view v as select 1", "with v as"),
        ("show tables", "euphrates ls"),
        ("set threads = 2", '`memory="4GiB"`, `cores=2`'),
        ("select * from missing", 'from "@missing"'),
    ],
)
def test_statements_of_databases_are_answered_with_ours(statement: str, remedy: str) -> None:
    with pytest.raises(eu.UsageError) as error:
        eu.sql(statement)
    assert remedy in str(error.value.remedy)
