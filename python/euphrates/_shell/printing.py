"""Rows as a table of text."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

WIDTH_MAX = 40


def shown(table: Any, rows_max: int) -> str:
    """The first rows under the names of their columns, and whether there are more."""
    columns = table.to_pydict()
    count = min(table.num_rows, rows_max)
    texts = [
        [_cut(name), *(_text(value) for value in values[:count])]
        for name, values in columns.items()
    ]
    widths = [max(map(len, column)) for column in texts]
    is_number = [_are_numbers(values[:count]) for values in columns.values()]

    def line(row: int) -> str:
        cells = zip(texts, widths, is_number, strict=True)
        fields = [
            column[row].rjust(width) if right else column[row].ljust(width)
            for column, width, right in cells
        ]
        return "  ".join(fields).rstrip()

    lines = [line(0), "  ".join("-" * width for width in widths)]
    lines += [line(row + 1) for row in range(count)]
    rows = "1 row" if count == 1 else f"{count} rows"
    more = f"the first {rows}" if table.num_rows > rows_max else rows
    return "\n".join([*lines, f"({more})"])


def _are_numbers(values: list[Any]) -> bool:
    given = [value for value in values if value is not None]
    are = (isinstance(value, int | float | Decimal) for value in given)
    return bool(given) and all(are) and not any(isinstance(value, bool) for value in given)


def _text(value: Any) -> str:
    return _cut(value if isinstance(value, str) else _whole_text(value))


def _whole_text(value: Any) -> str:
    """A value as SQL writes it: `null`, `true`, `['a', null]`, `{city: 'Ur'}`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_whole_text, value))}]"
    if isinstance(value, dict):
        fields = (f"{name}: {_whole_text(one)}" for name, one in value.items())
        return f"{{{', '.join(fields)}}}"
    if isinstance(value, str):
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    return str(value)


def _cut(text: str) -> str:
    text = text.replace("\n", "\\n")
    return text if len(text) <= WIDTH_MAX else f"{text[: WIDTH_MAX - 1]}…"
