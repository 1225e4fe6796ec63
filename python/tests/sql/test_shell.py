"""The interactive shell, on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import euphrates as eu
from euphrates._shell.printing import shown
from web_server import WebServer, web  # noqa: F401


class Terminal:
    """A shell, and what it has written so far."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "euphrates", "sql", *arguments]
        environment = {**os.environ, "EUPHRATES_HOME": str(folder / "home"), "TERM": "dumb"}
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(sys.executable, command, environment)
        self.wait("euphrates> ")

    def wait(self, text: str, seconds: float = 60) -> str:
        """What the shell writes until a text comes."""
        written, until = "", time.monotonic() + seconds
        while text not in written:
            ready, _, _ = select.select([self.terminal], [], [], 0.5)
            assert time.monotonic() < until, written
            if ready:
                try:
                    written += os.read(self.terminal, 4096).decode()
                except OSError:
                    break
        return written

    def send(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def run(self, line: str) -> str:
        self.send(line + "\n")
        return self.wait("euphrates> ")

    def end(self) -> int:
        self.send(".quit\n")
        self.wait("\x00", 60)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    eu.query({"city": ["Ur", "Kish"], "price": [2, 3]}).save(tmp_path / "sales.parquet")
    terminal = Terminal(tmp_path, "--table", "sales=sales.parquet")
    yield terminal
    try:
        os.kill(terminal.pid, signal.SIGKILL)
        os.waitpid(terminal.pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    os.close(terminal.terminal)


def test_statements_over_several_lines_print_rows(shell: Terminal, tmp_path: Path) -> None:
    shell.send("select city, price\n")
    shell.wait("...> ")
    written = shell.run("from sales order by price;")
    assert "Ur" in written and "(2 rows)" in written
    assert shell.end() == 0
    assert "select city, price" in (tmp_path / "home" / "sql_history").read_text()


def test_errors_keep_the_session(shell: Terminal) -> None:
    assert "error: " in shell.run("select nothing from sales;")
    assert "(1 row)" in shell.run("select sum(price) as s from sales;")


def test_commands_describe_tables_and_time_statements(shell: Terminal) -> None:
    assert "sales.parquet" in shell.run(".tables")
    assert "price  Int64" in shell.run(".schema sales")
    written = shell.run("summarize sales;")
    assert "approx_unique" in written and "(2 rows)" in written
    shell.run(".timer on")
    assert " s\r\n" in shell.run("select count(*) from sales;")
    assert ".quit" in shell.run(".help")


def test_explain_and_other_words_of_shells_are_understood(shell: Terminal) -> None:
    plan = shell.run("explain select city from sales where price > 2;")
    assert "scan_1 → filter_1: distributed, batches, at most 8 MiB" in plan
    assert "finished in" in shell.run("explain analyze select city from sales;")
    assert "sales.parquet" in shell.run("show tables;")
    assert ".timer on|off" in shell.run("help")
    shell.send("exit\n")
    shell.wait("\x00")
    assert os.waitstatus_to_exitcode(os.waitpid(shell.pid, 0)[1]) == 0


def test_a_line_may_have_several_statements(shell: Terminal) -> None:
    written = shell.run("select city from sales where price = 2; select ';' as x; -- no more")
    assert "Ur" in written and written.count("(1 row)") == 2


def test_a_table_that_is_made_is_one_of_the_session(shell: Terminal) -> None:
    written = shell.run("create table low as select city from sales where price < 3;")
    assert "1 row in @low\r\n" in written and "finished in" not in written
    assert "2 rows in all.csv\r\n" in shell.run("copy (from sales) to 'all.csv';")
    assert "(1 row)" in shell.run("select * from LOW;")
    assert "low  @low" in shell.run(".tables")


def test_wrong_commands_say_what_is_right(shell: Terminal) -> None:
    assert "did you mean `.tables`?" in shell.run(".tabels")
    assert "write .table NAME PATH" in shell.run(".table x")
    assert "no table named `sale`" in shell.run(".schema sale")
    assert "did you mean `sales`?" in shell.run(".schema sale")


def test_values_are_shown_as_sql_writes_them() -> None:
    values = "true as flag, [1, null] as items, {'city': 'Ur'} as place, 1.5::decimal(3, 2) as sum"
    assert shown(eu.sql(f"select {values}").collect(), 5).splitlines() == [
        "flag  items      place          sum",
        "----  ---------  ------------  ----",
        "true  [1, null]  {city: 'Ur'}  1.50",
        "(1 row)",
    ]


def test_words_are_completed(shell: Terminal) -> None:
    shell.send("select pri\t")
    assert "ce" in shell.wait("ce")
    shell.send("\x03")
    shell.wait("euphrates> ")


def test_an_interrupt_cancels_the_flow_and_keeps_the_session(shell: Terminal) -> None:
    cross = ", ".join(f"sales as t{number}" for number in range(40))
    shell.send(f"select count(*) from {cross};\n")
    time.sleep(2)
    shell.send("\x03")
    assert "cancelled" in shell.wait("euphrates> ")
    assert "(2 rows)" in shell.run("select * from sales;")


def test_storage_options_of_the_command_hold_for_statements(
    web: WebServer,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web.files["n.csv"], web.token = b"n\n19\n23\n", "T"
    monkeypatch.setenv("WEB_TOKEN", web.token)
    arguments = ("--table", f"numbers={web.url('n.csv')}")
    shell = Terminal(
        tmp_path, *arguments, "--storage", f"{web.address}/ bearer_token=env:WEB_TOKEN"
    )
    assert "42" in shell.run("select sum(n) as s from numbers;")
    assert "42" in shell.run(f"select sum(n) as s from '{web.url('n.csv')}';")
    assert "n  Int64" in shell.run(".schema numbers")
    assert shell.end() == 0
