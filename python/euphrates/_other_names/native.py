"""Answers of the native classes: a table, which a run collects, and a schema."""

from __future__ import annotations

from .._euphrates import Schema, Table
from ..errors import UnknownArgument
from .answers import OtherNames

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from typing import Any, NoReturn


def _not_called(schema: Schema, *_args: Any, **_kwargs: Any) -> NoReturn:
    raise UnknownArgument("a schema is not called", remedy="write .schema, without ()")


def _not_iterated(table: Table) -> NoReturn:
    raise UnknownArgument(
        "a table has no rows to iterate",
        remedy="write for row in table.to_pylist(), or for batch in eu.query(…)",
    )


def answer() -> None:
    """Gives the native classes the answers of `OtherNames`, of which Rust cannot inherit."""
    of_tables = {
        "_kind": "table",
        "_called": "a table",
        "__getattr__": vars(OtherNames)["__getattr__"],
        "__getitem__": vars(OtherNames)["__getitem__"],
        "__iter__": _not_iterated,
    }
    for name, value in of_tables.items():
        setattr(Table, name, value)
    setattr(Schema, "__call__", _not_called)  # noqa: B010 - type checkers see the native class
