"""Statically partitioned sorts of earlier papers, built of public modules, for comparison.

They partition the work in advance, so each runs at the speed of its slowest machine. The first two
also assume uniformly distributed keys. For production use `eu.sort`.

>>> from euphrates import sorts
>>> records = eu.generate("records", rows=1000)
>>> sort = sorts.now(records, lambda at: eu.save(f"{at}.parquet"), ["key"], ["w0", "w1"])
>>> report = sort.go(workers=2)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import modules
from .errors import UsageError
from .flow import Flow
from .report import Report

if TYPE_CHECKING:
    from ._user_code.module_calls import Placeable

IN_CORE = "1024TiB"
"""A budget that is never reached: all data stays in memory, real or virtual."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """A flow, and the options to run it with.

    >>> from euphrates import sorts
    >>> table = eu.from_arrow({"n": [3, 1, 2]})
    >>> sort = sorts.bucket(table, lambda at: eu.collect(), ["n"], ["w0"])
    >>> sort.options
    {'queues': 'static', 'memory': '1024TiB'}
    >>> sort.flow
    <flow 'bucket sort': read divide sort0 write0>
    """

    flow: Flow
    """The flow."""
    options: dict[str, Any]
    """For `flow.go`."""

    def go(self, **options: Any) -> Report:
        """Runs the flow with its options and these.

        >>> from euphrates import sorts
        >>> table = eu.from_arrow({"n": [3, 1, 2]})
        >>> sort = sorts.now(table, lambda at: eu.collect(), ["n"], ["w0"])
        >>> sort.go(workers=1).collected("write0").to_pydict()
        {'n': [1, 2, 3]}
        """
        return self.flow.go(**{**self.options, **options})


def now(
    read: Placeable,
    write: Callable[[int], Placeable],
    by: Sequence[Any],
    workers: Sequence[str],
) -> Variant:
    """NOW-Sort: every worker reads a part, sends each record to the worker that owns its key range,
    sorts what it receives, and writes it (Berkeley NOW, 6).

    The ranges are of equal size, and queues have no choice. Data beyond memory is sorted in two
    passes. `write(at)` is the sink of the worker `at`, whose keys precede those of the next.
    `workers` are names: `w0`, `w1`, … of `flow.go(workers=n)`, or those of a cluster.

    >>> from euphrates import sorts
    >>> records = eu.generate("records", rows=1000)
    >>> sort = sorts.now(records, lambda at: eu.collect(), ["key"], ["w0", "w1"])
    >>> report = sort.go(workers=2)
    >>> low, high = (report.collected(f"write{at}").to_pydict()["key"] for at in range(2))
    >>> len(low) + len(high), max(low) < min(high)
    (1000, True)
    """
    return Variant(_bucketed("now-sort", read, write, by, workers), {"queues": "static"})


def bucket(
    read: Placeable,
    write: Callable[[int], Placeable],
    by: Sequence[Any],
    workers: Sequence[str],
) -> Variant:
    """The Beowulf's bucket sort: NOW-Sort in one pass, whatever the memory (Beowulf, 3.1).

    A bucket beyond memory is left to virtual memory, or its process is killed.

    >>> from euphrates import sorts
    >>> records = eu.generate("records", rows=1000)
    >>> sort = sorts.bucket(records, lambda at: eu.collect(), ["key"], ["w0", "w1"])
    >>> report = sort.go(workers=2)
    >>> sum(report.collected(f"write{at}").num_rows for at in range(2))
    1000
    """
    flow = _bucketed("bucket sort", read, write, by, workers)
    return Variant(flow, {"queues": "static", "memory": IN_CORE})


def merge_tree(
    read: Callable[[int], Placeable],
    write: Placeable,
    by: Sequence[Any],
    workers: Sequence[str],
    *,
    disks: Sequence[str] | None = None,
    memory: int | float | str = "160MiB",
) -> Variant:
    """The Beowulf's mergesort: every worker sorts its part, and a tree of workers merges the sorted
    parts in constant memory (Beowulf, 3.2).

    `read(at)` is the part of the worker `at`. `disks` are the workers that read the parts and write
    the result if the sorting ones do not, one for each (Beowulf, 4.3). `memory` is the budget of a
    process; a larger part is sorted through scratch. Each node of the tree holds one batch of each
    input. The last two workers write: in the paper both merge everything and write half of it; here
    they take turns with the output of one merge.

    >>> from euphrates import sorts
    >>> parts = [{"n": [3, 1]}, {"n": [4, 2]}]
    >>> read = lambda at: eu.from_arrow(parts[at])
    >>> sort = sorts.merge_tree(read, eu.save("n.parquet"), ["n"], ["w0", "w1"])
    >>> report = sort.go(workers=2)
    >>> report.modules[-1].id, report.modules[-1].rows_in
    ('write', 4)
    """
    _check(workers)
    disks = workers if disks is None else disks
    if len(disks) != len(workers):
        raise UsageError(
            f"{len(workers)} workers sort, and {len(disks)} have disks", remedy="name as many"
        )
    flow = Flow("merge tree")
    level = []
    for at, worker in enumerate(workers):
        part = flow.place(read(at), count=1, workers=[disks[at]], id=f"read{at}")
        level.append(flow.place(modules.sort(by), count=1, workers=[worker], id=f"sort{at}"))
        flow.attach(part, level[at])
    merges = 0
    while len(level) > 1:
        pairs, level = level, []
        for one, other in zip(pairs[::2], pairs[1::2], strict=False):
            worker = workers[merges % len(workers)]
            merge = flow.place(modules.merge(by), count=1, workers=[worker], id=f"merge{merges}")
            flow.attach(one, merge, input=0)
            flow.attach(other, merge, input=1)
            level.append(merge)
            merges += 1
        level.extend(pairs[len(level) * 2 :])
    last = list(disks[-2:])
    flow.attach(level[0], flow.place(write, count=len(last), workers=last, id="write"))
    return Variant(flow, {"queues": "static", "memory": memory})


def _bucketed(
    name: str,
    read: Placeable,
    write: Callable[[int], Placeable],
    by: Sequence[Any],
    workers: Sequence[str],
) -> Flow:
    _check(workers)
    flow = Flow(name)
    count = len(workers)
    source = flow.place(read, count=count, workers=workers, id="read")
    divide = flow.place(modules.divide(by), count=count, workers=workers, id="divide")
    flow.attach(source, divide, queue="pairwise")
    for at, worker in enumerate(workers):
        sort = flow.place(modules.sort(by), count=1, workers=[worker], id=f"sort{at}")
        flow.attach(divide, sort, output=at)
        flow.attach(sort, flow.place(write(at), count=1, workers=[worker], id=f"write{at}"))
    return flow


def _check(workers: Sequence[str]) -> None:
    if not workers or isinstance(workers, str):
        raise UsageError("no workers are named", remedy='give a list, as `["w0", "w1"]`')
