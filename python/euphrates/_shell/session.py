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
from .._user_code.query_tables import planned, query
from ..errors import EuphratesError, Interrupted
from ..flow import Flow
from .completion import completer
from .printing import shown

if TYPE_CHECKING:
    from .._euphrates import Schema

HELP = """\
A statement ends with `;`, and may have several lines. Ctrl-C cancels what runs.
.tables              the tables of the session, and what they read
.table NAME PATH     another table
.schema NAME         the columns of a table, or of a 'path'
.timer on|off        whether to print how long a statement takes
.quit                the end, like Ctrl-D"""

ROWS_MAX = 40


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
        word, *given = line.split()
        if word in (".quit", ".exit"):
            return False
        if word == ".tables":
            for name, path in self.tables.items():
                print(f"{name}  {path}")
        elif word == ".table" and len(given) == 2:
            self.add(*given)
        elif word == ".schema" and len(given) == 1:
            name = given[0].strip("'\"")
            flow = self.flows[name] if name in self.flows else query(name)._flow
            schema = self._schema(flow)
            for column, kind in zip(schema.names, schema.types, strict=True):
                print(f"{column}  {kind}")
        elif word == ".timer" and given in (["on"], ["off"]):
            self.has_timer = given == ["on"]
        else:
            print(HELP)
        return True

    def statement(self, text: str) -> None:
        """Runs a statement, and prints its first rows or its report."""
        began = time.monotonic()
        names = _euphrates.sql_tables(text)
        tables = {name: self.flows[name] for name in names if name in self.flows}
        rows = planned(text, tables, self.storage)
        last = rows._flow._document["modules"][-1]["module"]
        if last in ("save", "save_dataset", "write"):
            print(rows.flow.go(progress=False))
        else:
            # One row more tells whether there are others.
            print(shown(rows.limit(ROWS_MAX + 1).collect(progress=False), ROWS_MAX))
        if self.has_timer:
            print(f"{time.monotonic() - began:.3f} s")


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
    lines: list[str] = []
    while True:
        try:
            line = input("     ...> " if lines else "euphrates> ")
            if not lines and line.strip().startswith("."):
                if not session.command(line.strip()):
                    return
                continue
            lines.append(line)
            text = "\n".join(lines).strip()
            if not text:
                lines = []
            elif _is_complete(text):
                lines = []
                session.statement(text.rstrip().removesuffix(";"))
        except EOFError:
            print()
            return
        except (KeyboardInterrupt, Interrupted):
            lines = []
            print("\ncancelled")
        except EuphratesError as error:
            lines = []
            print(f"error: {error}")
        except (KeyError, OSError, ValueError) as error:
            lines = []
            print(f"error: {error}")


def _is_complete(text: str) -> bool:
    """Whether a statement ends here: with a `;` that is in no text, name or comment."""
    closing: str | None = None
    at, ends = 0, False
    while at < len(text):
        two = text[at : at + 2]
        if closing is not None:
            if text.startswith(closing, at):
                at += len(closing)
                closing = None
                continue
        elif two in ("--", "/*"):
            closing = "\n" if two == "--" else "*/"
            at += 1
        elif text[at] in "'\"":
            closing, ends = text[at], False
        elif not text[at].isspace():
            ends = text[at] == ";"
        at += 1
    return ends and closing in (None, "\n")


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
