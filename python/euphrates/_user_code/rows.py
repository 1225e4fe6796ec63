"""Rows of a table as dicts, from its columns."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from typing import Any


def rows(columns: dict[str, list[Any]], count: int) -> list[dict[str, Any]]:
    """A dict for each row."""
    names = list(columns)
    if not names:
        return [{} for _ in range(count)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
