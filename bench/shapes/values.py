"""Values of every type, computed from 64 bits each: equal bits give equal values.

Bits are random, or those of an ordinal, either as they are (`dense`: small values) or mixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bits = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Piece = tuple[Bytes, "npt.NDArray[np.int64] | None"]
"""Rows of bytes, and how many of each row are used: all if None."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DECIMAL = "0123456789"
HEX = "0123456789abcdef"
MICROSECONDS_MAX = 50 * 365 * 86_400 * 1_000_000
DAYS_MAX = 36_500


@dataclass(frozen=True)
class Kind:
    """A type of column: how values are made of bits, their mean size, and DuckDB's type."""

    array: Callable[[Bits], pa.Array]
    bytes: int
    sql: str = "VARCHAR"


def mixed(ordinals: Bits, salt: int = 0) -> Bits:
    """The finalizer of SplitMix64 (Steele et al., OOPSLA 2014): a permutation of 64 bits."""
    bits = ordinals + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def number(type_: str) -> Callable[[Bits], pa.Array]:
    return lambda bits: pa.array(bits.astype(type_))


def int48(bits: Bits) -> pa.Array:
    """Integers that a double holds: some readers of JSON infer that type."""
    return pa.array(np.fmod(bits.view(np.int64), 2**48))


def float_(type_: str) -> Callable[[Bits], pa.Array]:
    return lambda bits: pa.array((bits.view(np.int64) / 2.0**40).astype(type_))


def decimal(precision: int, scale: int) -> Callable[[Bits], pa.Array]:
    """Of more than 18 digits the upper word has the sign, and at most 15 digits."""

    def array(bits: Bits) -> pa.Array:
        value = np.fmod(bits.view(np.int64), 10**15)
        words = [value, value >> 63] if precision <= 18 else [mixed(bits).view(np.int64), value]
        data = pa.py_buffer(np.stack(words, axis=1).tobytes())
        return pa.Array.from_buffers(pa.decimal128(precision, scale), len(bits), [None, data])

    return array


def day(bits: Bits) -> pa.Array:
    return pa.array((bits % np.uint64(DAYS_MAX)).astype(np.int32)).cast(pa.date32())


