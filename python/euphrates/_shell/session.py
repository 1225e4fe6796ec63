"""Reads SQL statements from a terminal, runs them, and prints the first rows."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _euphrates
from .._options import suggestion
from .._user_code.explained import explained
from .._user_code.query_sinks import is_written
from .._user_code.query_tables import planned, query, tables_of
from ..errors import EuphratesError, Interrupted, UsageError
from ..flow import Flow
from .completion import COMMANDS, completer
from .printing import shown
from .statements import divided

if TYPE_CHECKING:
    from .._euphrates import Schema
    from ..report import Report

HELP = """\
A statement ends with `;`, and may have several lines. Ctrl-C cancels what runs.
.tables              the tables of the session, and what they read; also `show tables;`
.table NAME PATH     another table; a PATH in quotes in a query is one, too
.schema NAME         the columns of a table, or of a 'path'; also `describe NAME;`
.timer on|off        whether to print how long a statement takes
.quit                the end, like Ctrl-D, `quit` and `exit`"""

ROWS_MAX = 40

_WORDS = {"help": ".help", "quit": ".quit", "exit": ".quit", "show tables": ".tables"}
"""What other shells call some commands, with or without a `;`."""


class Session:
    """The tables of a session, and what it prints."""

    def __init__(self, storage: Sequence[str] = ()) -> None:
        self.storage = storage
        self.tables: dict[str, str] = {}
        self.flows: dict[str, Flow] = {}
        self.has_timer = False

    def add(self, name: str, path: str) -> None:
        self.flows[name] = query(path)._flow
        self.tables[name] = path

    def columns(self) -> list[str]:
        """The columns of all tables whose files can be read."""
        names: list[str] = []
        for flow in self.flows.values():
            with contextlib.suppress(EuphratesError):
                names += self._schema(flow).names
        return names

    def _schema(self, flow: Flow) -> Schema:
        return _euphrates.columns(flow._json(), "{}", self.storage)

    def command(self, line: str) -> bool:
        """Runs a line that begins with a dot; `False` ends the session."""
        word, _, rest = line.rstrip("; ").partition(" ")
        given = rest.strip()
        name, _, path = given.partition(" ")
        if word in (".quit", ".exit"):
            return False
        if word == ".help":
            print(HELP)
        elif word == ".tables":
            none = "no tables yet: .table NAME PATH adds one, and a 'path' in a query is one"
            print("\n".join(f"{name}  {path}" for name, path in self.tables.items()) or none)
        elif word == ".table" and name and path:
            self.add(name, path.strip().strip("'\""))
        elif word == ".schema" and given:
            self._print_columns(given.strip("'\""))
        elif word == ".timer" and given in ("on", "off"):
            self.has_timer = given == "on"
        else:
            self._refuse(word)
        return True

    def _print_columns(self, name: str) -> None:
        known = {table.lower(): flow for table, flow in self.flows.items()}
        if name.lower() not in known and not any(sign in name for sign in "./*@"):
            remedy = suggestion(name, self.tables) or "`.tables` lists them; or give a 'path'"
            raise UsageError(f"no table named `{name}`", remedy=remedy)
        schema = self._schema(known.get(name.lower()) or query(name)._flow)
        for column, kind in zip(schema.names, schema.types, strict=True):
            print(f"{column}  {kind}")

    def _refuse(self, word: str) -> None:
        """Tells how a command is written, or which there are."""
        shown = [line for line in HELP.splitlines() if line.startswith(f"{word} ")]
        if shown:
            raise UsageError(f"`{word}` is incomplete", remedy=f"write {shown[0]}")
        remedy = suggestion(word, COMMANDS) or "`.help` lists the commands"
        raise UsageError(f"no command named `{word}`", remedy=remedy)

    def statement(self, text: str) -> None:
        """Runs a statement, and prints its first rows or its report."""
        began = time.monotonic()
        kind, asked_for = _euphrates.sql_explained(text)
        rows = planned(asked_for, tables_of(asked_for, self.flows), self.storage)
        if kind in ("columns", "summary"):
            columns = explained(rows, kind).collect(progress=False)
            print(shown(columns, columns.num_rows))
        elif kind != "rows":
            lines = explained(rows, kind).to_pydict(progress=False)["explain"]
            print("\n".join(lines))
        elif is_written(rows._flow):
            print(_written(rows._flow, rows.flow.go(progress=False)))
            self._keep(rows._flow)
        else:
            # One row more tells whether there are others.
            print(shown(rows.limit(ROWS_MAX + 1).collect(progress=False), ROWS_MAX))
        if self.has_timer:
            print(f"{time.monotonic() - began:.3f} s")

    def _keep(self, flow: Flow) -> None:
        """A table that a statement has made is one of the session."""
        sink = flow._document["modules"][-1]
        if sink["module"] == "write":
            name = sink["config"]["collection"]
            self.add(name, f"@{name}")


def _written(flow: Flow, report: Report) -> str:
    """What a statement has written, and where; `explain analyze` has the whole report."""
    sink = flow._document["modules"][-1]
    count = sum(module.rows_in for module in report.modules if module.id == sink["id"])
    place = sink["config"].get("path") or f"@{sink['config']['collection']}"
    return f"{count:,} {'row' if count == 1 else 'rows'} in {place}"


def run(tables: list[str], storage: Sequence[str] = ()) -> None:
    """Runs a session until its end, with tables like `name=path`.

    `storage` are options of the stores of paths, as the command takes them.
    """
    session = Session(storage)
    for text in tables:
        name, _, path = text.partition("=")
        session.add(name.strip('"'), path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    history = _prepare_lines(session)
    print("SQL; statements end with `;`, .help says more")
    try:
        _loop(session)
    finally:
        signal.signal(signal.SIGINT, before)
        if history is not None:
            import readline

            with contextlib.suppress(OSError):
                readline.set_history_length(2000)
                readline.write_history_file(history)


def _loop(session: Session) -> None:
    text = ""
    while True:
        try:
            line = input("     ...> " if text else "euphrates> ")
            command = _command(line) if not text else None
            if command is not None:
                if not session.command(command):
                    return
                continue
            statements, text = divided(f"{text}\n{line}")
            for statement in statements:
                session.statement(statement)
        except EOFError:
            print()
            return
        except (KeyboardInterrupt, Interrupted):
            text = ""
            print("\ncancelled")
        except (EuphratesError, KeyError, OSError, ValueError) as error:
            text = ""
            print(f"error: {error}")


def _command(line: str) -> str | None:
    """The command of a line, if it has one instead of SQL."""
    line = line.strip()
    if line.startswith("."):
        return line
    return _WORDS.get(" ".join(line.lower().rstrip("; ").split()))


def _prepare_lines(session: Session) -> Path | None:
    """Sets up history and completion; returns the file of the history."""
    try:
        import readline
    except ImportError:
        return None
    home = os.environ.get("EUPHRATES_HOME") or os.path.expanduser("~/.euphrates")
    history = Path(home) / "sql_history"
    with contextlib.suppress(OSError):
        history.parent.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(history)
    complete: Any = completer(session)
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()=<>+-*/;'\"")
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    return history
