"""Folders of files: what other readers find in them, and what is visible when."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from cluster_harness import wait_for
from dataset_cases import (
    by_duckdb,
    files_in,
    rows_of,
    scanned,
    special_rows,
    typed_rows,
    visible,
    write,
)

LINES = eu.generate("lineitem", scale=0.02)
ROWS = 120_515


@pytest.mark.parametrize("by", [["text"], []])
def test_special_values_come_back_from_every_reader(by: list[str], tmp_path: Path) -> None:
    table, out = special_rows(), tmp_path / "out"
    write(table, out, partition_by=by)
    assert rows_of(scanned(out)) == rows_of(table)
    assert rows_of(by_duckdb(out)) == rows_of(table)
    if by:
        assert "text" not in pq.read_schema(out / files_in(out)[0]).names


def test_values_of_all_types_come_back(tmp_path: Path) -> None:
    table = typed_rows()
    for by in (["whole"], ["day"], ["day", "whole"], ["name", "day"], ["flag", "name"]):
        out = tmp_path / "-".join(by)
        write(table, out, partition_by=by)
        # Texts are what Arrow and DuckDB make of other types, too.
        expected = table.set_column(3, "flag", table["flag"].cast(pa.string()))
        expected = expected if "flag" in by else table
        assert rows_of(scanned(out)) == rows_of(expected), by
        assert rows_of(by_duckdb(out)) == rows_of(expected), by
        types = dict(zip(scanned(out).schema.names, scanned(out).schema.types, strict=True))
        assert types.get("whole") == pa.int64()
        assert types.get("day") == pa.date32()
    hive = pyarrow.dataset.partitioning(
        pa.schema([("name", pa.string()), ("day", pa.date32())]), flavor="hive"
    )
    found = pyarrow.dataset.dataset(tmp_path / "name-day", partitioning=hive).to_table()
    assert rows_of(found) == rows_of(table)


@pytest.mark.parametrize("format", ["parquet", "csv", "json_lines", "arrow_ipc"])
def test_folder_of_every_format_is_read_back(format: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    table = pa.table({"city": ["Ur", "Kish", "Ur", None], "n": [1, 2, 3, 4], "x": [0.5] * 4})
    write(table, out, partition_by=["city"], format=format)
    assert rows_of(scanned(out)) == rows_of(table)
    assert scanned(out, columns=["city"]).column_names == ["city"]
    assert rows_of(eu.query(eu.scan(out)).sql("select count(*) as n from self").to_pyarrow()) == [
        "{'n': 4}"
    ]


def test_files_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for file_bytes in (100_000, 1_000_000):
        write(LINES, out, file_bytes=file_bytes, mode="overwrite")
        sizes = sorted(file.stat().st_size for file in out.iterdir())
        assert sizes[-1] <= 1.1 * file_bytes
        # Each of the instances may leave one that is not full.
        assert sizes[len(sizes) // 2] > 0.75 * file_bytes
        assert by_duckdb(out).num_rows == ROWS


def test_small_partitions_are_one_file_each(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = write(LINES, out, partition_by=["l_shipdate"], memory="64MiB")
    days = duckdb.connect().sql(f"select distinct l_shipdate from '{out}/**/*.parquet'").fetchall()
    assert len(files_in(out)) == len(list(out.iterdir())) == len(days)
    assert by_duckdb(out).num_rows == ROWS
    assert "files in" in str(report.modules[-1].remark)


@pytest.mark.parametrize("by", [[], ["l_linenumber"]])
def test_rows_of_an_ordered_input_stay_in_order_in_each_file(by: list[str], tmp_path: Path) -> None:
    flow, out = eu.Flow("sorted"), tmp_path / "out"
    save = eu.save_dataset(out, partition_by=by, file_bytes=200_000)
    flow.chain(LINES, eu.sort(["l_extendedprice", "l_orderkey"]), save)
    flow.go(memory="64MiB")
    for file in files_in(out):
        prices = pq.ParquetFile(out / file).read(["l_extendedprice"])["l_extendedprice"].to_pylist()
        assert prices == sorted(prices)
    assert by_duckdb(out).num_rows == ROWS


def test_empty_input_keeps_the_columns(tmp_path: Path) -> None:
    for by in ([], ["text"]):
        out = tmp_path / f"out{len(by)}"
        flow = eu.Flow("none")
        flow.chain(
            eu.from_arrow(special_rows()), eu.filter("n < 0"), eu.save_dataset(out, partition_by=by)
        )
        flow.go()
        found = scanned(out)
        assert (found.num_rows, sorted(found.column_names)) == (0, ["n", "text"])
        assert by_duckdb(out).num_rows == 0


def test_modes_say_what_becomes_of_files_that_are_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = pa.table({"city": ["Ur", "Kish"], "n": [1, 2]})
    second = pa.table({"city": ["Ur", "Mari"], "n": [3, 4]})
    write(first, out, partition_by=["city"])
    (out / "README").write_text("kept")
    (out / ".hidden").mkdir()
    (out / ".hidden" / "x.parquet").write_text("kept")
    with pytest.raises(eu.UsageError, match="is not empty"):
        write(second, out, partition_by=["city"])

    write(second, out, partition_by=["city"], mode="append")
    assert sorted(by_duckdb_visible(out)) == [1, 2, 3, 4]
    write(second, out, partition_by=["city"], mode="overwrite_partitions")
    assert sorted(by_duckdb_visible(out)) == [2, 3, 4]
    write(second, out, partition_by=["city"], mode="overwrite")
    assert sorted(by_duckdb_visible(out)) == [3, 4]
    assert {"README", ".hidden/x.parquet"} <= set(files_in(out))
    with pytest.raises(eu.FlowError, match="exists already"):
        write(second, out, partition_by=["city"], mode="append", file_name="part-{i}")
    assert sorted(by_duckdb_visible(out)) == [3, 4]
    assert visible(tmp_path) == ["out"]


def by_duckdb_visible(out: Path) -> list[int]:
    return scanned(out)["n"].to_pylist()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"partition_by": ["town"]}, "town"),
        ({"partition_by": ["n", "n"]}, "twice"),
        ({"partition_by": ["n", "text"]}, "every column"),
        ({"mode": "apend"}, "append"),
        ({"mode": "overwrite_partitions"}, "no partitions"),
        ({"file_name": "part"}, r"\{i\}"),
        ({"file_name": "../{i}"}, "no name"),
        ({"file_bytes": 0}, "file_bytes"),
        ({"format": "parqet"}, "parquet"),
        ({"compression": "zst"}, "zstd"),
    ],
)
def test_wrong_options_are_named(config: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(eu.UsageError) as error:
        write(special_rows(), tmp_path / "out", **config)
    assert re.search(expected, f"{error.value} {error.value.remedy}")
    assert visible(tmp_path) == []


def test_unwritable_targets_are_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "out", tmp_path / "file", Path("/")):
        with pytest.raises(eu.UsageError):
            write(special_rows(), path, mode="append")
    with pytest.raises(eu.UsageError, match="object store"):
        eu.query(eu.from_arrow(special_rows())).save("s3://bucket/out/")


def test_too_many_partitions_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(eu.EuphratesError, match="more than 10 folders") as error:
        write(special_rows(), tmp_path / "out", partition_by=["text"], partitions_max=10)
    assert "partitions_max" in str(error.value.remedy)
    assert not [name for name in os.listdir(tmp_path) if "out" in name]


def test_long_value_is_an_error_that_names_its_column(tmp_path: Path) -> None:
    table = pa.table({"text": ["x" * 300], "n": [1]})
    with pytest.raises(eu.EuphratesError, match=r"`text`.*305 bytes"):
        write(table, tmp_path / "out", partition_by=["text"])
    assert not [name for name in os.listdir(tmp_path) if "out" in name]


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_failure_in_the_middle_changes_nothing(mode: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if mode != "error":
        write(pa.table({"p": [1], "n": [1]}), out, partition_by=["p"])
    before = files_in(tmp_path / "out") if out.exists() else None
    flow = eu.Flow("fails")
    flow.chain(
        eu.generate("integers", rows=3_000_000),
        eu.project(["n % 7 as p", "1000000 / (2900000 - n) as n"]),
        eu.save_dataset(out, partition_by=["p"], mode=mode, file_bytes=10_000),
    )
    with pytest.raises(eu.EuphratesError, match="zero"):
        flow.go(memory="32MiB")
    assert (files_in(out) if out.exists() else None) == before
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".out")]


def test_killed_flow_leaves_nothing_that_is_seen_and_the_next_removes_the_rest(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    program = (
        "import euphrates as eu\n"
        "eu.query(eu.generate('integers', rows=10**12))"
        f".save({str(out)!r}, file_bytes=1_000_000)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    wait_for(lambda: list(tmp_path.glob(".out.*/part-000009*")), "ten files")
    assert not out.exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(tmp_path.glob(".out.*"))
    with pytest.raises(eu.UsageError):
        scanned(tmp_path)
    write(pa.table({"n": [1]}), out)
    assert visible(tmp_path) == ["out"]


def test_reader_sees_all_files_of_before_or_of_after(tmp_path: Path) -> None:
    out = tmp_path / "out"
    numbers = [eu.generate("integers", rows=rows) for rows in (40_000, 20_000)]
    write(numbers[0], out, file_bytes=20_000)
    seen: list[int | None] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            folder = os.open(out, os.O_RDONLY)
            try:
                rows = sum(rows_at(folder, name) for name in os.listdir(folder))
            except FileNotFoundError:
                rows = None
            # Files of a folder that was replaced meanwhile are being removed.
            if os.fstat(folder).st_ino == os.stat(out).st_ino:
                seen.append(rows)
            os.close(folder)

    def rows_at(folder: int, name: str) -> int:
        with open(os.open(name, os.O_RDONLY, dir_fd=folder), "rb") as file:
            return pq.ParquetFile(file).metadata.num_rows

    reader = threading.Thread(target=look)
    reader.start()
    for turn in range(20):
        write(numbers[(turn + 1) % 2], out, file_bytes=20_000, mode="overwrite")
    is_over.set()
    reader.join()
    assert set(seen) <= {40_000, 20_000}
    assert seen


def test_two_folders_and_a_file_are_published_together(tmp_path: Path) -> None:
    flow = eu.Flow("three")
    source = flow.place(eu.from_arrow(special_rows()))
    tee = flow.place(eu.tee())
    flow.attach(source, tee)
    one = eu.save_dataset(tmp_path / "one", partition_by=["text"])
    targets = [one, eu.save_dataset(tmp_path / "two"), eu.save(tmp_path / "three.parquet")]
    for target in targets:
        flow.attach(tee, flow.place(target))
    flow.go()
    for found in ("one", "two", "three.parquet"):
        assert rows_of(scanned(tmp_path / found)) == rows_of(special_rows())
    assert visible(tmp_path) == ["one", "three.parquet", "two"]
    # One of them cannot be published any more, so none is.
    with pytest.raises(eu.UsageError):
        flow.go()


def test_options_of_one_file_are_those_of_save(tmp_path: Path) -> None:
    rows = eu.query({"n": [1, None], "t": ["a", "b"]})
    rows.sort("t").save(tmp_path / "n.csv", delimiter=";", header=False, null_value="-")
    assert (tmp_path / "n.csv").read_text() == "1;a\n-;b\n"


@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
@pytest.mark.parametrize("by", [["day"], ["city", "day"], ["day", "city"], []])
def test_other_partitions_than_those_of_the_files_are_refused(
    mode: str, by: list[str], tmp_path: Path
) -> None:
    if mode == "overwrite_partitions" and not by:
        pytest.skip("it needs partitions")
    out = tmp_path / "out"
    rows = pa.table({"city": ["Ur", "Kish"], "day": [1, 2], "n": [1, 2]})
    write(rows, out, partition_by=["city"])
    with pytest.raises(eu.UsageError, match=r"partitioned by `city`, not by") as error:
        write(rows, out, partition_by=by, mode=mode)
    assert 'partition_by=["city"]' in str(error.value.remedy)
    assert scanned(out).num_rows == 2


def test_partitions_are_refused_beside_files_without(tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = pa.table({"city": ["Ur", "Kish"], "n": [1, 2]})
    write(rows, out)
    (out / "README").write_text("no rows")
    write(rows, out, mode="append")
    with pytest.raises(eu.UsageError, match="partitioned by no column, not by `city`"):
        write(rows, out, partition_by=["city"], mode="append")
    assert scanned(out).num_rows == 4
