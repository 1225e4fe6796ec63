"""What a first user meets: missing files, unsplit lines, names of collections, several statements,
and errors of queries. Each answer says what to type.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["describe", "sales.cvs"], "sales.csv"),
        (["describe", "sales"], "sales.csv"),
        (["sort", "slaes.csv", "--by", "x", "-o", "out.csv"], "sales.csv"),
        (["sort", "sales.xyz", "--by", "x", "-o", "out.csv"], "sales.csv"),
        (["join", "sales.csv", "slaes", "--on", "x", "-o", "out.csv"], "sales.csv"),
        (["sql", "select x from 'sales.parq'"], "sales.csv"),
        (["sql", "select x from t", "--table", "t=slaes.csv"], "sales.csv"),
    ],
)
def test_a_missing_file_is_answered_with_the_one_that_is_meant(
    run: Run, tmp_path: Path, words: list[str], near: str
) -> None:
    (tmp_path / "sales.csv").write_text("x\n1\n")
    shown = run(*words, code=2).stderr
    assert "no such file: " in shown or "no collection named `sales`" in shown
    assert f"did you mean `{near}`?" in shown and "format" not in shown


def test_a_missing_file_that_is_like_no_other_is_answered_with_those_there_are(run: Run) -> None:
    shown = run("sql", "select * from 'elsewhere.parq'", code=2).stderr
    assert "no such file: elsewhere.parq" in shown and "its folder has a.csv" in shown
    shown = run("sort", "none/b.csv", "--by", "x", "-o", "c.csv", code=2).stderr
    assert "there is no folder none" in shown


@pytest.mark.parametrize(("delimiter", "typed"), [(";", "';'"), ("\t", r"'\t'"), ("|", "'|'")])
def test_a_description_of_lines_that_are_not_split_names_the_delimiter(
    run: Run, tmp_path: Path, delimiter: str, typed: str
) -> None:
    (tmp_path / "other.csv").write_text("x,y\n3,4\n".replace(",", delimiter))
    for words in [["describe", "other.csv"], ["sql", "describe 'other.csv'"]]:
        done = run(*words)
        assert f"`--delimiter {typed}`" in done.stderr
        split = run(*words, "--delimiter", typed.strip("'"))
        assert split.stdout == "x  Int64\ny  Int64\n" and split.stderr == ""
    assert "--delimiter" in run("sql", "select * from 'other.csv'").stderr
    assert "--delimiter" not in run("sql", "describe 'other.csv'", "--log", "quiet").stderr


def test_columns_that_are_numbers_are_answered_with_how_to_read_a_record(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "years.csv").write_text("2019,2020\n1,2\n")
    for words in [
        ["sql", "select year from 'years.csv'"],
        ["sort", "years.csv", "--by", "year", "-o", "out.csv"],
    ]:
        shown = run(*words, code=2).stderr
        assert "known: 2019, 2020" in shown and "`--no-header`" in shown


def test_a_collection_may_have_its_sign_in_every_command(run: Run, tmp_path: Path) -> None:
    run("copy-in", "@towns", "--format", "csv", stdin="x,y\n3,Kish\n1,Ur\n")
    assert run("describe", "@towns").stdout == run("describe", "towns").stdout
    assert "2 rows" in run("ls", "@to").stdout
    assert "sound" in run("verify", "@towns").stderr
    assert "sound" in run("repair", "@towns").stderr
    assert run("copy-out", "@towns", "--format", "csv").stdout == "x,y\n3,Kish\n1,Ur\n"
    run("sort", "@towns", "--by", "x", "-o", "@sorted")
    assert "1  Ur" in run("sql", "select * from t", "--table", "t=@sorted").stdout
    assert "1  Ur" in run("sql", 'select * from "@sorted"').stdout
    run("rm", "@towns", "sorted")
    assert run("ls").stdout == ""
    assert "no collection named `towns`" in run("describe", "@towns", code=2).stderr


def test_statements_of_a_file_run_in_order(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text(
        "-- first; not the end\ncreate table t as select x from 'a.csv' where y <> ';';\n"
        'select sum(x) as total from "@t";\n'
    )
    assert run("sql", "-f", "two.sql").stdout == "total\n-----\n    6\n(1 row)\n"
    (tmp_path / "wrong.sql").write_text("select 1;\nselect z from 'a.csv'")
    shown = run("sql", "-f", "wrong.sql", code=2)
    assert "statement 2: no column named `z`" in shown.stderr and "(1 row)" in shown.stdout
    shown = run("sql", "-f", "two.sql", "-o", "out.csv", code=2).stderr
    assert "copy (select …) to 'rows.parquet'" in shown


def test_the_delimiter_of_the_output_is_an_option_of_its_own(run: Run, tmp_path: Path) -> None:
    query = "select x, y from 'a.csv' where x = 1"
    run("sql", query, "-o", "out.csv", "--output-delimiter", ";")
    assert (tmp_path / "out.csv").read_text() == "x;y\n1;Ur\n"
    words = ["sql", query, "--output-format", "csv", "--output-delimiter", r"\t"]
    assert run(*words).stdout == "x\ty\n1\tUr\n"
    run("sort", "a.csv", "--by", "x", "-o", "sorted.csv", "--output-delimiter", "|")
    assert (tmp_path / "sorted.csv").read_text().startswith("x|y\n1|Ur\n")
    shown = run("sql", "select 1 as n", "-o", "n.csv", "--delimiter", ";", code=2).stderr
    assert "--output-delimiter ';'" in shown


def test_nulls_and_texts_in_lists_are_told_apart(run: Run) -> None:
    shown = run("sql", "select ['a', null, 'null'] as l, {'n': 'it''s', 'm': null} as s, 1.5 as d")
    assert "['a', null, 'null']  {n: 'it''s', m: null}  1.5" in shown.stdout


@pytest.mark.parametrize(
    ("query", "answers"),
    [
        ("select x from 'a.csv' where y", ["the condition", "compare it with something"]),
        ("select x, count(*) from 'a.csv'", ["`a.csv.x` is neither in GROUP BY", "group by"]),
        ("select y and x from 'a.csv'", ["Utf8 AND Int64", "compare each"]),
        ("select x.y from 'a.csv'", ["a field is taken of a value of type Int64"]),
        ("select row_number() from 'a.csv'", ["row_number(…) over (order by …)"]),
        ("select lenght(y) from 'a.csv'", ["did you mean `length`?"]),
        ("select x from 'a.csv' where sum(x) > 2", ["having"]),
        ("select -y from 'a.csv'", ["CAST(… AS BIGINT)"]),
        ("select * from 'a.csv' union select 1", ["as many columns"]),
        ("select x from 'a.csv' order by q", ["known: x, y"]),
    ],
)
def test_errors_of_queries_name_a_remedy(run: Run, query: str, answers: list[str]) -> None:
    shown = run("sql", query, code=2).stderr
    assert all(answer in shown for answer in [*answers, "remedy"]), shown


def test_a_folder_that_is_not_empty_is_answered_with_options_of_the_command(
    run: Run, tmp_path: Path
) -> None:
    words = ["sort", "a.csv", "--by", "x", "-o", "out/"]
    run(*words)
    shown = run(*words, code=2).stderr
    assert "`--append`" in shown and "`--overwrite`" in shown and "mode=" not in shown
    run(*words, "--overwrite")


def test_lines_of_help_fit_a_terminal(run: Run) -> None:
    for words in [["--help"], ["sort", "--help"], ["sql", "-h"]]:
        shown = run(*words).stdout
        assert "Options:" in shown
        assert max(map(len, shown.splitlines())) <= 100


def test_completion_has_the_values_of_options_and_no_hidden_ones(run: Run) -> None:
    script = run("completion", "bash").stdout
    assert 'compgen -W "csv json_lines parquet arrow_ipc records lines"' in script
    assert "--threads" not in script
    assert json.dumps("inner left right full semi anti") in script
