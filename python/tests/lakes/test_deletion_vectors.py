"""Delta tables of which rows are deleted by vectors, as Spark and Databricks write them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from lake_cases import commit_by_hand, long_column, metadata, protocol, rows_of

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def bitmap(rows: list[int]) -> bytes:
    """A set of rows in the portable format of Roaring bitmaps, within Delta's."""
    container = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16)
    container += struct.pack(f"<{len(rows)}H", *rows)
    return struct.pack("<IQI", 1681511377, 1, 0) + container


def inline(rows: list[int]) -> dict[str, object]:
    """A vector within the log, in base 85."""
    data = bitmap(rows)
    padded = data + bytes(-len(data) % 4)
    text = ""
    for at in range(0, len(padded), 4):
        number = int.from_bytes(padded[at : at + 4], "big")
        text += "".join(DIGITS[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def in_file(rows: list[int], path: Path) -> dict[str, object]:
    """A vector in a file of its own."""
    data = bitmap(rows)
    sized = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    path.write_bytes(b"\1" + sized)
    return {
        "storageType": "p",
        "pathOrInlineDv": f"file://{path}",
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def table(path: Path) -> None:
    """An empty table that allows vectors, with partitions by `day`."""
    columns = [long_column("n"), long_column("day")]
    described = metadata(columns, **{"delta.enableDeletionVectors": "true"})
    described["metaData"]["partitionColumns"] = ["day"]
    commit_by_hand(path, protocol(["deletionVectors"], []), described)


def add(path: Path, day: int, rows: range, vector: dict[str, object] | None) -> None:
    name = f"day={day}/a.parquet"
    (path / name).parent.mkdir(parents=True)
    pq.write_table(pa.table({"n": rows}), path / name, row_group_size=7)
    action: dict[str, object] = {
        "path": name,
        "partitionValues": {"day": str(day)},
        "size": (path / name).stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": f'{{"numRecords": {len(rows)}}}',
    }
    if vector:
        action["deletionVector"] = vector
    commit_by_hand(path, {"add": action})


@pytest.fixture
def deleted(tmp_path: Path) -> Path:
    """Days 1 and 2 with deleted rows, and day 3 without."""
    path = tmp_path / "t"
    table(path)
    add(path, 1, range(20), inline([3, 4, 7, 11, 18]))
    add(path, 2, range(100, 110), in_file([0, 9], path / "vector.bin"))
    add(path, 3, range(200, 203), None)
    return path


def left() -> pa.Table:
    """The rows that are left."""
    days = {1: [n for n in range(20) if n not in (3, 4, 7, 11, 18)]}
    days |= {2: list(range(101, 109)), 3: [200, 201, 202]}
    return pa.table(
        {
            "n": [n for rows in days.values() for n in rows],
            "day": [day for day, rows in days.items() for _ in rows],
        }
    )


def test_deleted_rows_are_left_out(deleted: Path) -> None:
    assert rows_of(eu.scan_delta(deleted).to_pyarrow()) == rows_of(left())
    counted = eu.sql(
        f"select day, count(*) as c from '{deleted}' where n > 4 group by 1 order by 1"
    )
    assert counted.to_pydict() == {"day": [1, 2, 3], "c": [12, 8, 3]}
    earlier = eu.scan_delta(deleted, version=1).to_pyarrow()
    assert set(earlier.column("day").to_pylist()) == {1}


def test_deleted_rows_are_left_out_on_workers(deleted: Path) -> None:
    with eu.Cluster.processes(2) as cluster:
        assert rows_of(eu.scan_delta(deleted).to_pyarrow(cluster=cluster)) == rows_of(left())


def test_files_with_vectors_are_not_replaced(deleted: Path) -> None:
    for change in (
        lambda: eu.sort_delta(deleted, "n"),
        lambda: eu.query(left()).save_delta(deleted, mode="overwrite"),
    ):
        with pytest.raises(eu.UsageError, match="deletion vectors"):
            change()
    eu.query({"n": [7], "day": [4]}).save_delta(deleted, mode="append")
    assert eu.scan_delta(deleted).collect().num_rows == left().num_rows + 1


def test_an_unreadable_vector_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table(path)
    vector = inline([1])
    add(path, 1, range(5), {**vector, "pathOrInlineDv": "0" * len(str(vector["pathOrInlineDv"]))})
    with pytest.raises(eu.CorruptError, match="deletion vectors cannot be read"):
        eu.scan_delta(path)
