"""Hashes of rows, as expressions that the engine computes; and an order of rows by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from .._user_code.reshaped import quoted
from ..errors import UsageError

if TYPE_CHECKING:
    from ..queries import Query

_ARGUMENTS_MAX = 8
"""The arguments of the function `hash`."""
_SEED_LIMIT = 1 << 63
_ROW, _OTHER, _COPY, _KEY = (f"__euphrates_{name}" for name in ("row", "other", "copy", "key"))


def hash_of(schema: pa.Schema, salt: int = 0) -> str:
    """The hash of all columns. Another salt gives another hash."""
    hashed, columns = str(salt), [_hashable(field) for field in schema]
    while columns:
        taken = _ARGUMENTS_MAX - 1
        hashed = f"hash({', '.join([hashed, *columns[:taken]])})"
        columns = columns[taken:]
    return hashed


def _hashable(field: pa.Field) -> str:
    name = quoted(field.name)
    return f"to_json({name})" if pa.types.is_nested(field.type) else name


def shuffled(rows: Query, seed: int, by: Sequence[str]) -> Query:
    """The rows in a random order that depends on the seed and the rows alone.

    The order is that of a hash of the seed and what distinguishes a row: `by`, or a hash of all of
    its columns and a number among equal rows, which are exchangeable. Sorting by it needs no
    numbers of rows from the source, which would depend on the division of its files.
    """
    if not hasattr(seed, "__index__") or not -_SEED_LIMIT <= seed < _SEED_LIMIT:
        raise UsageError(f"the seed is {seed!r}", remedy="give an integer of 64 bits")
    seed = int(seed)
    names = [quoted(name) for name in rows.columns]
    schema = rows.schema.to_pyarrow()
    if by:
        rows._check(by)
        key = hash_of(pa.schema([schema.field(name) for name in by]), seed)
        ordered = rows.with_columns(**{_KEY: key}).sort(_KEY, *map(quoted, by))
        return ordered.select(*names)
    hashed = rows.with_columns(**{_ROW: hash_of(schema), _OTHER: hash_of(schema, 1)})
    numbered = hashed.window([_ROW], order_by=[_OTHER], **{_COPY: "row_number()"})
    keyed = numbered.with_columns(**{_KEY: f"hash({seed}, {_ROW}, {_OTHER}, {_COPY})"})
    return keyed.sort(_KEY, _ROW, _OTHER, _COPY).select(*names)