def instant(bits: Bits) -> pa.Array:
    """Odd microseconds: DuckDB's reader of JSON infers a format that whole seconds do not have."""
    values = (bits % np.uint64(MICROSECONDS_MAX // 2)).astype(np.int64)
    return pa.array(2 * values + 1).cast(pa.timestamp("us"))


def boolean(bits: Bits) -> pa.Array:
    return pa.array((bits & np.uint64(1)).astype(bool))


def digits(bits: Bits, count: int, alphabet: str = DECIMAL) -> Bytes:
    """The last digits of a number in the base of an alphabet."""
    signs = np.frombuffer(alphabet.encode(), np.uint8)
    made, base = np.empty((len(bits), count), np.uint8), np.uint64(len(alphabet))
    for at in reversed(range(count)):
        made[:, at] = signs[(bits % base).astype(np.intp)]
        bits = bits // base
    return made


def letters(bits: Bits, least: int, most: int) -> Piece:
    """Letters of different number, by the bits."""
    parts = [digits(mixed(bits, salt), 12, LETTERS) for salt in range(-(-most // 12))]
    lengths = least + (mixed(bits, 99) % np.uint64(most - least + 1)).astype(np.int64)
    return np.hstack(parts)[:, :most], lengths


def joined(count: int, *pieces: Piece | Bytes | str, type_: pa.DataType | None = None) -> pa.Array:
    """Text, or bytes, whose parts are constants or one piece for each row."""
    parts, used = [], []
    for piece in pieces:
        if isinstance(piece, str):
            constant = np.frombuffer(piece.encode(), np.uint8)
            part, lengths = np.broadcast_to(constant, (count, len(constant))), None
        else:
            part, lengths = piece if isinstance(piece, tuple) else (piece, None)
        width = part.shape[1]
        every = np.full(count, width) if lengths is None else lengths
        parts.append(part)
        used.append(np.arange(width) < every[:, None])
    mask = np.hstack(used)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(mask.sum(axis=1), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(np.hstack(parts)[mask])]
    return pa.Array.from_buffers(type_ or pa.string(), count, buffers)


def url(bits: Bits) -> pa.Array:
    path, page = letters(bits, 10, 40), digits(bits, 9)
    return joined(len(bits), "https://www.shop.example/articles/", path, "?page=", page)


def email(bits: Bits) -> pa.Array:
    name, family, host = letters(bits, 3, 9), letters(mixed(bits), 4, 10), digits(mixed(bits, 5), 1)
    return joined(len(bits), name, ".", family, digits(bits, 6), "@mail", host, ".example.com")


def hex32(bits: Bits) -> Bytes:
    return np.hstack([digits(bits, 16, HEX), digits(mixed(bits), 16, HEX)])


def uuid(bits: Bits) -> pa.Array:
    made, ends = hex32(bits), (0, 8, 12, 16, 20, 32)
    parts = [made[:, a:b] for a, b in zip(ends, ends[1:])]
    dashed = [piece for part in parts for piece in ("-", part)][1:]
    return joined(len(bits), *dashed)


def raw(bits: Bits, count: int) -> Bytes:
    """Bytes of any value; the first eight are those of the bits."""
    words = [bits.byteswap(), *(mixed(bits, salt) for salt in range(-(-count // 8) - 1))]
    return np.stack(words, axis=1).view(np.uint8)[:, :count]


def some_bytes(bits: Bits) -> pa.Array:
    lengths = 1 + (mixed(bits) % np.uint64(30)).astype(np.int64)
    return joined(len(bits), (raw(bits, 30), lengths), type_=pa.binary())


def all_bytes(count: int) -> Callable[[Bits], pa.Array]:
    return lambda bits: joined(len(bits), raw(bits, count), type_=pa.binary())


def fixed(count: int) -> Callable[[Bits], pa.Array]:
    def array(bits: Bits) -> pa.Array:
        data = pa.py_buffer(raw(bits, count).tobytes())
        return pa.Array.from_buffers(pa.binary(count), len(bits), [None, data])

    return array


def words(least: int, most: int) -> Callable[[Bits], pa.Array]:
    return lambda bits: joined(len(bits), letters(bits, least, most))


def numbers(bits: Bits) -> pa.Array:
    """Lists of up to four integers."""
    offsets = np.zeros(len(bits) + 1, np.int32)
    np.cumsum((bits % np.uint64(5)).astype(np.int32), out=offsets[1:])
    items = mixed(np.arange(offsets[-1], dtype=np.uint64)) % np.uint64(1000)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(items.astype(np.int32)))


def record(bits: Bits) -> pa.Array:
    parts = [number("int64")(bits), words(3, 12)(bits)]
    return pa.StructArray.from_arrays(parts, names=["number", "word"])


WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
KINDS = {
    **{f"int{width}": Kind(number(f"i{width // 8}"), width // 8, sql)
       for sql, width in WIDTHS.items()},
    **{f"uint{width}": Kind(number(f"u{width // 8}"), width // 8, f"U{sql}")
       for sql, width in WIDTHS.items()},
    "int48": Kind(int48, 8, "BIGINT"),
    "decimal18": Kind(decimal(18, 2), 16, "DECIMAL(18,2)"),
    "decimal38": Kind(decimal(38, 4), 16, "DECIMAL(38,4)"),
    "float32": Kind(float_("f4"), 4, "FLOAT"),
    "float64": Kind(float_("f8"), 8, "DOUBLE"),
    "date": Kind(day, 4, "DATE"),
    "timestamp": Kind(instant, 8, "TIMESTAMP"),
    "bool": Kind(boolean, 1, "BOOLEAN"),
    "short": Kind(lambda bits: joined(len(bits), digits(bits, 8, LETTERS + DECIMAL)), 12),
    "word": Kind(words(3, 12), 12),
    "long": Kind(words(50, 150), 104),
    "prefix": Kind(lambda b: joined(len(b), "customers/2026/europe/invoice-", digits(b, 10)), 44),
    "url": Kind(url, 78),
    "email": Kind(email, 41),
    "uuid": Kind(uuid, 40),
    "hex32": Kind(lambda bits: joined(len(bits), hex32(bits)), 36),
    "id10": Kind(lambda bits: joined(len(bits), "id", digits(bits, 10)), 16),
    "dictionary": Kind(lambda bits: words(3, 12)(bits).dictionary_encode(), 4),
    "binary": Kind(some_bytes, 20, "BLOB"),
    "bytes10": Kind(all_bytes(10), 14, "BLOB"),
    "bytes90": Kind(all_bytes(90), 94, "BLOB"),
    "fixed16": Kind(fixed(16), 16, "BLOB"),
    "list": Kind(numbers, 12, "INTEGER[]"),
    "struct": Kind(record, 20, 'STRUCT("number" BIGINT, word VARCHAR)'),
}  # fmt: skip
