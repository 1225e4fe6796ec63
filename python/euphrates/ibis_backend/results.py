"""Converts rows of flows to the types that an Ibis expression declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis.expr.schema as sch
import pyarrow as pa
import pyarrow.compute as pc
from ibis.formats.pandas import PandasData
from ibis.formats.pyarrow import PyArrowType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import ibis.expr.datatypes as dt
    import pandas as pd


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with columns that may all have nulls: types promise less than Ibis expects."""
    return pa.schema([field.with_nullable(True) for field in schema])


def exact(declared: sch.Schema, found: pa.Schema) -> sch.Schema:
    """The schema of an expression with the decimals and durations that its rows have: Ibis declares
    the product of decimals with fewer digits than it has, and differences of times in seconds.
    """
    types = {
        name: PyArrowType.to_ibis(field.type) if _has_more_digits(dtype, field.type) else dtype
        for (name, dtype), field in zip(declared.items(), found)
    }
    return sch.Schema(types)


def _has_more_digits(declared: dt.DataType, found: pa.DataType) -> bool:
    if declared.is_decimal():
        return bool(pa.types.is_decimal(found))
    return bool(declared.is_interval() and pa.types.is_duration(found))


def reader(batches: Iterable[Any], schema: sch.Schema, chunk_rows_max: int) -> pa.RecordBatchReader:
    """Batches in the types of a schema, cut where they have more rows."""
    target = nullable(schema.to_pyarrow())
    return pa.RecordBatchReader.from_batches(target, _cast(batches, target, chunk_rows_max))


def _cast(
    batches: Iterable[Any], target: pa.Schema, chunk_rows_max: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = pa.record_batch(batch)
        columns = [column(values, field.type) for values, field in zip(rows.columns, target)]
        rows = pa.RecordBatch.from_arrays(columns, schema=target)
        for start in range(0, rows.num_rows, chunk_rows_max):
            yield rows.slice(start, chunk_rows_max)


def column(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Values in another type. Units of times may become coarser; anything else that would change a
    value is an error.
    """
    if values.type == to:
        return values
    options = pc.CastOptions(to, allow_time_truncate=True)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values.cast(options=options)


def frame(table: pa.Table, schema: sch.Schema) -> pd.DataFrame:
    """A pandas frame, in the types of a schema."""
    import pandas as pd

    columns = {
        name: pd.Series(values.to_pylist(), dtype="object")
        if pa.types.is_nested(values.type)
        else values.to_pandas()
        for name, values in zip(table.column_names, table.columns)
    }
    return PandasData.convert_table(pd.DataFrame(columns), schema)
