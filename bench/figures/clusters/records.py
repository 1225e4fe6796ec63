"""Records on the disks of a cluster, and a check that a collection of them is sorted."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import euphrates as eu

from . import RATE, Cluster
from .persistent import EUPHRATES

RECORD = 100
BLOCK_ROWS = 2_500
"""Rows of a block, for which a disk takes 46 ms."""


class Cut(eu.Module):
    """Cuts batches to the size of blocks."""

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            for first in range(0, batch.num_rows, BLOCK_ROWS):
                ports.put(batch.slice(first, BLOCK_ROWS))


class Ordered(eu.Module):
    """Checks that keys are ordered; records their number, the first and the last."""

    def schemas(self, inputs: Any) -> Any:
        return pa.schema({"rows": pa.int64(), "first": pa.binary(), "last": pa.binary()})

    def run(self, ports: eu.Ports) -> None:
        rows, first, last = 0, None, b""
        for batch in ports:
            keys = batch.to_pyarrow()["key"].cast(pa.binary())
            assert last <= keys[0].as_py(), f"record {rows} is not in order"
            follows = pc.less_equal(keys[:-1], keys[1:])
            bad = pc.index(follows, False).as_py() + 1
            assert bad == 0, f"record {rows + bad} is not in order, {bad} of {len(keys)} of a batch"
            first = keys[0].as_py() if first is None else first
            rows, last = rows + len(keys), keys[-1].as_py()
        ports.put(pa.record_batch({"rows": [rows], "first": [first], "last": [last]}))


def rows_of(seconds: float, disks: int) -> int:
    """The rows that that many disks read in that time."""
    return int(seconds * RATE * disks / RECORD) // BLOCK_ROWS * BLOCK_ROWS


def write(cluster: Cluster, collection: str, rows: int, copies: int = 1) -> None:
    """Writes records, equally many per disk if all disks have one rate meanwhile."""
    flow = eu.Flow("records")
    source = flow.place(eu.generate("records", rows=rows), count=1)
    target = flow.place(eu.write(collection, disks=cluster.names, copies=copies), count=1)
    flow.chain(source, flow.place(Cut(), count=1), target)
    flow.go(home=cluster.home, progress=False)


def check_and_remove(cluster: Cluster, collections: list[str], rows: int) -> None:
    """Checks that these collections hold all records, each sorted, and in sequence; removes
    them.
    """
    counted, last = 0, b""
    for collection in collections:
        flow = eu.Flow("check")
        read = flow.place(eu.read(collection, columns=["key"], order=True), count=1)
        flow.chain(read, flow.place(Ordered(), count=1), eu.collect())
        found = flow.go(home=cluster.home, progress=False).collected().to_pylist()[0]
        assert last <= found["first"], "two collections overlap"
        counted, last = counted + found["rows"], found["last"]
        home = {**os.environ, "EUPHRATES_HOME": str(cluster.home)}
        subprocess.run([EUPHRATES, "--log", "quiet", "rm", collection], check=True, env=home)
    assert counted == rows, f"{counted} records of {rows}"
