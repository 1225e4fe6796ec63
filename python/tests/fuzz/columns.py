"""An oracle's view of a column: its values, and the same in a form that every oracle accepts."""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import canonical, values

_CONTEXT = decimal.Context(prec=200)


@dataclasses.dataclass
class Column:
    """The expected values of one column."""

    kind: pa.DataType | None
    """None where the documentation leaves it open."""
    raw: list[Any]
    """In the form of `canonical`."""
    norm: pa.Array | None
    """In the form of DuckDB and Polars, in the same order; None for types that only Euphrates
    orders.
    """

    @staticmethod
    def of(array: pa.ChunkedArray) -> Column:
        return Column(values.decoded(array.type), canonical.column(array), normal(array))

    def take(self, at: Sequence[int | None]) -> Column:
        """The rows at these positions; null where there is none."""
        raw = [None if row is None else self.raw[row] for row in at]
        norm = None if self.norm is None else self.norm.take(pa.array(at, pa.int64()))
        return Column(self.kind, raw, norm)

    def behind(self, other: Column) -> Column:
        """The rows of another column, followed by these."""
        norms = [other.norm, self.norm]
        whole = None if None in norms else pa.concat_arrays(norms)
        return Column(self.kind, other.raw + self.raw, whole)


@dataclasses.dataclass
class Expected:
    """A table whose rows are ordered, except among rows with the same number in `groups`."""

    columns: dict[str, Column]
    groups: list[int]

    @staticmethod
    def of(table: pa.Table, ordered: bool) -> Expected:
        names = zip(table.column_names, table.columns)
        columns = {name: Column.of(column) for name, column in names}
        rows = table.num_rows
        return Expected(columns, list(range(rows)) if ordered else [0] * rows)

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, at: list[int], groups: Iterable[int] | None = None) -> Expected:
        columns = {name: column.take(at) for name, column in self.columns.items()}
        return Expected(columns, [self.groups[row] for row in at] if groups is None else [*groups])

    def rows(self) -> list[tuple[Any, ...]]:
        return list(zip(*(column.raw for column in self.columns.values())))

    def relation(self, names: Iterable[str], number: str = "place") -> pa.Table:
        """Columns for an oracle, named by position, with row numbers."""
        columns = {f"k{place}": self.columns[name].norm for place, name in enumerate(names)}
        return pa.table({**columns, number: pa.array(range(len(self)), pa.int64())})

    def difference(self, found: pa.Table, *, exact: bool) -> str | None:
        """The difference of a table from this one, or None."""
        if found.column_names != list(self.columns):
            return f"columns {found.column_names} instead of {list(self.columns)}"
        for field, column in zip(found.schema, self.columns.values()):
            kind = column.kind
            same = kind in (None, field.type) or (
                not exact and canonical.plain(field.type) == canonical.plain(kind)
            )
            if not same:
                return f"column {field.name!r} is {field.type} instead of {kind}"
            has_bits = not pa.types.is_union(field.type)
            if (
                not field.nullable
                and has_bits
                and None in canonical.column(found.column(field.name))
            ):
                return f"column {field.name!r} says it has no nulls, and has"
        if found.num_rows != len(self):
            return f"{found.num_rows} rows instead of {len(self)}"
        have, want = canonical.rows(found), self.rows()
        start = 0
        for at in range(1, len(want) + 1):
            if at == len(want) or self.groups[at] != self.groups[start]:
                wrong = canonical.different_rows(have[start:at], want[start:at], ordered=False)
                if wrong:
                    return f"rows {start} to {at}: {wrong}"
                start = at
        return None


def normal(array: pa.ChunkedArray) -> pa.Array | None:
    """The values in a type that all oracles support, with equality and order preserved."""
    chunks = [_normal(chunk) for chunk in array.chunks]
    if any(chunk is None for chunk in chunks):
        return None
    empty = _normal(pa.nulls(0, array.type)) if not chunks else None
    if not chunks:
        return empty
    return pa.concat_arrays(chunks)


def _normal(array: pa.Array) -> pa.Array | None:
    kind, types = array.type, pa.types
    if types.is_dictionary(kind):
        held = _normal(array.dictionary)
        return None if held is None else held.take(array.indices)
    if types.is_run_end_encoded(kind):
        held = _normal(array.values)
        ends = array.run_ends.to_numpy()
        at = np.searchsorted(ends, np.arange(len(array)) + array.offset, side="right")
        return None if held is None else held.take(pa.array(at))
    if types.is_nested(kind) or types.is_interval(kind):
        return None
    if types.is_null(kind):
        return pa.nulls(len(array), pa.int8())
    if types.is_float16(kind):
        # DuckDB has no half floats; a float holds each of them.
        return _one_nan(_wider(array))
    if types.is_floating(kind):
        return _one_nan(array)
    if types.is_decimal(kind):
        return _decimals(array)
    if types.is_temporal(kind):
        # Ordered as the integers below. DuckDB keeps only microseconds of zoned timestamps, and
        # takes the extremes of dates and timestamps for infinities.
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
    if kind in values.TEXTS:
        return pa.array(array.to_pylist(), pa.large_string())
    if kind in values.BYTES or types.is_fixed_size_binary(kind):
        return pa.array(array.to_pylist(), pa.large_binary())
    return array


def _wider(array: pa.Array) -> pa.Array:
    end = array.offset + len(array)
    bits = np.frombuffer(array.buffers()[1] or b"", np.float16, end)
    wide = bits[array.offset :].astype(np.float32)
    return pa.array(
        wide, mask=np.array([not there for there in array.is_valid().to_pylist()], bool)
    )


def _one_nan(array: pa.Array) -> pa.Array:
    """Makes all NaN values one, as documented; Polars distinguishes their bits in places."""
    return pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)


def _decimals(array: pa.Array) -> pa.Array | None:
    kind = array.type
    if kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return array.cast(pa.decimal128(max(kind.precision, 1), kind.scale))
    # No oracle has this many digits; these texts sort in the same order.
    scale, offset = kind.scale, 10**76
    raw = [
        None if value is None else int(_CONTEXT.scaleb(value, scale)) for value in array.to_pylist()
    ]
    return pa.array([None if v is None else f"{v + offset:078d}" for v in raw], pa.large_string())
