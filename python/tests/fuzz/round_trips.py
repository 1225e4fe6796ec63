"""Round trips: files written by Euphrates and read by it and others, and files written by
others.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq

import euphrates as eu

from . import canonical, steps, tables, values
from .columns import Expected
from .context import Context, RefusedError, WrongAnswerError
from .steps import State

YEARS_MAX = 262_000
"""Years beyond which dates have no text form."""
NANOSECONDS_OF_YEAR = 365 * values.DAY * 10**9

TEXT_TYPES = [
    *values.SIGNED,
    *values.UNSIGNED,
    *values.FLOATS,
    *values.DECIMALS,
    *values.TEXTS,
    pa.bool_(),
    *values.DATES,
    *values.TIMES,
    *values.STAMPS,
    pa.timestamp("us", "UTC"),
    pa.timestamp("s", "UTC"),
]
"""Column types that can be read from text."""
SIMPLE = [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.uint8()]
"""Types on which all readers agree."""


def binary(context: Context) -> None:
    """Through Parquet, Arrow IPC, or a collection, with every type they support."""
    how = context.luck.choice(["parquet", "parquet", "arrow", "collection"])
    kinds = [values.any_type(context.data) for _ in range(context.data.randrange(1, 6))]
    if how == "parquet":
        kinds = [kind for kind in kinds if not _has(kind, is_not_of_parquet)] or [pa.int64()]
    rows = tables.row_count(context.data)
    few = [at for at in range(len(kinds)) if context.data.random() < 0.5]
    table = context.table(tables.table(context.data, kinds, rows, few=few))
    context.tell(f"{how}: {table.schema}")
    state = steps.start(context, table)
    if context.luck.random() < 0.3 and tables.ROW in table.column_names:
        state = steps.sort(state)
    sink, source, path = _binary(context, how, state.ordered)
    state.flow.attach(state.placed, state.flow.place(sink))
    # Parquet has no seconds: values beyond the range of milliseconds cannot be written.
    seconds = how == "parquet" and any(_has(kind, is_in_seconds) for kind in table.schema.types)
    context.go(state.flow, lambda text: seconds and "verflow" in text)
    _same(state.expected, context.collected(source))
    if how != "collection" and path is not None:
        found = pq.read_table(path) if how == "parquet" else pa.feather.read_table(path)
        _same(state.expected, found)


def _binary(context: Context, how: str, ordered: bool) -> tuple[Any, Any, Path | None]:
    luck = context.luck
    if how == "collection":
        compression = luck.choice(["none", "lz4", "zstd"])
        context.tell(f"compression {compression}")
        return eu.write("c", compression=compression), eu.read("c", order=ordered), None
    path = context.path(f".{how}")
    usual = ["none", "lz4", "zstd"]
    compression = luck.choice([*usual, "snappy"] if how == "parquet" else usual)
    options = {"row_group_bytes": luck.choice([1000, 100_000])} if luck.random() < 0.5 else {}
    context.tell(f"compression {compression} {options}")
    return (
        eu.save(path, compression=compression, **options),
        eu.scan(path, order=ordered),
        path,
    )


def text(context: Context) -> None:
    """Through CSV or JSON lines with explicit types; also read by others."""
    how = context.luck.choice(["csv", "json"])
    luck = context.data
    kinds = [luck.choice(TEXT_TYPES) for _ in range(luck.randrange(1, 6))]
    table = context.table(tables.table(luck, kinds, tables.row_count(luck)))
    if table.num_columns == 0:
        return
    context.tell(f"{how}: {table.schema}")
    path = context.path(f".{how}")
    options = {}
    if how == "csv":
        options["delimiter"] = context.luck.choice([",", ";", "|", "\t"])
    state = steps.start(context, table)
    state.flow.attach(state.placed, state.flow.place(eu.save(path, **options)))
    odd = has_no_text(state.expected, how)
    context.go(state.flow, may_refuse=lambda _: odd)
    types = {field.name: rust_name(field.type) for field in table.schema}
    scan = eu.scan(path, order=state.ordered, types=types, columns=table.column_names, **options)
    found = context.collected(scan)
    _same(_with_one_nan(state.expected), _one_nan(found))
    read = _csv_of_python if how == "csv" else _json_of_python
    _same_texts(state, read(path, options.get("delimiter", ","), list(state.expected.columns)), how)


def unreadable(context: Context) -> None:
    """Types that CSV and JSON lines do not read back: writing must not fail on values."""
    how = context.luck.choice(["csv", "json"])
    kinds = [values.any_type(context.data) for _ in range(context.data.randrange(1, 4))]
    table = context.table(tables.table(context.data, kinds, tables.row_count(context.data, 300)))
    context.tell(f"{how}: {table.schema}")
    path = context.path(f".{how}")
    state = steps.start(context, table)
    state.flow.attach(state.placed, state.flow.place(eu.save(path)))
    context.go(state.flow, may_refuse=lambda _: True)
    written = path.read_bytes()
    for bad in (b"ERROR:", b"<invalid>"):
        if bad in written:
            raise WrongAnswerError(f"{bad!r} was written as a value")
    if how == "json":
        rows = [json.loads(line) for line in written.decode().split("\n") if line]
        if len(rows) != len(state.expected):
            raise WrongAnswerError(f"{len(rows)} lines instead of {len(state.expected)}")


def foreign(context: Context) -> None:
    """Files written by other libraries."""
    how = context.luck.choice(["parquet", "parquet", "arrow", "arrows", "csv", "json"])
    if how in ("csv", "json"):
        return _foreign_texts(context, how)
    kinds = [values.any_type(context.data) for _ in range(context.data.randrange(1, 6))]
    if how == "parquet":
        kinds = [kind for kind in kinds if not _has(kind, is_not_of_parquet)] or [pa.int64()]
    table = context.table(tables.table(context.data, kinds, tables.row_count(context.data)))
    path = context.path(f".{how}")
    context.tell(f"{how}: {table.schema}")
    try:
        _written(context, table, path, how)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise RefusedError(f"by pyarrow: {error}") from error
    # The writer's own conversion: pyarrow stores no seconds in Parquet.
    wanted = pq.read_table(path) if how == "parquet" else _read_ipc(path, how)
    expected = Expected.of(wanted, True)
    _same(expected, context.collected(eu.scan(path, order=True)))


def _written(context: Context, table: pa.Table, path: Path, how: str) -> None:
    luck = context.luck
    if how == "parquet":
        options: dict[str, Any] = {
            "compression": luck.choice(["none", "snappy", "lz4", "zstd"]),
            "row_group_size": luck.choice([None, 7, 1000]),
            "data_page_size": luck.choice([None, 100, 10_000]),
            "use_dictionary": luck.random() < 0.6,
            "data_page_version": luck.choice(["1.0", "2.0"]),
            "store_schema": luck.random() < 0.8,
            "write_page_checksum": luck.random() < 0.3,
        }
        context.tell(options)
        pq.write_table(table, path, **options)
        return
    compression = luck.choice([None, "lz4", "zstd"])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_file if how == "arrow" else pa.ipc.new_stream
    with make(path, table.schema, options=options) as writer:
        writer.write_table(table.unify_dictionaries())


def _read_ipc(path: Path, how: str) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        opened = pa.ipc.open_file(file) if how == "arrow" else pa.ipc.open_stream(file)
        return opened.read_all()


def _foreign_texts(context: Context, how: str) -> None:
    luck = context.data
    kinds = [luck.choice(SIMPLE) for _ in range(luck.randrange(1, 6))]
    table = context.table(tables.table(luck, kinds, tables.row_count(luck)))
    frame = pl.DataFrame(table)
    path = context.path(f".{how}")
    context.tell(f"{how} of Polars: {table.schema}")
    expected = Expected.of(table, True)
    if has_no_text(expected, "json"):
        # Polars writes NaN as null into JSON, and panics at dates beyond its calendar.
        raise RefusedError("Polars has no text for these")
    try:
        if how == "csv":
            # Polars does not distinguish empty text from null unless all text is quoted.
            frame.write_csv(path, quote_style="non_numeric")
        else:
            frame.write_ndjson(path)
    except pl.exceptions.PolarsError as error:
        raise RefusedError(f"by Polars: {error}") from error
    types = {field.name: rust_name(field.type) for field in table.schema}
    scan = eu.scan(path, order=True, types=types, columns=table.column_names)
    _same(expected, context.collected(scan))


def has_no_text(expected: Expected, how: str) -> bool:
    """Whether a value has no text form, so that the flow must reject it."""
    for column in expected.columns.values():
        kind = column.kind
        if pa.types.is_floating(kind) and how == "json":
            array = values.of_raw(column.raw, kind).cast(pa.float64()).to_pylist()
            if any(value is not None and not math.isfinite(value) for value in array):
                return True
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            most = YEARS_MAX * NANOSECONDS_OF_YEAR
            if any(value is not None and abs(value) > most for value in column.raw):
                return True
    return False


def _with_one_nan(expected: Expected) -> Expected:
    """NaN in text has neither sign nor payload."""
    columns = {}
    for name, column in expected.columns.items():
        if column.kind is not None and pa.types.is_floating(column.kind):
            array = pa.chunked_array([values.of_raw(column.raw, column.kind)])
            column = dataclasses.replace(column, raw=canonical.column(_nan_of(array)))
        columns[name] = column
    return Expected(columns, expected.groups)


def _one_nan(found: pa.Table) -> pa.Table:
    columns = [_nan_of(one) if pa.types.is_floating(one.type) else one for one in found.columns]
    return pa.table(columns, schema=found.schema)


def _nan_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    nan = values.float_bits(math.nan, column.type)
    raw = [
        nan if bits is not None and _is_nan(bits, column.type) else bits
        for bits in canonical.column(column)
    ]
    return pa.chunked_array([values.of_raw(raw, column.type)])


def _is_nan(bits: int, kind: pa.DataType) -> bool:
    sign = 1 << (kind.bit_width - 1)
    return bits & ~sign > values.float_bits(math.inf, kind)


def _csv_of_python(path: Path, delimiter: str, names: list[str]) -> list[list[str | None]]:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter, strict=True))
    if rows and rows[0] != names:
        raise WrongAnswerError(f"the header is {rows[0]}")
    # An empty line is a null of a single-column file.
    return [row or [""] for row in rows[1:]]


def _json_of_python(path: Path, _: str, names: list[str]) -> list[list[Any]]:
    lines = path.read_bytes().decode().split("\n")
    rows = [json.loads(line, parse_float=str, parse_int=str) for line in lines if line]
    return [[row.get(name) for name in names] for row in rows]


def _same_texts(state: State, rows: list[list[Any]], how: str) -> None:
    """Compares columns whose text form the format prescribes."""
    checked = [
        at
        for at, column in enumerate(state.expected.columns.values())
        if column.kind in values.TEXTS or pa.types.is_integer(column.kind)
    ]
    names = list(state.expected.columns)

    def written(value: Any) -> Any:
        if value is None:
            return "" if how == "csv" else None
        return str(value)

    wanted = [tuple(written(row[at]) for at in checked) for row in state.expected.rows()]
    found = [tuple(row[at] for at in checked) for row in rows]
    if checked:
        wrong = canonical.different_rows(found, wanted, ordered=False)
        if wrong:
            raise WrongAnswerError(f"{[names[at] for at in checked]} as Python reads them: {wrong}")


def _same(expected: Expected, found: pa.Table) -> None:
    found.validate(full=True)
    wrong = expected.difference(found, exact=False)
    if wrong:
        raise WrongAnswerError(wrong)


def is_in_seconds(kind: pa.DataType) -> bool:
    """Whether Parquet stores it in a finer unit."""
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_timestamp(held) and held.unit == "s")


def is_not_of_parquet(kind: pa.DataType) -> bool:
    """Whether Parquet has no form for it: rejected by the flow check."""
    types = pa.types
    return types.is_union(kind) or types.is_interval(kind)


def _has(kind: pa.DataType, is_it: Callable[[pa.DataType], bool]) -> bool:
    return is_it(kind) or any(_has(kind.field(at).type, is_it) for at in range(kind.num_fields))


def rust_name(kind: pa.DataType) -> str:
    """A type's name for `types=`."""
    types = pa.types
    units = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
    if types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        return f"Timestamp({units[kind.unit]}, {zone})"
    if types.is_time(kind):
        return f"Time{kind.bit_width}({units[kind.unit]})"
    if types.is_decimal(kind):
        return f"Decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if types.is_date(kind):
        return f"Date{kind.bit_width}"
    if types.is_floating(kind):
        return f"Float{kind.bit_width}"
    if kind in values.TEXTS:
        return "Utf8"
    return {"bool": "Boolean"}.get(str(kind), str(kind))
