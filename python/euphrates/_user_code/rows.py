"""Rows of a table as dicts, from its columns."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def rows(columns: dict[str, list[Any]], count: int) -> list[dict[str, Any]]:
    """A dict for each row."""
    names = list(columns)
    if not names:
        return [{} for _ in range(count)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def are_dicts(value: Any) -> bool:
    """Whether a value is a list of dicts, and not empty."""
    from collections.abc import Mapping

    return (
        isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    )


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The columns of rows; one that a row lacks is null there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def arrow_of(value: Any) -> Any:
    """What a function returned, as Arrow data: a dict of columns, or a list of dicts, as a table;
    other values as they are.
    """
    from .._config import _frame, _table

    if are_dicts(value):
        value = columns_of(value)
    return _table(value) if isinstance(value, dict) else _frame(value)
