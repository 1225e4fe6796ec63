"""Completes words of SQL on a terminal: keywords, tables and columns of the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .. import _euphrates

KEYWORDS = [
    "select",
    "from",
    "where",
    "group",
    "by",
    "having",
    "order",
    "limit",
    "offset",
    "join",
    "left",
    "right",
    "full",
    "inner",
    "cross",
    "on",
    "using",
    "as",
    "and",
    "or",
    "not",
    "in",
    "is",
    "null",
    "between",
    "like",
    "distinct",
    "union",
    "all",
    "except",
    "intersect",
    "case",
    "when",
    "then",
    "else",
    "end",
    "with",
    "create",
    "table",
    "copy",
    "to",
    "over",
    "partition",
    "asc",
    "desc",
    "nulls",
    "first",
    "last",
    "cast",
    "exists",
    "explain",
    "analyze",
    "describe",
    "summarize",
]
NOT_CALLED = {
    *("asof_join", "nested_key", "only"),  # The planner writes them.
    *("file_row_index", "input_file_name"),  # No source has their values.
    "gen_random_uuid",  # It takes no arguments that a query could give; `uuid()` is called.
}
"""Functions that the planner knows, and no query can call."""
COMMANDS = [".tables", ".table", ".schema", ".timer", ".help", ".quit"]


def functions_by_kind() -> dict[str, list[str]]:
    """The names of all functions that a query may call."""
    known = _euphrates.sql_functions()
    return {
        kind: [name for name in names if name not in NOT_CALLED] for kind, names in known.items()
    }


class Named(Protocol):
    """The names that a session has defined."""

    tables: dict[str, str]

    def columns(self) -> list[str]: ...


def words(session: Named, begin: str) -> list[str]:
    """All words that begin so; keywords follow the case of what is written."""
    if begin.startswith("."):
        return [word for word in COMMANDS if word.startswith(begin)]
    keywords = [word.upper() if begin.isupper() else word for word in KEYWORDS]
    known = [*session.tables, *session.columns(), *keywords]
    found = [word for word in dict.fromkeys(known) if word.startswith(begin)]
    if found:
        return found
    # Functions are many: they would hide the columns.
    functions = {name for names in functions_by_kind().values() for name in names}
    return sorted(name for name in functions if name.startswith(begin))


def completer(session: Named) -> Callable[[str, int], str | None]:
    """A function for `readline`, which asks for one word after the other."""
    found: list[str] = []

    def complete(begin: str, number: int) -> str | None:
        if number == 0:
            found[:] = words(session, begin)
        return found[number] if number < len(found) else None

    return complete
