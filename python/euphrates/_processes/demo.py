"""`euphrates demo`: a tour of ten seconds on generated data, in a temporary folder."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import euphrates as eu

_RECORD_BYTES = 100
_QUERY = """
    select l_shipmode as mode, count(*) as items, round(sum(l_extendedprice)) as paid
    from 'lineitem.parquet' where l_quantity > 30
    group by l_shipmode order by paid desc"""


def run(is_small: bool) -> None:
    """Runs the tour, and prints what it does, until nobody reads it any more."""
    try:
        _run(is_small)
    except BrokenPipeError:
        # What is still buffered has nowhere to go, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(is_small: bool) -> None:
    records = 100_000 if is_small else 1_000_000
    with tempfile.TemporaryDirectory(prefix="euphrates-demo-") as folder:
        home = {"home": str(Path(folder, "home"))}
        before = os.getcwd()
        # The query names a file as a user would: by a short path.
        os.chdir(folder)
        try:
            _sort(records, home)
            _query(0.01 if is_small else 0.05, home)
            _slow(3_000_000 if is_small else 30_000_000, home)
        finally:
            os.chdir(before)
    _say(
        "",
        "`euphrates studio` draws flows and runs them in the browser. The tutorial in the manual",
        "begins with CSV files of your own, and ends on a cluster.",
    )


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


def _heading(text: str) -> None:
    _say("", f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text)


def _sort(records: int, options: dict[str, Any]) -> None:
    size = records * _RECORD_BYTES
    memory = max(size // 4, 16 << 20)
    megabytes = f"{size / 1e6:.0f} MB, with {memory / 1e6:.0f} MB of memory"
    _heading(f"1. Sort {records:,} records, {megabytes}")
    made = eu.Flow("make")
    made.chain(eu.generate("records", rows=records), eu.save("records.dat"))
    made.go(progress=False, **options)
    flow = eu.Flow("sort")
    flow.chain(eu.scan("records.dat"), eu.sort(["key"]), eu.save("sorted.dat"))
    _say(str(flow.go(progress=False, memory=memory, **options)))
    _say(f"checked: {_in_order(Path('sorted.dat'), records):,} records are in order")


def _in_order(path: Path, records: int) -> int:
    """The number of records, if each has a key that is not less than the one before."""
    last, found = b"", 0
    with path.open("rb") as file:
        while block := file.read(_RECORD_BYTES * 10_000):
            keys = [block[at : at + 10] for at in range(0, len(block), _RECORD_BYTES)]
            if keys != sorted(keys) or keys[0] < last:
                raise eu.CorruptError(f"records near number {found} are out of order")
            last, found = keys[-1], found + len(keys)
    if found != records:
        raise eu.CorruptError(f"{found} of {records} records are there")
    return found


def _query(scale: float, options: dict[str, Any]) -> None:
    _heading(f"2. Query TPC-H's lineitem, scale {scale}, as a file of Parquet")
    eu.generate("lineitem", scale=scale).save("lineitem.parquet", **options)
    _say(_QUERY.strip("\n"), "")
    began = time.monotonic()
    rows = eu.sql(_QUERY).to_pylist(progress=False, **options)
    for row in rows:
        _say(f"    {row['mode']:10} {row['items']:8,} {row['paid']:18,.0f}")
    _say(f"{len(rows)} rows in {time.monotonic() - began:.2f} s")


def _slow(rows: int, options: dict[str, Any]) -> None:
    _heading("3. Four instances share the work, and one of them is four times slower")
    slow = eu.perturb(instance="map_1.2", share=0.75)
    late, static = (_timed(rows, slow, options, queues) for queues in (None, "static"))
    _say(f"divided in advance, all wait for the slow one:     {static.seconds:5.2f} s")
    _say(f"given to whoever is free, as Euphrates does it:    {late.seconds:5.2f} s", "")
    found = [
        line for line in str(late).splitlines() if line.startswith(("slow", "ideal", "      "))
    ]
    if found:
        _say("From the report of the second run:", *(f"    {line}" for line in found))


def _timed(rows: int, slow: eu.Perturbation, options: dict[str, Any], queues: Any) -> eu.Report:
    flow = eu.Flow("work")
    numbers = flow.place(eu.generate("integers", rows=rows), count=1)
    worked = flow.place(eu.map(_work()), count=4)
    flow.attach(numbers, worked)
    flow.chain(worked, eu.count(), eu.collect())
    report = flow.go(progress=False, perturb=[slow], queues=queues, **options)
    if report.collected().to_pylist() != [{"count": rows}]:
        raise eu.CorruptError("rows are lost")
    return report


def _work() -> Callable[[Any], Any]:
    """A function that takes five milliseconds a batch, on any machine."""

    def work(batch: Any) -> Any:
        time.sleep(0.005)
        return batch

    return work
