"""The report of a flow, for people and for programs."""

from __future__ import annotations

from ._display.numbers import bytes_text, count_text, seconds_text
from ._other_names.answers import OtherNames
from ._other_names.native import answer
from .errors import UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from typing import Any

    from ._display.report_parts import (
        DiskReport,
        History,
        InstanceReport,
        ModuleReport,
        Parts,
        Series,
        Slow,
    )
    from ._euphrates import Table
    from ._user_code.placed import Placed

_TOLD = ("perturbed: ", "slow: ", "      it moved ", "and ", "ideal: ", "with the work divided ")
"""Prefixes of report lines that a notebook repeats."""
_SHOWN_ROWS = 20
"""The number of rows of a table that a notebook shows."""
_STYLE = (
    "border-collapse:collapse;font:13px ui-sans-serif,system-ui,sans-serif;"
    "font-variant-numeric:tabular-nums"
)


answer()


class Report(OtherNames):
    """The report of a flow. Printed, it is a page.

    >>> flow = eu.Flow("three")
    >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
    >>> report = flow.go()
    >>> print(report)
    flow `three` finished in ...
    >>> report.modules[0].rows_out
    3
    """

    _kind, _called = "report", "a report"

    def __init__(self, data: str, page: str, collected: list[tuple[str, Table]]) -> None:
        self._json = data
        self._page = page
        self._collected = dict(collected)
        self._parsed: dict[str, Any] | None = None
        self._made: Parts | None = None

    @property
    def _told(self) -> dict[str, Any]:
        """The engine's JSON, parsed when a program first looks at it."""
        if self._parsed is None:
            import json

            self._parsed = json.loads(self._json)
        return self._parsed

    @property
    def _parts(self) -> Parts:
        if self._made is None:
            from ._display.report_parts import Parts

            self._made = Parts.of_told(self._told)
        return self._made

    @property
    def name(self) -> str:
        """The flow's name."""
        name: str = self._told["name"]
        return name

    @property
    def seconds(self) -> float:
        """Seconds from the start until the output was visible."""
        seconds: float = self._told["seconds"]
        return seconds

    @property
    def bottleneck(self) -> str | None:
        """The module that limited the others, if one did."""
        bottleneck: str | None = self._told["bottleneck"]
        return bottleneck

    @property
    def modules(self) -> list[ModuleReport]:
        """The modules, producers before consumers."""
        return self._parts.modules

    @property
    def ideal_seconds(self) -> float | None:
        """Estimated time of a perfectly balanced run at the measured rates."""
        ideal_seconds: float | None = self._told["ideal_seconds"]
        return ideal_seconds

    @property
    def fraction_of_ideal(self) -> float | None:
        """`ideal_seconds` divided by `seconds`; `None` if the run was too short to tell."""
        fraction_of_ideal: float | None = self._told["fraction_of_ideal"]
        return fraction_of_ideal

    @property
    def ideal_bound(self) -> str | None:
        """The limit of the ideal: a module, `processors`, or a disk."""
        ideal_bound: str | None = self._told["ideal_bound"]
        return ideal_bound

    @property
    def divided_seconds(self) -> float | None:
        """Estimated time of the run with static partitioning into equal shares."""
        divided_seconds: float | None = self._told["divided_seconds"]
        return divided_seconds

    @property
    def slow(self) -> list[Slow]:
        """Slow episodes, in order of their start."""
        return self._parts.slow

    @property
    def instances(self) -> list[InstanceReport]:
        """The instances, producers before consumers."""
        return self._parts.instances

    @property
    def disks(self) -> list[DiskReport]:
        """The disks."""
        return self._parts.disks

    @property
    def lent_bytes(self) -> int:
        """Bytes of spilled files that were written to memory which other workers lend."""
        lent = (disk for disk in self.disks if disk.name.startswith("memory of "))
        return int(sum(disk.written_bytes for disk in lent))

    @property
    def history(self) -> History:
        """Throughput of instances and disks over time."""
        return self._parts.history

    @property
    def perturbations(self) -> list[dict[str, Any]]:
        """The perturbations of the run."""
        perturbations: list[dict[str, Any]] = self._told.setdefault("perturbations", [])
        return perturbations

    @property
    def losses(self) -> list[str]:
        """Workers lost during the run, without which the flow restarted, and files of earlier
        attempts that were kept (`resume`).
        """
        losses: list[str] = self._told.setdefault("losses", [])
        return losses

    @property
    def made_before(self) -> list[str]:
        """Modules whose output existed from an earlier run and was kept (`resume`)."""
        made_before: list[str] = self._told.setdefault("made_before", [])
        return made_before

    @property
    def restarts(self) -> dict[str, float]:
        """What failed attempts of the flow have cost: `failed_attempts`, `lost_seconds`, and
        `rows_again`, the rows that sources had read in them.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> flow.go().restarts
        {'failed_attempts': 0, 'lost_seconds': 0.0, 'rows_again': 0}
        """
        none = {"failed_attempts": 0, "lost_seconds": 0.0, "rows_again": 0}
        restarts: dict[str, float] = self._told.setdefault("restarts", none)
        return restarts

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
        from html import escape

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
        title = f"<b>{escape(self.name)}</b> finished in {seconds_text(self.seconds)}"
        if self.bottleneck is not None:
            title += f"; bottleneck: {escape(self.bottleneck)}"
        told = [f"{module.id}: {module.remark}" for module in self.modules if module.remark]
        told += [line for line in self._page.splitlines() if line.startswith(_TOLD)]
        lines = "".join(f"<div>{escape(line)}</div>" for line in told)
        return f"<div>{title}</div>{_table(head, rows)}{lines}{self._charts()}"

    def _charts(self) -> str:
        """One chart for every module or disk with a slow episode."""
        from ._display.chart import chart

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
    from html import escape

    def line(tag: str, cells: list[str]) -> str:
        style = "padding:2px 10px;text-align:right"
        written = (f'<{tag} style="{style}">{escape(cell)}</{tag}>' for cell in cells)
        return f"<tr>{''.join(written)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f'<table style="{_STYLE}">{line("th", head)}{body}</table>'
