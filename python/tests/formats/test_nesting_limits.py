"""Limits on nesting depth: one limit for all formats, and no stack overflow."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpora
import euphrates as eu

DEPTH_MAX = 60

TOO_DEEP = "nested more than 60 levels deep"


def lists(levels: int) -> pa.Table:
    """A list column of this many levels."""
    values: pa.Array = pa.array([1, None, 3])
    for _ in range(levels - 1):
        values = pa.ListArray.from_arrays([0, 1, 2, 3], values)
    return pa.table({"a": values})


def structs(levels: int) -> pa.Table:
    values: pa.Array = pa.array([1, None, 3])
    for _ in range(levels - 1):
        values = pa.StructArray.from_arrays([values], ["f"])
    return pa.table({"a": values})


def checked(path: Path, **options: object) -> None:
    """Checks a flow that reads a file, in a process that may crash."""
    code = "import sys, euphrates as eu\nf = eu.Flow('x')\n"
    code += f"f.chain(eu.scan(sys.argv[1], **{options!r}), eu.count(), eu.collect())\n"
    code += "try: f.go()\nexcept (eu.UsageError, eu.FlowError) as e: print(e)\n"
    command = [sys.executable, "-c", code, str(path)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert child.returncode == 0, child.stderr
    assert TOO_DEEP in child.stdout, child.stdout


@pytest.mark.parametrize("name", ["parquet", "arrow", "jsonl"])
@pytest.mark.parametrize("make", [lists, structs])
def test_columns_at_the_nesting_limit_roundtrip(
    tmp_path: Path, name: str, make: Callable[[int], pa.Table]
) -> None:
    rows, path = make(DEPTH_MAX), tmp_path / f"deep.{name}"
    corpora.save(rows, path)
    assert corpora.difference(corpora.read(path), rows) is None


def varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def deep_parquet(levels: int) -> bytes:
    """A file without rows whose schema is a chain of groups."""

    def element(name: bytes, children: int) -> bytes:
        repetition = b"\x35\x00" if name != b"r" else b""
        head = b"" if children else b"\x15\x02"
        if not children:
            repetition = b"\x25\x00"
        delta = {b"": 4, b"\x35\x00": 1, b"\x25\x00": 1}[repetition]
        named = bytes([delta << 4 | 8]) + varint(len(name)) + name
        return head + repetition + named + (b"\x15" + varint(children * 2)) * bool(children) + b"\0"

    elements = [element(b"r", 1), *[element(b"g", 1)] * levels, element(b"leaf", 0)]
    schema = b"\x19\xfc" + varint(len(elements)) + b"".join(elements)
    footer = b"\x15\x02" + schema + b"\x16\x00" + b"\x19\x0c" + b"\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


@pytest.mark.parametrize("levels", [500, 100_000])
def test_deep_parquet_schema_is_rejected(tmp_path: Path, levels: int) -> None:
    path = tmp_path / "deep.parquet"
    path.write_bytes(deep_parquet(levels))
    checked(path)


def test_handmade_parquet_schema_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "flat.parquet"
    path.write_bytes(deep_parquet(10))
    assert pq.read_schema(path).names == ["g"]
    assert corpora.read(path).num_rows == 0


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 500])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_deep_arrow_schema_is_rejected(tmp_path: Path, levels: int, kind: str) -> None:
    schema = pa.schema([("a", pa.int64())])
    data_type = pa.int64()
    for _ in range(levels - 1):
        data_type = pa.list_(data_type)
    path = tmp_path / "deep.arrow"
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(path, schema.set(0, pa.field("a", data_type))):
        pass
    checked(path)


@pytest.mark.parametrize("levels", [DEPTH_MAX, 500, 1_000_000])
@pytest.mark.parametrize("brackets", [("[", "]"), ('{"b": ', "}")])
@pytest.mark.parametrize("before", [0, 50_000])
def test_deep_json_is_rejected(
    tmp_path: Path, levels: int, brackets: tuple[str, str], before: int
) -> None:
    """In the records of the sample, and after it."""
    path = tmp_path / "deep.jsonl"
    first = '{"a": 1}\n' * before
    path.write_text(f'{first}{{"a": {brackets[0] * levels}1{brackets[1] * levels}}}\n')
    checked(path)


def test_deep_type_name_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n')
    for name in ("list<", "List("):
        checked(path, types={"a": name * 10_000})


def test_deep_in_memory_table_is_rejected_promptly() -> None:
    data_type = pa.int64()
    for _ in range(5000):
        data_type = pa.list_(data_type)
    # pyarrow takes ten seconds to build such a table.
    rows = pa.RecordBatchReader.from_batches(pa.schema([("a", data_type)]), [])
    begun = time.monotonic()
    with pytest.raises(eu.UsageError, match=TOO_DEEP):
        flow = eu.Flow("deep")
        flow.chain(eu.from_arrow(rows), eu.count(), eu.collect())
        flow.check()
    # Detects quadratic or worse time in the number of levels.
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("levels", [100, 100_000])
def test_deep_document_is_rejected(levels: int) -> None:
    text = json.dumps({"euphrates": 1, "name": "x", "modules": [], "layout": "HERE"})
    text = text.replace('"HERE"', "[" * levels + "]" * levels)
    with pytest.raises(eu.UsageError, match=TOO_DEEP):
        eu.Flow.from_json(text)


@pytest.mark.parametrize("text", ["(" * 50_000, "not " * 50_000, "-" * 50_000, "1+" * 2000 + "1"])
def test_deep_expression_is_rejected(text: str) -> None:
    flow = eu.Flow("deep")
    flow.chain(eu.generate("integers", rows=3), eu.filter(f"{text} > 0"), eu.collect())
    with pytest.raises(eu.UsageError):
        flow.check()
