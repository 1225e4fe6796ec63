"""Arrow IPC with big-endian buffers, which pyarrow reads but does not write: built here by hand."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import euphrates as eu

Run = Callable[..., eu.Table]

# The width of the numbers in the buffers of each column, in order; 1 is bytes.
COLUMNS: dict[str, tuple[pa.Array, list[int]]] = {
    "bool": (pa.array([True, None, False]), [1, 1]),
    "int8": (pa.array([1, None, -3], pa.int8()), [1, 1]),
    "int16": (pa.array([1, None, -300], pa.int16()), [1, 2]),
    "uint32": (pa.array([1, None, 1 << 31], pa.uint32()), [1, 4]),
    "int64": (pa.array([1, None, -(1 << 40)]), [1, 8]),
    "half": (pa.array(np.array([1.5, 2, -3], np.float16)), [1, 2]),
    "float": (pa.array([1.5, None, -3], pa.float32()), [1, 4]),
    "double": (pa.array([1.5, None, float("inf")]), [1, 8]),
    "decimal": (pa.array([Decimal("-1.5"), None, Decimal("9.25")], pa.decimal128(20, 2)), [1, 16]),
    "wide": (pa.array([Decimal("-1.5"), None, Decimal("9")], pa.decimal256(50, 2)), [1, 32]),
    "date": (pa.array([date(2024, 1, 2), None, date(1969, 1, 1)]), [1, 4]),
    "time": (pa.array([time(1, 2, 3, 4), None, time(5)]), [1, 8]),
    "at": (
        pa.array([datetime(2024, 1, 2), None, datetime(1, 1, 1)]),
        [1, 8],
    ),
    "lasts": (pa.array([timedelta(1), None, timedelta(-2)]), [1, 8]),
    "text": (pa.array(["one", None, "thrée"]), [1, 4, 1]),
    "large": (pa.array(["one", None, "three"], pa.large_string()), [1, 8, 1]),
    "bytes": (pa.array([b"one", None, b""]), [1, 4, 1]),
    "fixed": (pa.array([b"abc", None, b"def"], pa.binary(3)), [1, 1]),
    "list": (pa.array([[1, None], None, [3]]), [1, 4, 1, 8]),
    "large list": (
        pa.array([["a"], None, ["b", "c"]], pa.large_list(pa.string())),
        [1, 8, 1, 4, 1],
    ),
    "pair": (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2)), [1, 1, 2]),
    "struct": (pa.array([{"a": 1, "b": "x"}, None, {"a": 2, "b": None}]), [1, 1, 8, 1, 4, 1]),
    "map": (
        pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        [1, 4, 1, 1, 4, 1, 1, 4],
    ),
    "word": (pa.array(["x", None, "y"]).dictionary_encode(), [1, 4]),
    "null": (pa.nulls(3), []),
}
DICTIONARIES = [[1, 4, 1]]


def uoffset(data: bytes, at: int) -> int:
    return at + struct.unpack_from("<I", data, at)[0]


def slot(data: bytes, table: int, number: int) -> int:
    """The position of a field in a flatbuffer's table; 0 if it has its default."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    if 4 + 2 * number >= size:
        return 0
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0


def declare_big(data: bytearray, schema: int) -> None:
    """Declares big-endian buffers in a schema, which needs a vtable of its own."""
    assert not slot(data, schema, 0)
    old = schema - struct.unpack_from("<i", data, schema)[0]
    size = struct.unpack_from("<H", data, old)[0]
    data.extend(b"\0" * (len(data) % 2))
    new = len(data)
    data.extend(data[old : old + size])
    struct.pack_into("<H", data, new + 4, len(data) - schema)
    struct.pack_into("<i", data, schema, schema - new)
    data.extend(struct.pack("<h", 1))
    data.extend(b"\0" * (-len(data) % 8))


