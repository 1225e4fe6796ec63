"""What users type who know other tools: the error says what to type instead."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("sort a.csv --by x", "say where the rows go: -o sorted.csv"),
        ("sort a.csv a.csv --by x", "say where the rows go: -o sorted.csv"),
        ("sort a.csv -o b.csv", "--by name, or --by 'price desc, name'"),
        ("sort a.csv --key x -o b.csv", "write --by: euphrates sort a.csv --by x -o b.csv"),
        ("sort a.csv --order-by=x -o b", "write --by: euphrates sort a.csv --by=x -o b"),
        ("sort a.csv --column x -o b", "write --by: euphrates sort a.csv --by x -o b"),
        ("join a.csv a.csv --using x -o b", "write --on: euphrates join a.csv a.csv --on x -o b"),
        ("join a.csv a.csv -o b", "needs --on <KEYS>"),
        ("aggregate a.csv --group-by y -o b", "write --by: euphrates aggregate a.csv --by y -o b"),
        ("aggregate a.csv --by y", "say where the rows go: -o groups.csv"),
        ("sort a.csv --by x --force -o b", "euphrates sort a.csv --by x --overwrite -o b"),
        ("sotr a.csv", "did you mean `euphrates sort`?"),
        ("cat a.csv", "write euphrates sql \"select * from 'a.csv'\""),
        ("a.csv", "write euphrates sql \"select * from 'a.csv'\""),
    ],
)
def test_words_of_other_tools_are_answered_with_what_to_type(
    run: Run, words: str, answer: str
) -> None:
    assert answer in run(*words.split(), code=2).stderr


def test_an_unknown_command_is_answered_with_all_commands(run: Run) -> None:
    shown = run("frobnicate", code=2).stderr
    assert all(name in shown for name in ["sort,", "sql,", "copy-in,", "doctor,"])


def test_no_words_print_the_commands(run: Run) -> None:
    shown = run(code=2).stderr
    assert "Usage: euphrates [OPTIONS] <COMMAND>" in shown and "\n  sort " in shown


def test_errors_of_words_are_json_if_the_log_is(run: Run) -> None:
    line = run("sort", "a.csv", "--key", "x", "--log", "json", code=2).stderr
    assert json.loads(line)["error"]["remedy"].startswith("write --by")


def test_an_outdated_spelling_warns_after_success_and_not_before_an_error(
    run: Run, tmp_path: Path
) -> None:
    failed = run("sort", "none.csv", "b.csv", "--by", "x", "--threads", "1", code=2)
    assert "outdated" not in failed.stderr
    done = run("sort", "a.csv", "b.csv", "--by", "x", "--threads", "1")
    assert done.stderr.count("is outdated") == 2 and "write --cores 1" in done.stderr
    assert (tmp_path / "b.csv").read_text().startswith("x,y\n1,Ur\n")


def test_a_file_in_the_place_of_a_flow_is_answered_with_how_to_read_it(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "q.sql").write_text("select 1")
    (tmp_path / "words").write_text("not a flow")
    for command in ["check", "show", "run", "code"]:
        shown = run(command, "a.csv", code=2).stderr
        assert "a.csv is data" in shown and "sql \"select * from 'a.csv'\"" in shown
    assert "euphrates sql --file q.sql" in run("run", "q.sql", code=2).stderr
    assert "a JSON object, or a Python file" in run("check", "words", code=2).stderr


def test_empty_lists_say_so_on_standard_error(run: Run) -> None:
    for words, how in [(["ls"], "copy-in NAME"), (["file", "ls"], "file put PATH NAME")]:
        done = run(*words)
        assert done.stdout == ""
        assert done.stderr.startswith("there is no ") and how in done.stderr
        assert run(*words, "--json").stdout == "[]\n"
        assert run(*words, "--log", "quiet").stderr == ""
    assert "begins with `sales`" in run("ls", "sales").stderr


def test_a_striped_file_that_needs_more_disks_is_answered_with_options_that_fit(run: Run) -> None:
    shown = run("file", "put", "a.csv", "sales", code=2).stderr
    assert "`--data 1` and `--parity 0`" in shown and "home/disks.json" in shown
    run("file", "put", "a.csv", "sales", "--data", "1", "--parity", "0")


def test_standard_input_and_output_are_hyphens(run: Run, tmp_path: Path) -> None:
    rows = (tmp_path / "a.csv").read_text()
    words = ["--format", "csv", "--by", "x", "-o", "-"]
    assert run("sort", "-", *words, stdin=rows).stdout == "x,y\n1,Ur\n2,Uruk\n3,Kish\n"
    words = ["--value", "n=count()", "-o", "-", "--output-format", "json_lines"]
    assert run("aggregate", "a.csv", *words).stdout == '{"n":3}\n'
    words = ["-o", "-", "--output-format", "csv"]
    assert run("sql", "select x from 'a.csv' where x > 2", *words).stdout == "x\n3\n"
    joined = run("join", "-", "a.csv", "--format", "csv", "--on", "x", "-o", "-", stdin="x\n2\n")
    assert joined.stdout == "x,y\n2,Uruk\n"


def test_a_folder_in_a_query_ends_with_a_slash(run: Run, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "a.csv").rename(tmp_path / "parts" / "a.csv")
    assert "from 'parts/'" in run("sql", "select x from 'parts'", code=2).stderr
    shown = run("sql", "select sum(x) as s from 'parts/'", "--output-format", "csv").stdout
    assert shown == "s\n6\n"


def test_types_of_a_query_are_those_of_its_text_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"x":1,"late":2}\n')
    query = "select typeof(x) as t from '{}' limit 1"
    words = ["--types", "x=string", "--output-format", "csv"]
    for name in ("a.csv", "b.jsonl"):
        assert "varchar" in run("sql", query.format(name), *words).stdout.lower()


def test_a_query_reads_standard_input_as_often_as_it_names_it(run: Run, tmp_path: Path) -> None:
    rows = (tmp_path / "a.csv").read_text()
    format = ["--format", "csv", "--output-format", "csv"]
    twice = "select count(*) as n from '-' a join '-' b on a.x <= b.x"
    assert run("sql", twice, *format, stdin=rows).stdout == "n\n6\n"
    for query, table in [
        ("select y from '/dev/stdin' where x = 2", []),
        ("select y from stdin where x = 2", []),
        ("select y from t where x = 2", ["--table", "t=-"]),
        ("select t.y from t join 'a.csv' a on t.x = a.x and a.x = 2", ["--table", "t=/dev/stdin"]),
    ]:
        assert run("sql", query, *table, *format, stdin=rows).stdout == "y\nUruk\n", query
    words = ["--cluster", "processes:2", *format]
    assert run("sql", "select sum(x) as s from '-'", *words, stdin=rows).stdout == "s\n6\n"
    # A text that is like the name of standard input is none.
    for text in ("-", "/dev/stdin"):
        words = [f"select y || '{text}' as y from 'a.csv' where x = 2", "--output-format", "csv"]
        assert run("sql", *words, stdin="unread").stdout == f"y\nUruk{text}\n"
    assert not [*tmp_path.glob("home/scratch/*")]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["sort", "-", "--by", "x", "-o", "b.csv"], "--format csv"),
        (["sort", "a.csv", "--by", "x", "-o", "-"], "--output-format csv"),
        (["sort", "-", "a.csv", "--format", "csv", "--by", "x", "-o", "b"], "cat a.csv b.csv |"),
        (["sql", "select * from '-'"], "--format csv"),
        (["sql", "select * from t", "--table", "t=-"], "--format csv"),
        (["sql", "--table", "t=-"], "the query on the command line"),
        (["sql", "select * from '-'", "--format", "csv", "--print"], "euphrates copy-in NAME"),
    ],
)
def test_pipes_without_what_they_need_are_answered_with_the_option(
    run: Run, words: list[str], answer: str
) -> None:
    assert answer in run(*words, code=2).stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["q.sql"], "euphrates sql --file q.sql"),
        (["a.csv"], "euphrates sql \"select * from 'a.csv'\""),
        (["select x from 'a.csv' where y = \"Ur\""], "a text stands in single quotes: 'Ur'"),
        (["select", "x", "from", "a.csv"], "the whole query in double quotes"),
        ([""], "there is no statement"),
        (["/* nothing */"], "there is no statement"),
        (["--", "-- nothing"], "there is no statement"),
        (["select x from sales"], "--table sales=sales.parquet"),
        (["select x from 'a.csv'", "--output-compression", "zstd"], "-o rows.parquet"),
        (["--query", "select 1"], "the query without an option"),
    ],
)
def test_queries_that_are_none_are_answered_with_what_to_type(
    run: Run, words: list[str], answer: str
) -> None:
    assert answer in run("sql", *words, code=2).stderr


def test_the_format_option_of_sql_is_that_of_files_of_the_query(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").rename(tmp_path / "rows.data")
    assert "name it: `--format csv`" in run("sql", "select x from 'rows.data'", code=2).stderr
    shown = run("sql", "select sum(x) as s from 'rows.data'", "--format", "csv").stdout
    assert shown.split()[:3] == ["s", "-", "6"]
