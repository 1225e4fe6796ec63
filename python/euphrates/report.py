"""What a flow did, for people and for programs."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import TYPE_CHECKING, Any, TypeVar

from ._chart import chart
from ._euphrates import Table
from ._numbers import bytes_text, count_text, seconds_text
from .errors import UsageError

if TYPE_CHECKING:
    from .flow import Placed

_TOLD = ("perturbed: ", "slow: ", "      it moved ", "and ", "ideal: ", "with the work divided ")
"""Beginnings of lines of the page that a notebook repeats."""
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


@dataclasses.dataclass(frozen=True)
class Slow:
    """A time in which an instance or a disk was slow."""

    name: str
    """The instance, like `map_1.2`, or the disk."""
    module: str | None
    """The instance's module."""
    from_seconds: float
    """From the start of the flow."""
    to_seconds: float
    factor: float | None
    """How many times as long it took for its work; `None` if it stood still."""
    than_before: bool
    """Whether it was slower than it had been; else it was slower than its peers."""
    share_moved: float | None
    """The part it moved of what it and its peers moved meanwhile."""
    share_equal: float | None
    """The part it would have had of an equal division."""


@dataclasses.dataclass(frozen=True)
class InstanceReport:
    """What an instance did."""

    name: str
    module: str
    busy_seconds: float
    """In the module's own code."""
    computed_seconds: float | None
    """On a processor, if the system says."""
    busy_bytes_per_second: float
    """In and out, while it was busy and had a processor if it needed one."""
    rows_in: int
    bytes_in: int
    rows_out: int
    bytes_out: int
    life_seconds: float
    starved_seconds: float
    blocked_seconds: float
    spilled_bytes: int


@dataclasses.dataclass(frozen=True)
class DiskReport:
    """What a disk did for this process while the flow ran."""

    name: str
    read_bytes: float
    """From the device; not what the page cache had."""
    read_seconds: float
    """In which it had something to read."""
    written_bytes: float
    written_seconds: float


@dataclasses.dataclass(frozen=True)
class Series:
    """What an instance or a disk did over time."""

    name: str
    module: str | None
    bytes_per_second: list[float]
    """In and out, in every interval."""


@dataclasses.dataclass(frozen=True)
class History:
    """What instances and disks did over time."""

    seconds: list[float]
    """When each interval ended, from the start of the flow."""
    series: list[Series]


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
        self.modules = [_of(ModuleReport, module) for module in parsed["modules"]]
        """The modules, producers before consumers."""
        self.ideal_seconds: float | None = parsed["ideal_seconds"]
        """What a perfectly balanced run would have taken at the rates that were measured."""
        self.fraction_of_ideal: float | None = parsed["fraction_of_ideal"]
        """`ideal_seconds` as a part of `seconds`; `None` if the run was too short to tell."""
        self.ideal_bound: str | None = parsed["ideal_bound"]
        """What sets the ideal: a module, `processors`, or a disk."""
        self.divided_seconds: float | None = parsed["divided_seconds"]
        """What a run would have taken that gives all instances the same share beforehand."""
        self.slow = [_of(Slow, slow) for slow in parsed["slow"]]
        """Who was slow, in the order in which they became so."""
        self.instances = [_of(InstanceReport, one) for one in parsed["instances"]]
        """The instances, producers before consumers."""
        self.disks = [_of(DiskReport, disk) for disk in parsed["disks"]]
        """The disks."""
        history = parsed["history"]
        self.history = History(history["seconds"], [_of(Series, one) for one in history["series"]])
        """What instances and disks did over time."""
        self.perturbations: list[dict[str, Any]] = parsed.get("perturbations", [])
        """What was done to the flow on purpose."""
        self.losses: list[str] = parsed.get("losses", [])
        """Workers that were lost on the way, without whom the flow began again."""
        self.made_before: list[str] = parsed.get("made_before", [])
        """Modules whose output was there from a run before, so that nothing was done (`resume`)."""

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
        told = [f"{module.id}: {module.remark}" for module in self.modules if module.remark]
        told += [line for line in self._page.splitlines() if line.startswith(_TOLD)]
        lines = "".join(f"<div>{html.escape(line)}</div>" for line in told)
        return f"<div>{title}</div>{_table(head, rows)}{lines}{self._charts()}"

    def _charts(self) -> str:
        """A chart for every module or disk that somebody was slow in."""
        shown: dict[str, list[Series]] = {}
        for series in self.history.series:
            shown.setdefault(_group(series.name, series.module), []).append(series)
        slow = {_group(slow.name, slow.module) for slow in self.slow}
        return "".join(
            chart(
                name,
                self.history.seconds,
                {series.name: series.bytes_per_second for series in several},
                [
                    (one.name, one.from_seconds, one.to_seconds)
                    for one in self.slow
                    if _group(one.name, one.module) == name
                ],
            )
            for name, several in shown.items()
            if name in slow
        )


def _group(name: str, module: str | None) -> str:
    return module or f"disks {name.rpartition(' ')[2]}"


_Told = TypeVar("_Told")


def _of(kind: type[_Told], data: dict[str, Any]) -> _Told:
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: data.get(name) for name in names})


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
