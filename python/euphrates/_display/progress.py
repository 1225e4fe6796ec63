"""Progress of a running flow."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


@dataclasses.dataclass(frozen=True)
class ModuleProgress:
    """The state of a module; numbers are sums over its instances.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
    >>> running = flow.start()
    >>> _ = running.wait()
    >>> counting = running.progress().modules[1]
    >>> counting.id, counting.state, counting.rows_in, counting.rows_out
    ('count_1', 'ended', 1000, 1)
    """

    id: str
    count: int
    """The number of instances."""
    state: str
    """The state of most instances: `waiting`, `busy`, `starved`, `blocked` or `ended`."""
    waiting_bytes: tuple[int, int]
    """Bytes in its input queues, and their limit."""
    rows_in: int
    bytes_in: int
    rows_out: int
    bytes_out: int
    spilled_bytes: int
    """Bytes written to scratch because they exceeded memory."""


@dataclasses.dataclass(frozen=True)
class SlowNow:
    """An instance or a disk that is currently slow.

    >>> slow = eu.SlowNow("map_1.2", factor=None)
    >>> f"{slow.name} makes no progress" if slow.factor is None else f"{slow.name}: {slow.factor} x"
    'map_1.2 makes no progress'
    """

    name: str
    factor: float | None
    """The slowdown: how many times as long its work takes; `None` if it makes no progress."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """The state of a running flow.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
    >>> running = flow.start()
    >>> _ = running.wait()
    >>> "1,000 rows in, 1 out" in running.progress().line
    True
    """

    seconds: float
    """Since the start."""
    modules: list[ModuleProgress]
    """Producers before consumers."""
    bytes_per_second: float = 0.0
    """Throughput of the busiest module in the last second, in or out."""
    line: str = ""
    """A summary for people, most important first."""
    slow: list[SlowNow] = dataclasses.field(default_factory=list)
    """Instances and disks that are currently slow."""

    @classmethod
    def of_json(cls, text: str) -> Progress:
        """The progress that the engine reports; all zero at first."""
        if not text:
            return cls(0.0, [])
        data = json.loads(text)
        modules = [_module(module) for module in data["modules"]]
        slow = [SlowNow(**one) for one in data["slow"]]
        return cls(data["seconds"], modules, data["bytes_per_second"], data["line"], slow)

    def __str__(self) -> str:
        return self.line


def _module(data: dict[str, Any]) -> ModuleProgress:
    names = [field.name for field in dataclasses.fields(ModuleProgress)]
    chosen = {name: data.get(name, 0) for name in names}
    return ModuleProgress(**{**chosen, "waiting_bytes": tuple(data["waiting_bytes"])})
