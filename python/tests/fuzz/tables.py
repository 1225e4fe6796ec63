"""Tables of random columns, in random chunks."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from . import values

NAMES = ["a b", "é", "Mixed", "select", "x.y", "quote'd", 'dou"ble', "1st", "UPPER", "日本", "a-b"]
ROW = "r"
"""A column of row numbers."""


def row_count(luck: random.Random, most: int = 3000) -> int:
    """None, one, few, or several batches of rows."""
    small = luck.choice([0, 1, 2, luck.randrange(3, 30), luck.randrange(30, 400)])
    draw = luck.random()
    if draw < 0.01:
        # Row numbers within a batch have 16 bits.
        return min(most, 66_000)
    return min(most, luck.randrange(400, 3000) if draw < 0.12 else small)


def table(
    luck: random.Random,
    types: Sequence[pa.DataType],
    rows: int,
    *,
    few: Sequence[int] = (),
    numbered: str | None = ROW,
    prefix: str = "c",
    names: Sequence[str] = (),
) -> pa.Table:
    """Random columns of these types in chunks; columns in `few` have few distinct values."""
    names = names or [_name(luck, f"{prefix}{at}") for at in range(len(types))]
    # Surrounding rows, so that the slice has an offset.
    before, behind = (luck.choice([0, 0, 1, 5, 9]), luck.choice([0, 0, 3]))
    whole = before + rows + behind
    columns = {
        name: values.array(luck, kind, whole, at in few).slice(before, rows)
        for at, (name, kind) in enumerate(zip(names, types))
    }
    if numbered is not None:
        columns[numbered] = pa.array(range(rows), pa.int64())
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    fields = [
        field.with_nullable(
            columns[field.name].null_count > 0 or luck.random() < 0.6 or _hides_nulls(field.type)
        )
        for field in fields
    ]
    made = pa.table(list(columns.values()), schema=pa.schema(fields))
    return in_pieces(luck, made)


def in_pieces(luck: random.Random, whole: pa.Table) -> pa.Table:
    """The same rows as several batches, some of them empty. The input has one chunk."""
    if luck.random() < 0.3:
        return whole
    cuts = sorted(luck.randrange(whole.num_rows + 1) for _ in range(luck.randrange(5)))
    cuts = [0, *cuts, whole.num_rows]
    batches = [
        pa.RecordBatch.from_arrays(
            [column.chunk(0).slice(low, high - low) for column in whole.columns],
            schema=whole.schema,
        )
        for low, high in zip(cuts, cuts[1:])
    ]
    return pa.Table.from_batches(batches, whole.schema)


def _name(luck: random.Random, usual: str) -> str:
    return f"{luck.choice(NAMES)}{usual}" if luck.random() < 0.1 else usual


def _hides_nulls(kind: pa.DataType) -> bool:
    """Whether its values may contain nulls that `null_count` misses."""
    types = pa.types
    return types.is_dictionary(kind) or types.is_run_end_encoded(kind) or types.is_null(kind)
