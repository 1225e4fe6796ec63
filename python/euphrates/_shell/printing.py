"""Rows as a table of text."""

from __future__ import annotations

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
    is_number = [
        all(value is None or isinstance(value, int | float) for value in values[:count])
        for values in columns.values()
    ]

    def line(row: int) -> str:
        cells = zip(texts, widths, is_number, strict=True)
        fields = [
            column[row].rjust(width) if right else column[row].ljust(width)
            for column, width, right in cells
        ]
        return "  ".join(fields).rstrip()

    lines = [line(0), "  ".join("-" * width for width in widths)]
    lines += [line(row + 1) for row in range(count)]
    more = f"the first {count} rows" if table.num_rows > rows_max else f"{count} rows"
    return "\n".join([*lines, f"({more})"])


def _text(value: Any) -> str:
    return "null" if value is None else _cut(str(value))


def _cut(text: str) -> str:
    text = text.replace("\n", "\\n")
    return text if len(text) <= WIDTH_MAX else f"{text[: WIDTH_MAX - 1]}…"
