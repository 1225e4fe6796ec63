"""The report of a flow, for people and for programs."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import TYPE_CHECKING, Any, TypeVar

from ._display.chart import chart
from ._display.numbers import bytes_text, count_text, seconds_text
from ._euphrates import Table
from .errors import UsageError

if TYPE_CHECKING:
    from .flow import Placed

_TOLD = ("perturbed: ", "slow: ", "      it moved ", "and ", "ideal: ", "with the work divided ")
"""Prefixes of report lines that a notebook repeats."""
_SHOWN_ROWS = 20
"""The number of rows of a table that a notebook shows."""
_STYLE = (
    "border-collapse:collapse;font:13px ui-sans-serif,system-ui,sans-serif;"
    "font-variant-numeric:tabular-nums"
)


@dataclasses.dataclass(frozen=True)
class ModuleReport:
    """Statistics of a module; numbers are sums over its instances.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=9), eu.filter("n > 6"), eu.collect())
    >>> [(module.id, module.rows_in, module.rows_out) for module in flow.go().modules]
    [('generate_1', 9, 9), ('filter_1', 9, 2), ('collect_1', 2, 0)]
    """

    id: str
    module: str
    """The name of the module's kind."""
    count: int
    """The number of instances."""
    remark: str | None
    """A remark of the module itself."""
    busy: float
    """Share of its time in its own code, from 0 to 1."""
    starved: float
    """Share of its time waiting for input."""
    blocked: float
    """Share of its time waiting for space in its output."""
    rows_in: int
    bytes_in: int
    rows_out: int
    bytes_out: int
    life_seconds: float
    starved_seconds: float
    blocked_seconds: float
    spilled_bytes: int
    """Bytes written to scratch because they exceeded memory."""


@dataclasses.dataclass(frozen=True)
class Slow:
    """A slow episode of an instance or a disk.

    >>> slow = eu.Slow(
    ...     name="map_1.2",
    ...     module="map_1",
    ...     from_seconds=1.0,
    ...     to_seconds=3.5,
    ...     factor=4.0,
    ...     than_before=False,
    ...     share_moved=0.125,
    ...     share_equal=0.25,
    ... )
    >>> f"{slow.name} took {slow.factor:g} times as long as its peers"
    'map_1.2 took 4 times as long as its peers'
    >>> slow.share_moved < slow.share_equal  # its peers took over work
    True
    """

    name: str
    """The instance, like `map_1.2`, or the disk."""
    module: str | None
    """The instance's module."""
    from_seconds: float
    """Seconds from the start of the flow."""
    to_seconds: float
    factor: float | None
    """The slowdown: how many times as long its work took; `None` if it made no progress."""
    than_before: bool
    """Whether it was slower than before; otherwise it was slower than its peers."""
    share_moved: float | None
    """Its share of the bytes that it and its peers moved during the episode."""
    share_equal: float | None
    """Its share in an equal division."""


@dataclasses.dataclass(frozen=True)
class InstanceReport:
    """Statistics of an instance.

    >>> flow = eu.Flow()
    >>> integers = flow.place(eu.generate("integers", rows=100), count=2)
    >>> _ = flow.chain(integers, eu.count(), eu.collect())
    >>> of_source = [one for one in flow.go().instances if one.module == "generate_1"]
    >>> [one.name for one in of_source], sum(one.rows_out for one in of_source)
    (['generate_1.0', 'generate_1.1'], 100)
    """

    name: str
    module: str
    busy_seconds: float
    """Seconds in the module's own code."""
    computed_seconds: float | None
    """Seconds on a processor, if the system reports them."""
    busy_bytes_per_second: float
    """Throughput in and out while it was busy and had a processor if it needed one."""
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
    """Statistics of a disk's use by this process during the flow.

    >>> disk = eu.DiskReport(
    ...     name="nvme0n1",
    ...     read_bytes=2e9,
    ...     read_seconds=4.0,
    ...     written_bytes=0.0,
    ...     written_seconds=0.0,
    ... )
    >>> f"{disk.read_bytes / disk.read_seconds / 1e6:.0f} MB/s while it read"
    '500 MB/s while it read'
    """

    name: str
    read_bytes: float
    """Bytes from the device, not from the page cache."""
    read_seconds: float
    """Seconds with a read outstanding."""
    written_bytes: float
    written_seconds: float


