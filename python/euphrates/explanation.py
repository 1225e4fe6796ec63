"""The result of checking a flow: its modules, queues and schemas."""

from __future__ import annotations

from .modules import SPECS

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from typing import Any


class Explanation:
    """The plan of a flow, without starting it.

    >>> flow = eu.Flow("three")
    >>> integers = flow.place(eu.generate("integers", rows=3), count=1)
    >>> _ = flow.chain(integers, eu.collect())
    >>> print(flow.explain())
    flow `three`
    ...
    generate_1 → collect_1: distributed, batches, ...
        n: Int64 not null
    >>> flow.explain().data["modules"][0]["count"]
    1
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        """The plan as JSON values: `modules`, `queues`, the expanded `document`, and the ids of the
        modules left `unchecked`.
        """

    def __str__(self) -> str:
        lines = [f"flow `{self.data['name']}`", ""]
        width = max((len(module["id"]) for module in self.data["modules"]), default=0)
        for module in self.data["modules"]:
            summary = SPECS.get(module["module"], {}).get("summary", "")
            lines.append(f"{module['id']:{width}}  ×{module['count']:<3} {summary}")
            if module["extent"]:
                lines.append(f"{'':{width}}       {module['extent']}")
        if self.data["queues"]:
            lines.append("")
        for queue in self.data["queues"]:
            unit = "whole runs" if queue["unit"] == "run" else "batches"
            unit += f", at most {queue['bytes_max'] / 2**20:.3g} MiB"
            if queue["queue"] == "keyed":
                unit = "whole partitions"
            lines.append(
                f"{queue['from']} → {queue['to']}: {queue['queue']}, {unit}; {queue['why']}"
            )
            lines.append(f"    {queue['schema']}")
        if self.data["unchecked"]:
            lines += ["", f"not checked: {', '.join(self.data['unchecked'])} (see `trust`)"]
        return "\n".join(lines)

    __repr__ = __str__
