"""What a flow did, for people and for programs."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import TYPE_CHECKING, Any

from ._euphrates import Table
from ._numbers import bytes_text, count_text, seconds_text
from .errors import UsageError

if TYPE_CHECKING:
    from .flow import Placed

_SHOWN_ROWS = 20
"""Rows of a table that a notebook shows."""
_STYLE = (
    "border-collapse:collapse;font:13px ui-sans-serif,system-ui,sans-serif;"
    "font-variant-numeric:tabular-nums"
)


@dataclasses.dataclass(frozen=True)
class ModuleReport:
    """What a module did; the numbers are sums over its instances."""

    id: str
    module: str
    """The name of the module's kind."""
    count: int
    """The number of instances."""
    remark: str | None
    """What it has to say itself."""
    busy: float
    """Part of its time in its own code, from 0 to 1."""
    starved: float
    """Part of its time waiting for input."""
    blocked: float
    """Part of its time waiting for room in its output."""
    rows_in: int
    bytes_in: int
    rows_out: int
    bytes_out: int
    life_seconds: float
    starved_seconds: float
    blocked_seconds: float
    spilled_bytes: int
    """Bytes written to scratch because they did not fit the memory."""


class Report:
    """What a flow did. Printed, it is a page."""

    def __init__(self, data: str, page: str, collected: list[tuple[str, Table]]) -> None:
        self._json = data
        self._page = page
        self._collected = dict(collected)
        parsed = json.loads(data)
        self.name: str = parsed["name"]
        """The flow's name."""
        self.seconds: float = parsed["seconds"]
        """From the start to the moment its output was visible."""
        self.bottleneck: str | None = parsed["bottleneck"]
        """The module that kept the others waiting, if one did."""
        names = [field.name for field in dataclasses.fields(ModuleReport)]
        self.modules = [
            ModuleReport(**{name: module.get(name) for name in names})
            for module in parsed["modules"]
        ]
        """The modules, producers before consumers."""

    def collected(self, id: str | Placed | None = None) -> Table:
        """The rows that a `collect` module kept; it needs no name if there is only one."""
        name = id if isinstance(id, str) or id is None else id.id
        if name is None and len(self._collected) == 1:
            return next(iter(self._collected.values()))
        known = ", ".join(self._collected) or "none; attach a `collect`"
        if name is None:
            what = "several modules" if self._collected else "no module"
            raise UsageError(f"{what} collected rows", remedy=f"modules that did: {known}")
        if name not in self._collected:
            raise UsageError(f"`{name}` collected no rows", remedy=f"modules that did: {known}")
        return self._collected[name]

    def to_json(self) -> str:
        """The report as JSON."""
        return self._json

    def __str__(self) -> str:
        return self._page

    def __repr__(self) -> str:
        return f"<report of {self.name!r}: {seconds_text(self.seconds)}>"

    def _repr_html_(self) -> str:
        head = ["module", "×", "rows out", "bytes out", "busy", "starved", "blocked"]
        rows = [
            [
                module.id,
                str(module.count),
                count_text(module.rows_out),
                bytes_text(module.bytes_out),
                *(f"{part:.0%}" for part in (module.busy, module.starved, module.blocked)),
            ]
            for module in self.modules
        ]
        title = f"<b>{html.escape(self.name)}</b> finished in {seconds_text(self.seconds)}"
        if self.bottleneck is not None:
            title += f"; bottleneck: {html.escape(self.bottleneck)}"
        remarks = [f"{module.id}: {module.remark}" for module in self.modules if module.remark]
        return f"<div>{title}</div>{_table(head, rows)}" + "".join(
            f"<div>{html.escape(remark)}</div>" for remark in remarks
        )


def table_html(table: Table) -> str:
    """The first rows of a table."""
    shown: list[list[Any]] = []
    for batch in table.batches:
        columns = batch.slice(0, _SHOWN_ROWS - len(shown)).to_pydict().values()
        shown.extend(list(row) for row in zip(*columns, strict=True))
        if len(shown) >= _SHOWN_ROWS:
            break
    rows = [["" if value is None else str(value)[:200] for value in row] for row in shown]
    size = f"{count_text(table.num_rows)} rows, {bytes_text(table.nbytes)}"
    return f"{_table(table.column_names, rows)}<div>{size}</div>"


def _table(head: list[str], rows: list[list[str]]) -> str:
    def line(tag: str, cells: list[str]) -> str:
        style = "padding:2px 10px;text-align:right"
        written = (f'<{tag} style="{style}">{html.escape(cell)}</{tag}>' for cell in cells)
        return f"<tr>{''.join(written)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f'<table style="{_STYLE}">{line("th", head)}{body}</table>'
