"""Arrow files of one large batch, which are read in slices of rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import euphrates as eu

Run = Callable[..., eu.Table]

ROWS = 400_003
CODES = np.random.default_rng(5).integers(0, 1000, ROWS)


def nulls(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(ROWS) < 0.3


def lists(large: bool, seed: int) -> pa.Array:
    lengths = np.random.default_rng(seed).integers(0, 4, ROWS)
    kind = pa.int64() if large else pa.int32()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), kind, mask=None)
    items = pa.array(np.arange(int(lengths.sum())), mask=np.arange(int(lengths.sum())) % 7 == 0)
    array = pa.LargeListArray if large else pa.ListArray
    return array.from_arrays(offsets, items, mask=pa.array(nulls(seed)))


TEXTS = pa.array([f"text {code}" * (code % 3) for code in CODES], mask=nulls(1))
COLUMNS = {
    "int": pa.array(CODES, mask=nulls(2)),
    "whole": pa.array(CODES.astype(np.int16)),
    "bool": pa.array(CODES % 2 == 0, mask=nulls(3)),
    "text": TEXTS,
    "bytes": TEXTS.cast(pa.large_binary()),
    "decimal": pa.array(CODES).cast(pa.decimal128(25, 2)),
    "time": pa.array(CODES.astype("datetime64[us]")),
    "fixed": pa.array([b"%04d" % code for code in CODES], pa.binary(4), mask=nulls(4)),
    "list": lists(False, 5),
    "large": lists(True, 6),
    "pair": pa.StructArray.from_arrays(
        [pa.array(CODES, mask=nulls(7)), TEXTS], ["a", "b"], mask=pa.array(nulls(8))
    ),
    "three": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(3 * ROWS)), 3),
    "null": pa.nulls(ROWS),
    "map": pa.MapArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), TEXTS.fill_null(""), CODES),
    "lists": pa.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), lists(False, 9)),
}
# Read with their whole batch.
OTHERS = {"code": TEXTS.dictionary_encode(), "view": TEXTS.cast(pa.string_view())}


def write(table: pa.Table, path: Path) -> None:
    new = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with new(str(path), table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
@pytest.mark.parametrize("others", [False, True])
def test_single_batch_table_is_read_unchanged(
    ending: str, others: bool, tmp_path: Path, collected: Run
) -> None:
    table = pa.table({**COLUMNS, **(OTHERS if others else {})})
    path = tmp_path / f"one.{ending}"
    write(table, path)
    found = collected(eu.scan(path, order=True)).to_pyarrow()
    for name in table.column_names:
        kind = pa.string() if name == "code" else table.schema.field(name).type
        expected, column = table[name].cast(kind), found[name]
        if column.type == pa.dictionary(pa.int32(), pa.string()):
            column = column.cast(pa.string())
        assert column.combine_chunks().equals(expected.combine_chunks()), name
    some = collected(eu.scan(path, columns=["list", "bool"], order=True)).to_pyarrow()
    assert some.column_names == ["list", "bool"]
    assert some["list"].combine_chunks().equals(table["list"].combine_chunks())
    counted = collected(eu.scan(path), eu.aggregate([], values={"rows": "count()"}))
    assert counted.to_pyarrow()["rows"].to_pylist() == [ROWS]


def test_damaged_large_batch_is_at_worst_an_error(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "one.arrow"
    write(pa.table({"text": TEXTS, "list": COLUMNS["list"]}), path)
    content = path.read_bytes()
    random = np.random.default_rng(7)
    for at in random.integers(0, len(content), 40):
        damaged = bytearray(content)
        damaged[at : at + 8] = b"\xff" * 8
        path.write_bytes(bytes(damaged))
        try:
            collected(eu.scan(path))
        except eu.EuphratesError as error:
            assert isinstance(error, (eu.CorruptError, eu.ResourceError, eu.UsageError)), error


PROGRAM = """
import sys
import euphrates as eu

flow = eu.Flow("memory")
flow.chain(eu.scan(sys.argv[1]), eu.save(sys.argv[2]))
try:
    flow.go(memory="128MiB", cores=2, progress=False)
except eu.ResourceError as error:
    print(error, file=sys.stderr)
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_batch_beyond_the_budget_is_read_within_it(ending: str, tmp_path: Path) -> None:
    source, target = tmp_path / f"one.{ending}", tmp_path / "out.parquet"
    write(pa.table({"n": np.arange(40_000_000), "m": np.arange(40_000_000) * 2}), source)
    command = [sys.executable, "-c", PROGRAM, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 128 * 1.1 + 64


def test_rows_of_skewed_lengths_are_read_within_the_budget(tmp_path: Path) -> None:
    source, target = tmp_path / "one.arrow", tmp_path / "out.arrow"
    lengths = [10_000_000 if row % 3000 == 1000 else 10 for row in range(60_000)]
    write(pa.table({"bytes": pa.array([b"x" * length for length in lengths])}), source)
    command = [sys.executable, "-c", PROGRAM, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr
    assert int(done.stdout) <= 128 * 1.1 + 64
    with pa.memory_map(str(target)) as file, pa.ipc.open_file(file) as out:
        found = [len(value) for value in out.read_all()["bytes"].to_pylist()]
    assert sorted(found) == sorted(lengths)


def test_huge_row_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    source, target = tmp_path / "one.arrow", tmp_path / "out.arrow"
    values = pa.array(np.arange(30_000_000))
    rows = pa.ListArray.from_arrays(pa.array([0, 10, 30_000_000], pa.int32()), values)
    write(pa.table({"list": rows}), source)
    command = [sys.executable, "-c", PROGRAM, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "a row has more than 228.9 MiB" in done.stderr and "memory" in done.stderr
    assert int(done.stdout) <= 128 * 1.1 + 64