@dataclasses.dataclass(frozen=True)
class Series:
    """Throughput of an instance or a disk over time.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=9), eu.limit(3), eu.collect())
    >>> series = flow.go(cores=1).history.series[0]
    >>> series.name, series.module
    ('generate_1.0', 'generate_1')
    """

    name: str
    module: str | None
    bytes_per_second: list[float]
    """Throughput in and out, in every interval."""


@dataclasses.dataclass(frozen=True)
class History:
    """Throughput of instances and disks over time.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=9), eu.limit(3), eu.collect())
    >>> history = flow.go(cores=1).history
    >>> {len(one.bytes_per_second) for one in history.series} == {len(history.seconds)}
    True
    """

    seconds: list[float]
    """When each interval ended, from the start of the flow."""
    series: list[Series]


class Report:
    """The report of a flow. Printed, it is a page.

    >>> flow = eu.Flow("three")
    >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
    >>> report = flow.go()
    >>> print(report)
    flow `three` finished in ...
    >>> report.modules[0].rows_out
    3
    """

    def __init__(self, data: str, page: str, collected: list[tuple[str, Table]]) -> None:
        self._json = data
        self._page = page
        self._collected = dict(collected)
        parsed = json.loads(data)
        self.name: str = parsed["name"]
        """The flow's name."""
        self.seconds: float = parsed["seconds"]
        """Seconds from the start until the output was visible."""
        self.bottleneck: str | None = parsed["bottleneck"]
        """The module that limited the others, if one did."""
        self.modules = [_of(ModuleReport, module) for module in parsed["modules"]]
        """The modules, producers before consumers."""
        self.ideal_seconds: float | None = parsed["ideal_seconds"]
        """Estimated time of a perfectly balanced run at the measured rates."""
        self.fraction_of_ideal: float | None = parsed["fraction_of_ideal"]
        """`ideal_seconds` divided by `seconds`; `None` if the run was too short to tell."""
        self.ideal_bound: str | None = parsed["ideal_bound"]
        """The limit of the ideal: a module, `processors`, or a disk."""
        self.divided_seconds: float | None = parsed["divided_seconds"]
        """Estimated time of a run with a static division into equal shares."""
        self.slow = [_of(Slow, slow) for slow in parsed["slow"]]
        """Slow episodes, in order of their start."""
        self.instances = [_of(InstanceReport, one) for one in parsed["instances"]]
        """The instances, producers before consumers."""
        self.disks = [_of(DiskReport, disk) for disk in parsed["disks"]]
        """The disks."""
        history = parsed["history"]
        self.history = History(history["seconds"], [_of(Series, one) for one in history["series"]])
        """Throughput of instances and disks over time."""
        self.perturbations: list[dict[str, Any]] = parsed.get("perturbations", [])
        """The perturbations of the run."""
        self.losses: list[str] = parsed.get("losses", [])
        """Workers lost during the run, without which the flow restarted."""
        self.made_before: list[str] = parsed.get("made_before", [])
        """Modules whose output existed from an earlier run and was kept (`resume`)."""

    def collected(self, id: str | Placed | None = None) -> Table:
        """The rows of a `collect` module; `id` may be omitted if there is only one.

        >>> flow = eu.Flow()
        >>> few = flow.chain(eu.generate("integers", rows=2), eu.collect())
        >>> many = flow.chain(eu.generate("integers", rows=9), eu.collect())
        >>> report = flow.go()
        >>> report.collected(few).to_pydict(), report.collected("collect_2").num_rows
        ({'n': [0, 1]}, 9)
        """
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
        """The report as JSON.

        >>> import json
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> data = json.loads(flow.go().to_json())
        >>> data["modules"][0]["id"], data["modules"][0]["rows_out"]
        ('generate_1', 3)
        """
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
        """One chart for every module or disk with a slow episode."""
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
