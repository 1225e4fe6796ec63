"""Rows of a table as values of Python, and as a data frame of pandas."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def rows(columns: dict[str, list[Any]], count: int) -> list[dict[str, Any]]:
    """A dict for each row."""
    names = list(columns)
    if not names:
        return [{} for _ in range(count)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def are_dicts(value: Any) -> bool:
    """Whether a value is a list of dicts, and not empty."""
    from collections.abc import Mapping

    return (
        isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    )


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The columns of rows; one that a row lacks is null there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def arrow_of(value: Any) -> Any:
    """What a function returned, as Arrow data: a dict of columns, or a list of dicts, as a table;
    other values as they are.
    """
    from .._config import _frame, _table

    if are_dicts(value):
        value = columns_of(value)
    return _table(value) if isinstance(value, dict) else _frame(value)


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """The rows of a record batch of pyarrow, with the values that `Batch.to_pylist` gives."""
    from ..errors import UsageError

    if any(_is_text(kind) for kind in batch.schema.types):
        from .query_tables import query

        return list(query(batch).to_pylist())
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns[name] = _values(column)
        except (OverflowError, ValueError) as error:
            text = f"Python does not hold a value of column `{name}` of type {column.type}: {error}"
            raise UsageError(text, remedy="take the batches as they are, or cast it") from None
    return rows(columns, batch.num_rows)


def _values(column: Any) -> list[Any]:
    """The values of an array of pyarrow, which differ from its own in maps and nanoseconds: maps
    are dicts, or pairs where keys are nested, and nanoseconds are rounded down to microseconds.
    """
    import pyarrow as pa

    kind = column.type
    if not _has(kind, _differs):
        return list(column.to_pylist())
    if pa.types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if pa.types.is_map(kind):
        pairs = [None if one is None else _pairs(one) for one in (row.values for row in column)]
        if pa.types.is_nested(kind.key_type):
            return pairs
        return [None if one is None else dict(one) for one in pairs]
    if pa.types.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        parts = dict(zip(names, map(_values, column.flatten()), strict=True))
        made = rows(parts, len(column))
        return [row if known else None for row, known in zip(made, column.is_valid().to_pylist())]
    if pa.types.is_nested(kind):
        lists = (row.values for row in column)
        return [None if one is None else _values(one) for one in lists]
    micros = pa.duration("us") if pa.types.is_duration(kind) else pa.timestamp("us", kind.tz)
    numbers = [number and number // 1000 for number in column.cast(pa.int64()).to_pylist()]
    return list(pa.array(numbers, pa.int64()).cast(micros).to_pylist())


def _pairs(entries: Any) -> list[tuple[Any, Any]]:
    return list(zip(_values(entries.field(0)), _values(entries.field(1)), strict=True))


def _differs(kind: Any) -> bool:
    import pyarrow as pa

    has_unit = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    return bool(pa.types.is_map(kind) or (has_unit and kind.unit == "ns"))


def _is_text(kind: Any) -> bool:
    """Whether values of a type are texts in Python, because it has no class for them."""
    import pyarrow as pa

    return _has(kind, lambda one: pa.types.is_interval(one) or pa.types.is_union(one))


def _has(kind: Any, is_such: Any) -> bool:
    """Whether a type is such a type, or contains one."""
    import pyarrow as pa

    if is_such(kind):
        return True
    if pa.types.is_dictionary(kind):
        return _has(kind.value_type, is_such)
    return any(_has(kind.field(at).type, is_such) for at in range(kind.num_fields))


_THREADS_FROM_BYTES = 4 << 20


def frame_of(data: Any) -> Any:
    """A data frame of pandas. Columns of integers or truth values have its dtypes for nulls where
    there are some (`Int64`, `boolean`), since a `float64` would round large integers.
    """
    _needs("pandas")
    _needs("pyarrow")
    import pandas as pd
    import pyarrow as pa

    table = pa.table(data)
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    exact = {}
    at_in_frame = 0
    for at, field in enumerate(table.schema):
        if field.name in index:
            continue
        column = table.column(at)
        is_truth = pa.types.is_boolean(field.type)
        if column.null_count and (is_truth or pa.types.is_integer(field.type)):
            name = "boolean" if is_truth else str(field.type).replace("i", "I").replace("u", "U")
            exact[at_in_frame] = pd.api.types.pandas_dtype(name).__from_arrow__(column)
            table = table.set_column(at, field, column.fill_null(False if is_truth else 0))
        elif field.type == pa.time64("ns"):  # Python has no nanoseconds: rounded down.
            micros = column.cast(pa.time64("us"), safe=False)
            table = table.set_column(at, field.with_type(micros.type), micros)
        at_in_frame += 1
    # Lists and structs have integers beside `None`, as objects. The threads of pyarrow cost more
    # than they gain for a batch, beside other instances.
    is_large = table.nbytes > _THREADS_FROM_BYTES
    frame = table.to_pandas(integer_object_nulls=True, use_threads=is_large)
    for position, values in exact.items():
        frame.isetitem(position, values)
    return frame


def _needs(package: str) -> None:
    from importlib import import_module

    from ..errors import UsageError

    try:
        import_module(package)
    except ImportError:
        remedy = f"pip install {package}"
        raise UsageError(f"{package} is not installed", remedy=remedy) from None
