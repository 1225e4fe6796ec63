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
    assert "(1 rows)" in shell.run("select sum(price) as s from sales;")


def test_commands_describe_tables_and_time_statements(shell: Terminal) -> None:
    assert "sales.parquet" in shell.run(".tables")
    assert "price  Int64" in shell.run(".schema sales")
    shell.run(".timer on")
    assert " s\r\n" in shell.run("select count(*) from sales;")
    assert ".quit" in shell.run(".help")


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
