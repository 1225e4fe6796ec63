"""What a commit has made visible, and what it has left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import euphrates as eu
import rig
from rig.faults.syscalls import Call
from s3_server import S3Server, s3, s3_session  # noqa: F401

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))
ROWS = 1_000
needs_syscalls = pytest.mark.skipif(
    rig.missing("syscalls") is not None, reason=str(rig.missing("syscalls"))
)


def rows_of(path: Path) -> int:
    return pq.read_table(path).num_rows


def collection_rows(name: str) -> int | None:
    flow = eu.Flow("read")
    flow.chain(eu.read(name), eu.count(), eu.collect())
    try:
        table = flow.go(progress=False).collected()
    except eu.UsageError:
        return None
    return int(table.to_pylist()[0]["count"])


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.glob(".*")]


def records(home: Path) -> list[str]:
    return [path.name for path in (home / "commits").glob("*") if path.name != "id"]


def decides(call: Call) -> bool:
    """Whether the call creates the record of a commit."""
    return (
        call.kind == "rename" and call.paths[-1].endswith(".json") and "commits" in call.paths[-1]
    )
