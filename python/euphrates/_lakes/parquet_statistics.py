"""Statistics of a file for a table's log, from its Parquet footer."""

from __future__ import annotations

import datetime
import decimal
import json
from dataclasses import dataclass
from typing import Any

_COLUMNS_MAX = 32
"""How many columns have bounds, as in Delta Lake."""
_TEXT_MAX = 32
"""How long a bound that is a text may be."""


@dataclass(frozen=True)
class _Chunk:
    """The statistics of a column in one row group, from the footer."""

    nulls: int | None
    least: Any
    greatest: Any
    is_null: bool
    """Whether it has nulls only, and so no bounds."""


def null_counts(metadata: Any) -> dict[str, int | None]:
    """The number of nulls of each plain column, `None` where the footer does not say."""
    counts: dict[str, int | None] = {}
    for name, chunks in _plain_columns(metadata).items():
        known = [chunk.nulls for chunk in chunks if chunk.nulls is not None]
        counts[name] = sum(known) if len(known) == len(chunks) else None
    return counts


def delta_statistics(metadata: Any) -> str:
    """The statistics of an add action, as JSON."""
    least, greatest = {}, {}
    nulls = {name: count for name, count in null_counts(metadata).items() if count is not None}
    for name, chunks in list(_plain_columns(metadata).items())[:_COLUMNS_MAX]:
        bounded = [chunk for chunk in chunks if not chunk.is_null]
        if not bounded or any(chunk.least is None for chunk in bounded):
            continue
        low = _low(min(chunk.least for chunk in bounded))
        high = _high(max(chunk.greatest for chunk in bounded))
        if low is not None:
            least[name] = low
        if high is not None:
            greatest[name] = high
    statistics = {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }
    return json.dumps(statistics, default=_number)


def _plain_columns(metadata: Any) -> dict[str, list[_Chunk]]:
    """The chunks of all row groups with rows, by column; nested columns are left out."""
    columns: dict[str, list[_Chunk]] = {}
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        if rows.num_rows == 0:
            continue
        for at in range(metadata.num_columns):
            column = metadata.schema.column(at)
            if column.max_repetition_level == 0 and column.path == column.name:
                columns.setdefault(column.name, []).append(_chunk(rows.column(at)))
    return columns


def _chunk(chunk: Any) -> _Chunk:
    # Copied at once: the statistics do not keep alive what they are part of.
    statistics = chunk.statistics
    if statistics is None:
        return _Chunk(None, None, None, False)
    nulls = statistics.null_count if statistics.has_null_count else None
    if not statistics.has_min_max:
        return _Chunk(nulls, None, None, nulls == chunk.num_values)
    return _Chunk(nulls, statistics.min, statistics.max, False)


def _low(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_TEXT_MAX]
    return _plain(value, 0)


def _high(value: Any) -> Any:
    if isinstance(value, str):
        # A longer one would have to be rounded up.
        return value if len(value) <= _TEXT_MAX else None
    if isinstance(value, float):
        # NaN is above all numbers, and footers leave it out.
        return None
    return _plain(value, 999)


def _plain(value: Any, add_micros: int) -> Any:
    """A bound as JSON; `None` if the log has no form for it. Times are in milliseconds."""
    if isinstance(value, bool | bytes):
        return None
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, datetime.datetime):
        try:
            moved = value + datetime.timedelta(microseconds=add_micros)
        except OverflowError:
            return None
        text = moved.isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value if isinstance(value, int | float | decimal.Decimal) else None


def _number(value: Any) -> Any:
    return int(value) if value == value.to_integral_value() else float(value)
