"""Arrays of every Arrow type, with values at which implementations differ.

All randomness comes from a `random.Random`, so a seed reproduces the same bits.
"""

from __future__ import annotations

import decimal
import math
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

UNITS = ["s", "ms", "us", "ns"]
ZONES = ["UTC", "+05:30", "Europe/Berlin"]
DAY = 86_400
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EXACT = decimal.Context(prec=200)

SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [
    pa.decimal32(7, 2),
    pa.decimal64(18, 3),
    pa.decimal128(9, 2),
    pa.decimal128(38, 0),
    pa.decimal128(38, 38),
    pa.decimal256(76, 10),
    pa.decimal256(38, 4),
]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(20)]
DATES = [pa.date32(), pa.date64()]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
STAMPS = [pa.timestamp(unit) for unit in UNITS]
ZONED = [pa.timestamp(unit, zone) for unit, zone in zip(UNITS, [*ZONES, "UTC"], strict=True)]
DURATIONS = [pa.duration(unit) for unit in UNITS]
ODD = [pa.null(), pa.month_day_nano_interval()]

GROUPS = [
    SIGNED,
    UNSIGNED,
    FLOATS,
    DECIMALS,
    TEXTS,
    BYTES,
    DATES,
    TIMES,
    STAMPS,
    ZONED,
    DURATIONS,
    [pa.bool_()],
    ODD,
]
LEAVES = [one for group in GROUPS for one in group]

WORDS = [
    *["", "a", "A", "b", "ab", "abc", "ä", "é", "e\u0301", "日本", "😀𠮷", "\U0010ffff", "\ufeffx"],
    *["a\0b", "\0", "one\ntwo", "\r\n", "\r", '"', '""', "'", ",", ";", "\t", "\\", "\\n", "|"],
    *["null", "NULL", "NaN", "inf", "true", "False", "1", "-0", "1e5", "0x1", "2024-01-02"],
    *[" lead", "trail ", " ", "%", "_", "a%b_", "{}", "[1]", "\u2028", "\x7f", "\x01\x1f"],
    *["twelve bytes", "twelve bytes!", "twelve bytes?", "x" * 300, "x" * 299 + "y"],
]


def leaf(luck: random.Random) -> pa.DataType:
    """A random flat type; each family has the same probability."""
    return luck.choice(luck.choice(GROUPS))


def any_type(luck: random.Random, depth: int = 2) -> pa.DataType:
    """A random type, nested up to a depth."""
    if depth == 0 or luck.random() < 0.7:
        return leaf(luck)
    inner = any_type(luck, depth - 1)
    nullable = luck.random() < 0.9
    field = pa.field("item", inner, nullable or pa.types.is_null(inner))
    # Size 0 is rejected.
    size = luck.randrange(1, 4)
    wide = [pa.field(f"f{at}", any_type(luck, depth - 1)) for at in range(luck.randrange(1, 4))]
    key = luck.choice([pa.string(), pa.int32(), pa.date32()])
    index = luck.choice([pa.int8(), pa.int32(), pa.uint16()])
    held = luck.choice([*TEXTS[:2], pa.int64(), pa.float64(), pa.binary(), pa.timestamp("us")])
    return luck.choice(
        [
            pa.list_(field),
            pa.large_list(field),
            pa.list_(field, size),
            pa.list_view(field),
            pa.struct(wide),
            pa.map_(key, inner),
            pa.dictionary(index, held),
            pa.dictionary(index, held),
            pa.run_end_encoded(luck.choice([pa.int16(), pa.int32()]), held),
            *([union_type(luck)] if luck.random() < 0.3 else []),
        ]
    )


def union_type(luck: random.Random) -> pa.DataType:
    """Numbers or texts in one column."""
    fields = [pa.field("number", pa.int64()), pa.field("text", pa.string())]
    return luck.choice([pa.dense_union, pa.sparse_union])(fields)


