"""The dataclasses of a report's parts, imported when a program first accesses one."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar


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
    batches_in: int
    rows_out: int
    bytes_out: int
    batches_out: int
    life_seconds: float
    starved_seconds: float
    blocked_seconds: float
    spilled_bytes: int
    """Bytes written to scratch because they exceeded memory."""
    cached_bytes: int
    """Bytes of remote files that were in the memory of the process (`cache`)."""
    peer_bytes: int
    """Bytes of remote files that were in the memory of other workers."""
    origin_bytes: int
    """Bytes of remote files that their store or server has sent."""


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
    batches_in: int
    rows_out: int
    bytes_out: int
    batches_out: int
    life_seconds: float
    starved_seconds: float
    blocked_seconds: float
    spilled_bytes: int
    cached_bytes: int
    peer_bytes: int
    origin_bytes: int


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


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of a report that are made of several values; the meanings are those of `Report`."""

    modules: list[ModuleReport]
    slow: list[Slow]
    instances: list[InstanceReport]
    disks: list[DiskReport]
    history: History

    @classmethod
    def of_told(cls, told: dict[str, Any]) -> Parts:
        """The parts of a report in the engine's form."""
        history = told["history"]
        return cls(
            modules=[_of(ModuleReport, module) for module in told["modules"]],
            slow=[_of(Slow, slow) for slow in told["slow"]],
            instances=[_of(InstanceReport, one) for one in told["instances"]],
            disks=[_of(DiskReport, disk) for disk in told["disks"]],
            history=History(history["seconds"], [_of(Series, one) for one in history["series"]]),
        )


_Part = TypeVar("_Part")


def _of(kind: type[_Part], data: dict[str, Any]) -> _Part:
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: data.get(name) for name in names})
