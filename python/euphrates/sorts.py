"""The sorts of the papers, made of modules that anybody can place: to compare `eu.sort` with.

They divide the work in advance, so each goes at the speed of its slowest machine; and the first two
rely on keys that are spread evenly. What you want is `eu.sort`.

```python
from euphrates import sorts

sort = sorts.now(eu.read("records"), lambda at: eu.write(f"sorted.{at}"), ["key"], cluster.names)
report = sort.go(cluster=cluster)
```
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from . import modules
from .errors import UsageError
from .flow import Flow, Placeable
from .report import Report

IN_CORE = "1024TiB"
"""A budget that is never reached: whatever comes is held in memory, or in what takes its place."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """A flow, and the options it is to be run with."""

    flow: Flow
    """The flow."""
    options: dict[str, Any]
    """For `flow.go`."""

    def go(self, **options: Any) -> Report:
        """Runs the flow with its options, and these besides."""
        return self.flow.go(**{**self.options, **options})


def now(
    read: Placeable,
    write: Callable[[int], Placeable],
    by: Sequence[Any],
    workers: Sequence[str],
) -> Variant:
    """NOW-Sort: every worker reads a part, sends each record to the worker that has its range of
    keys, sorts what it gets, and writes it (Berkeley NOW, 6).

    The ranges are of one size, and no queue has a choice. What does not fit the memory is sorted in
    two passes. `write(at)` is the target of the worker `at`, whose keys come before those of the
    next. `workers` are names: `w0`, `w1`, … of `flow.go(workers=n)`, or those of a cluster.
    """
    return Variant(_bucketed("now-sort", read, write, by, workers), {"queues": "static"})


def bucket(
    read: Placeable,
    write: Callable[[int], Placeable],
    by: Sequence[Any],
    workers: Sequence[str],
) -> Variant:
    """The Beowulf's bucket sort: NOW-Sort in one pass, whatever the memory (Beowulf, 3.1).

    A bucket that does not fit is left to virtual memory, or is the end of its process.
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
    parts, in a memory that does not depend on how much there is (Beowulf, 3.2).

    `read(at)` is the part of the worker `at`. `disks` are the workers that read the parts and write
    the result, if those that sort do not, one for each (Beowulf, 4.3). `memory` is what a process
    has; a part beyond it is sorted through scratch. Each node of the tree holds a batch of each
    input. The last two workers write: in the paper both merge everything and write half of it, here
    they take turns with what one has merged.
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