def messages(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """For each message, the offsets of its flatbuffer and body, and the body's length."""
    while True:
        assert data[at : at + 4] == b"\xff\xff\xff\xff"
        length = struct.unpack_from("<I", data, at + 4)[0]
        if length == 0:
            return
        message = uoffset(data, at + 8)
        size = slot(data, message, 3)
        body = at + 8 + length
        bytes_ = struct.unpack_from("<q", data, size)[0] if size else 0
        yield message, body, bytes_
        at = body + bytes_


def swap_buffers(data: bytearray, batch: int, body: int, widths: list[int]) -> None:
    vector = uoffset(data, slot(data, batch, 2))
    count = struct.unpack_from("<I", data, vector)[0]
    assert count == len(widths)
    for n, width in enumerate(widths):
        offset, length = struct.unpack_from("<qq", data, vector + 4 + 16 * n)
        begin, end = body + offset, body + offset + length // width * width
        numbers = np.frombuffer(bytes(data[begin:end]), np.uint8).reshape(-1, width)
        data[begin:end] = numbers[:, ::-1].tobytes()


def big_endian(little: bytes, widths: list[int], dictionaries: list[list[int]]) -> bytes:
    data = bytearray(little)
    is_file = data.startswith(b"ARROW1")
    dictionaries = list(dictionaries)
    for message, body, _ in messages(bytes(data), 8 if is_file else 0):
        kind = data[slot(data, message, 1)]
        header = uoffset(data, slot(data, message, 2))
        if kind == 2:
            swap_buffers(data, uoffset(data, slot(data, header, 1)), body, dictionaries.pop(0))
        elif kind == 3:
            swap_buffers(data, header, body, widths)
    if is_file:
        length = struct.unpack_from("<I", data, len(data) - 10)[0]
        begin = len(data) - 10 - length
        footer = bytearray(data[begin : begin + length])
        declare_big(footer, uoffset(footer, slot(footer, uoffset(footer, 0), 1)))
        return bytes(data[:begin] + footer + struct.pack("<I", len(footer)) + b"ARROW1")
    length = struct.unpack_from("<I", data, 4)[0]
    first = bytearray(data[8 : 8 + length])
    declare_big(first, uoffset(first, slot(first, uoffset(first, 0), 2)))
    return bytes(data[:4] + struct.pack("<I", len(first)) + first + data[8 + length :])


def written(table: pa.Table, kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def values(table: eu.Table) -> list[dict[str, Any]]:
    return pa.table(table).to_pylist()


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_big_endian_buffers_match_pyarrow(kind: str, tmp_path: Path, collected: Run) -> None:
    table = pa.table({name: array for name, (array, _) in COLUMNS.items()})
    widths = [width for _, widths in COLUMNS.values() for width in widths]
    data = big_endian(written(table, kind), widths, DICTIONARIES)
    path = tmp_path / "big.arrow"
    path.write_bytes(data)
    opened = pa.ipc.open_file(data) if kind == "file" else pa.ipc.open_stream(data)
    assert opened.read_all().to_pylist() == table.to_pylist()
    assert values(collected(eu.scan(str(path), order=True))) == table.to_pylist()
    for name in COLUMNS:
        found = values(collected(eu.scan(str(path), columns=[name], order=True)))
        assert found == table.select([name]).to_pylist(), name
    if kind == "stream":
        piped = collected(eu.copy_in("arrow_ipc", path=str(path)))
        assert values(piped) == table.to_pylist()


def test_damaged_big_endian_file_is_at_worst_an_error(tmp_path: Path, collected: Run) -> None:
    table = pa.table({"text": COLUMNS["text"][0], "n": COLUMNS["int64"][0]})
    data = big_endian(written(table, "stream"), [1, 4, 1, 1, 8], [])
    path = tmp_path / "big.arrows"
    for at in range(0, len(data), 5):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        with contextlib.suppress(eu.CorruptError, eu.UsageError):
            collected(eu.scan(str(path)))
