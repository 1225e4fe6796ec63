"""The values of a table independent of their encoding, as comparable Python values.

Floats become their bits, since NaN is unequal to itself and signed zeros are equal. Times become
nanoseconds, whatever their unit. Dictionaries, run-end encodings and views become their values.
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pyarrow as pa

from .values import PER_SECOND

_SHOWN = 3


def column(of: pa.Array | pa.ChunkedArray, *, loose: bool = False) -> list[Any]:
    """The values of a column; with `loose`, equal floats become identical."""
    if isinstance(of, pa.ChunkedArray):
        return [value for chunk in of.chunks for value in column(chunk, loose=loose)]
    types, kind = pa.types, of.type
    if types.is_dictionary(kind):
        held = column(of.dictionary, loose=loose)
        return [None if at is None else held[at] for at in of.indices.to_pylist()]
    if types.is_run_end_encoded(kind):
        return _runs(of, loose)
    if types.is_floating(kind):
        return _floats(of, loose)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _times(of)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return _lists(of, of.offsets.to_pylist(), of.sizes.to_pylist(), loose)
    if types.is_list(kind) or types.is_large_list(kind):
        return _lists(of, *_ends(of.offsets.to_pylist()), loose)
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        starts = [(of.offset + at) * size for at in range(len(of))]
        return _lists(of, starts, [size] * len(of), loose)
    if types.is_map(kind):
        pairs = list(zip(column(of.keys, loose=loose), column(of.items, loose=loose)))
        return _cut(of, *_ends(of.offsets.to_pylist()), pairs)
    if types.is_struct(kind):
        fields = [column(of.field(at), loose=loose) for at in range(kind.num_fields)]
        rows = list(zip(*fields)) if fields else [()] * len(of)
        return [row if valid else None for row, valid in zip(rows, of.is_valid().to_pylist())]
    return list(of.to_pylist())


def rows(of: pa.Table, *, loose: bool = False) -> list[tuple[Any, ...]]:
    """The rows of a table."""
    if of.num_columns == 0:
        return [()] * of.num_rows
    return list(zip(*(column(one, loose=loose) for one in of.columns)))


def plain(kind: pa.DataType) -> str:
    """A type independent of its encoding."""
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return "binary"
    if types.is_fixed_size_binary(kind):
        return "binary"
    if types.is_timestamp(kind):
        return "instant" if kind.tz else "timestamp"
    if types.is_date(kind) or types.is_time(kind) or types.is_duration(kind):
        return next(n for n in ("date", "time", "duration") if getattr(types, f"is_{n}")(kind))
    if types.is_decimal(kind):
        return f"decimal scale {kind.scale}"
    if types.is_map(kind):
        return f"map<{plain(kind.key_type)}, {plain(kind.item_type)}>"
    if types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {plain(field.type)}' for field in kind)}>"
    if types.is_union(kind):
        return f"union<{', '.join(plain(field.type) for field in kind)}>"
    if types.is_nested(kind):
        return f"list<{plain(kind.value_type)}>"
    return str(kind)


def difference(
    found: pa.Table, wanted: pa.Table, *, ordered: bool, exact: bool, loose: bool = False
) -> str | None:
    """The first difference between two tables: as lists or bags of rows, in types or in plain
    types.
    """
    if found.column_names != wanted.column_names:
        return f"columns {found.column_names} instead of {wanted.column_names}"
    for one, other in zip(found.schema, wanted.schema):
        differs = one.type != other.type if exact else plain(one.type) != plain(other.type)
        if differs:
            return f"column {one.name!r} is {one.type} instead of {other.type}"
    if found.num_rows != wanted.num_rows:
        return f"{found.num_rows} rows instead of {wanted.num_rows}"
    return different_rows(rows(found, loose=loose), rows(wanted, loose=loose), ordered=ordered)


def different_rows(
    found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], *, ordered: bool
) -> str | None:
    """The first rows that only one of them has, or has elsewhere."""
    if ordered:
        pairs = enumerate(zip(found, wanted))
        wrong = [
            f"row {at}: {one} instead of {other}" for at, (one, other) in pairs if one != other
        ]
        return _brief("; ".join(wrong[:_SHOWN])) if wrong else None
    bags = collections.Counter(found), collections.Counter(wanted)
    if bags[0] == bags[1]:
        return None
    more, less = list((bags[0] - bags[1]).elements()), list((bags[1] - bags[0]).elements())
    return _brief(f"{len(more)} rows that should not be there, like {more[:_SHOWN]}") + _brief(
        f"; {len(less)} rows missing, like {less[:_SHOWN]}"
    )


def _brief(text: str) -> str:
    return text if len(text) < 1200 else f"{text[:1200]}…"


def _floats(of: pa.Array, loose: bool) -> list[Any]:
    width = {16: np.uint16, 32: np.uint32, 64: np.uint64}[of.type.bit_width]
    _, data = of.buffers()
    bits = np.frombuffer(data or b"", width, of.offset + len(of))[of.offset :]
    if loose:
        numbers = bits.view(f"f{of.type.bit_width // 8}")
        bits = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers + 0).view(width)
    values = bits.tolist()
    if of.null_count:
        valid = of.is_valid().to_pylist()
        values = [bits if there else None for bits, there in zip(values, valid)]
    return values


def _times(of: pa.Array) -> list[Any]:
    kind = of.type
    whole = of.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if pa.types.is_date32(kind):
        factor = 86_400 * 10**9
    else:
        unit = "ms" if pa.types.is_date64(kind) else kind.unit
        factor = 10**9 // PER_SECOND[unit]
    return [None if value is None else value * factor for value in whole]


def _runs(of: pa.Array, loose: bool) -> list[Any]:
    held = column(of.values, loose=loose)
    at = np.searchsorted(of.run_ends.to_numpy(), np.arange(len(of)) + of.offset, side="right")
    return [held[position] for position in at]


def _ends(offsets: list[int]) -> tuple[list[int], list[int]]:
    return offsets[:-1], [high - low for low, high in zip(offsets, offsets[1:])]


def _lists(of: pa.Array, starts: list[int], sizes: list[int], loose: bool) -> list[Any]:
    return _cut(of, starts, sizes, column(of.values, loose=loose))


def _cut(of: pa.Array, starts: list[int], sizes: list[int], held: list[Any]) -> list[Any]:
    valid = of.is_valid().to_pylist()
    return [
        tuple(held[at : at + size]) if there else None
        for at, size, there in zip(starts, sizes, valid)
    ]