def decoded(kind: pa.DataType) -> pa.DataType:
    """The type inside a flow, as documented: run-end encodings are decoded on input, and dictionary
    or union items may be null.
    """
    types = pa.types
    if types.is_run_end_encoded(kind):
        return kind.value_type
    if types.is_struct(kind):
        return pa.struct([_decoded_field(field) for field in kind])
    if types.is_map(kind):
        key = kind.key_field.with_type(_with_long_codes(kind.key_field.type))
        return pa.map_(key, _decoded_field(kind.item_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_decoded_field(kind.value_field), kind.list_size)
    if types.is_list_view(kind):
        return pa.list_view(_decoded_field(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(_decoded_field(kind.value_field))
    return pa.list_(_decoded_field(kind.value_field)) if types.is_list(kind) else kind


def _decoded_field(field: pa.Field) -> pa.Field:
    types, kind = pa.types, _with_long_codes(decoded(field.type))
    apart = any(is_it(field.type) for is_it in (types.is_run_end_encoded, types.is_dictionary))
    nullable = field.nullable or apart or types.is_union(kind) or types.is_dictionary(kind)
    return field.with_type(kind).with_nullable(nullable)


def _with_long_codes(kind: pa.DataType) -> pa.DataType:
    """Dictionary codes within lists, structs and maps have 32 bits after input."""
    short = pa.types.is_dictionary(kind) and kind.index_type.bit_width < 32
    return pa.dictionary(pa.int32(), kind.value_type, kind.ordered) if short else kind


def array(luck: random.Random, kind: pa.DataType, rows: int, few: bool = False) -> pa.Array:
    """Random values; with `few`, few distinct ones, where the type is flat."""
    nulls = luck.choice([0.0, 0.0, 0.1, 0.5, 1.0 if luck.random() < 0.1 else 0.2])
    for is_it, make in _MAKERS:
        if is_it(kind):
            return make(luck, kind, rows, nulls)
    return _leaves(luck, kind, rows, nulls, few)


def edges(luck: random.Random, kind: pa.DataType, count: int) -> list[Any]:
    """Values of a flat type in the form that `of_raw` takes: edge cases, and others."""
    types = pa.types
    if types.is_null(kind):
        return [None]
    if types.is_boolean(kind):
        return [True, False]
    if types.is_integer(kind):
        return _integers(luck, kind, count)
    if types.is_floating(kind):
        return _floats(luck, kind, count)
    if types.is_decimal(kind):
        most = 10**kind.precision - 1
        some = [luck.randrange(-most, most + 1) for _ in range(count)]
        return [0, 1, -1, 100, 99, most, -most, *some]
    if kind in TEXTS:
        return [*WORDS, *(_word(luck) for _ in range(count))]
    if types.is_fixed_size_binary(kind):
        width = kind.byte_width
        return [bytes(width), b"\xff" * width, *(luck.randbytes(width) for _ in range(count))]
    if kind in BYTES:
        some = [luck.randbytes(luck.randrange(20)) for _ in range(count)]
        return [b"", b"\0", b"\0\0", b"\xff", b"\xff\xff\xff", b"text", "ä".encode(), *some]
    if types.is_interval(kind):
        many = [luck.randrange(-1000, 1000) for _ in range(3 * count)]
        return [(0, 0, 0), (1, 0, 0), (0, 30, 0), (-1, 1, -1), *zip(*[iter(many)] * 3)]
    return _times(luck, kind, count)


def of_raw(raw: list[Any], kind: pa.DataType) -> pa.Array:
    """The array of the values of `edges`; null is None."""
    types = pa.types
    if types.is_decimal(kind):
        scaled = [v if v is None else EXACT.scaleb(decimal.Decimal(v), -kind.scale) for v in raw]
        return pa.array(scaled, kind)
    if types.is_floating(kind):
        width = {pa.float16(): "<u2", pa.float32(): "<u4", pa.float64(): "<u8"}[kind]
        bits = np.array([0 if v is None else v for v in raw], width)
        valid = pa.py_buffer(
            np.packbits(np.array([v is not None for v in raw], bool), bitorder="little")
        )
        return pa.Array.from_buffers(kind, len(raw), [valid, pa.py_buffer(bits.tobytes())])
    if types.is_temporal(kind) and not types.is_interval(kind):
        return pa.array(raw, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(raw, kind)


def float_bits(value: float, kind: pa.DataType) -> int:
    """The bits of a number in a type."""
    code = {pa.float16(): ("<e", "<H"), pa.float32(): ("<f", "<I"), pa.float64(): ("<d", "<Q")}
    to, back = code[kind]
    try:
        return int(struct.unpack(back, struct.pack(to, value))[0])
    except OverflowError:
        return float_bits(math.copysign(math.inf, value), kind)


def _integers(luck: random.Random, kind: pa.DataType, count: int) -> list[int]:
    bits = kind.bit_width
    signed = pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    some = [luck.randint(low, high) for _ in range(count)]
    small = [luck.randrange(100) for _ in range(count)]
    return [0, 1, 2, high, low, high - 1, low + 1, *some, *small]


def _floats(luck: random.Random, kind: pa.DataType, count: int) -> list[int]:
    """Floats as bits: NaN has a sign and a payload."""
    sign = 1 << (kind.bit_width - 1)
    nan = float_bits(math.nan, kind) & ~sign
    most = float_bits(math.inf, kind) - 1
    fixed = [0.0, 1.0, 0.5, 0.1, 1.5, math.inf, 100.0, 1e-5, 2.0**53]
    positive = [float_bits(value, kind) for value in fixed] + [1, 2, most, nan, nan, nan | 1]
    some = [float_bits(luck.uniform(-1000, 1000), kind) for _ in range(count)]
    wild = [luck.getrandbits(kind.bit_width) for _ in range(count // 2)]
    return [*positive, *(bits | sign for bits in positive), *some, *wild]


def _times(luck: random.Random, kind: pa.DataType, count: int) -> list[int]:
    types = pa.types
    low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    if types.is_date64(kind):
        # The format requires milliseconds of whole days.
        days = [luck.randrange(-100_000, 100_000) for _ in range(count)]
        return [day * DAY * 1000 for day in [0, 1, -1, 19_000, 10**6, -(10**6), *days]]
    if types.is_date(kind):
        days = [luck.randrange(-100_000, 100_000) for _ in range(count)]
        return [0, 1, -1, 19_000, 106_752, 10**7, -(10**7), low, high, *days]
    per_second = PER_SECOND[kind.unit]
    if types.is_time(kind):
        whole = DAY * per_second
        return [0, 1, whole - 1, whole // 2, *(luck.randrange(whole) for _ in range(count))]
    now = 1_700_000_000 * per_second
    near = [now + luck.randrange(10**7) * per_second // 7 for _ in range(count)]
    fixed = [0, 1, -1, now, now + 1, 9_300_000_000 * min(per_second, 10**8), low, high, low + 1]
    # Years 1 and 0, and after 9999.
    years = [-62_135_596_800, -62_167_219_201, 253_402_300_800]
    far = [year * per_second for year in years if low <= year * per_second <= high]
    return [*fixed, *far, *near]


def _word(luck: random.Random) -> str:
    length = luck.choice([1, 3, 8, 12, 13, 30])
    return "".join(luck.choice("abcxyz éß日") for _ in range(length))


def _leaves(luck: random.Random, kind: pa.DataType, rows: int, nulls: float, few: bool) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    pool = edges(luck, kind, 3 if few else 30)
    tame = luck.random() < 0.4
    if few or tame:
        pool = luck.sample(pool, min(len(pool), luck.choice([1, 3, 8]) if few else 12))
    if kind in TEXTS and luck.random() < 0.02:
        pool.append(luck.choice("ab") * 100_000)
    values = of_raw(pool, kind)
    random_at = np.random.default_rng(luck.getrandbits(64))
    at = random_at.integers(0, len(pool), rows)
    mask = random_at.random(rows) < nulls
    if rows > 5000 or kind in (pa.string_view(), pa.binary_view()):
        # The kernel is fast but lacks views: those are made from its result.
        narrow = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)
        taken = pa.array(values.to_pylist(), narrow) if narrow != kind else values
        return taken.take(pa.array(at, mask=mask)).cast(kind)
    return of_raw([None if out else pool[i] for i, out in zip(at, mask)], kind)


def _valid(luck: random.Random, rows: int, nulls: float) -> pa.Array:
    return pa.array([luck.random() < nulls for _ in range(rows)], pa.bool_())


def _sizes(luck: random.Random, rows: int) -> list[int]:
    most = luck.choice([1, 3, 3, 6])
    return [luck.randrange(most + 1) for _ in range(rows)]


def _child(luck: random.Random, field: pa.Field, rows: int) -> pa.Array:
    """Values of a field, without nulls if it is not nullable."""
    made = array(luck, field.type, rows)
    if field.nullable or made.null_count == 0:
        return made
    return _without_nulls(luck, field.type, rows)


def _without_nulls(luck: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    for is_it, make in _MAKERS:
        if is_it(kind):
            return make(luck, kind, rows, 0.0)
    return _leaves(luck, kind, rows, 0.0, False)


def _list(luck: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    sizes = _sizes(luck, rows)
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    child = _child(luck, kind.value_field, offsets[-1])
    large = pa.types.is_large_list(kind)
    offsets = pa.array(offsets, pa.int64() if large else pa.int32())
    make = pa.LargeListArray if large else pa.ListArray
    return make.from_arrays(offsets, child, type=kind, mask=_valid(luck, rows, nulls))


def _view(luck: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    child = _child(luck, kind.value_field, luck.randrange(1, 2 * rows + 2))
    starts = [luck.randrange(len(child)) for _ in range(rows)]
    sizes = [min(size, len(child) - at) for size, at in zip(_sizes(luck, rows), starts)]
    at = pa.array(starts, pa.int32()), pa.array(sizes, pa.int32())
    return pa.ListViewArray.from_arrays(*at, child, type=kind, mask=_valid(luck, rows, nulls))


def _fixed(luck: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    child = _child(luck, kind.value_field, rows * kind.list_size)
    mask = _valid(luck, rows, nulls)
    return pa.FixedSizeListArray.from_arrays(child, type=kind, mask=mask)


def _struct(luck: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    children = [array(luck, field.type, rows) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=_valid(luck, rows, nulls))


def _map(luck: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    mask = _valid(luck, rows, nulls).to_pylist()
    sizes = [0 if out else size for out, size in zip(mask, _sizes(luck, rows))]
    offsets, at = [], 0
    for out, size in zip(mask, sizes):
        offsets.append(None if out else at)
        at += size
    keys = _without_nulls(luck, kind.key_type, at)
    items = array(luck, kind.item_type, at)
    return pa.MapArray.from_arrays(pa.array([*offsets, at], pa.int32()), keys, items, type=kind)


def _dictionary(luck: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    held = kind.value_type
    pool = edges(luck, held, 3)
    values: list[Any] = luck.sample(pool, min(len(pool), 20))
    if luck.random() < 0.4 and nulls > 0:
        # The format allows nulls and duplicates in dictionaries.
        values += [None, values[0]]
    at = [None if luck.random() < nulls else luck.randrange(len(values)) for _ in range(rows)]
    indices = pa.array(at, kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, of_raw(values, held))


def _run_ends(luck: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    ends = []
    longest = max(rows // 100, 5)
    while not ends or ends[-1] < rows:
        ends.append(min(rows, (ends[-1] if ends else 0) + luck.randrange(1, longest)))
        if rows == 0:
            ends = []
            break
    pool = edges(luck, kind.value_type, 3)
    values = [None if luck.random() < nulls else luck.choice(pool) for _ in ends]
    ends = pa.array(ends, kind.run_end_type)
    return pa.RunEndEncodedArray.from_arrays(ends, of_raw(values, kind.value_type), type=kind)


def _union(luck: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    codes = [luck.randrange(2) for _ in range(rows)]
    names = [field.name for field in kind]
    if kind.mode == "sparse":
        children = [array(luck, field.type, rows) for field in kind]
        return pa.UnionArray.from_sparse(pa.array(codes, pa.int8()), children, names)
    offsets, lengths = [], [0, 0]
    for code in codes:
        offsets.append(lengths[code])
        lengths[code] += 1
    children = [array(luck, field.type, length) for field, length in zip(kind, lengths)]
    places = pa.array(codes, pa.int8()), pa.array(offsets, pa.int32())
    return pa.UnionArray.from_dense(*places, children, names)


_Make = Callable[[random.Random, pa.DataType, int, float], pa.Array]
_MAKERS: list[tuple[Callable[[pa.DataType], bool], _Make]] = [
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _list),
    (pa.types.is_list_view, _view),
    (pa.types.is_fixed_size_list, _fixed),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_dictionary, _dictionary),
    (pa.types.is_run_end_encoded, _run_ends),
    (pa.types.is_union, _union),
]
