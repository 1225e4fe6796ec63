"""Values as text. `crates/cli/tests/sqllogictest/values.rs` writes ours in the same way."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

DAY_MICROS = 86_400_000_000
# The letters of a `query` line.
LETTERS: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (pa.types.is_boolean, "B"),
    (lambda of: pa.types.is_decimal(of) and of.scale == 0, "I"),
    (pa.types.is_integer, "I"),
    (pa.types.is_decimal, "R"),
    (pa.types.is_floating, "R"),
    (pa.types.is_string, "T"),
    (pa.types.is_large_string, "T"),
    (pa.types.is_date, "D"),
    (pa.types.is_timestamp, "P"),
]


def letter(of: pa.DataType) -> str:
    return next((letter for is_of, letter in LETTERS if is_of(of)), "?")


def without_zeros(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def number(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{value + 0.0:.{digits}g}" if value else "0"


def text(value: str) -> str:
    if not value:
        return "(empty)"
    if value.strip() != value or any(ord(c) < 32 for c in value):
        return "'" + value.replace("\n", "\\n").replace("\t", "\\t") + "'"
    return value


def blob(value: bytes) -> str:
    plain = [chr(b) if 32 <= b < 127 and chr(b) not in "\\'\"" else f"\\x{b:02X}" for b in value]
    return "".join(plain) or "(empty)"


def instant(value: datetime) -> str:
    plain = without_zeros(value.replace(tzinfo=None).isoformat(" ", "microseconds"))
    zone = value.strftime("%z")
    return plain + (f"{zone[:3]}:{zone[3:]}" if zone else "")


def written(value: Any, of: pa.DataType) -> str:
    """The text of a value of an Arrow type."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return number(value, 6 if pa.types.is_float32(of) else 12)
    if isinstance(value, Decimal):
        return without_zeros(f"{value:f}")
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return blob(value)
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return without_zeros(value.strftime("%H:%M:%S.%f"))
    if isinstance(value, pa.MonthDayNano):
        micros = value.days * DAY_MICROS + value.nanoseconds // 1000
        return f"{value.months} months {micros} us"
    if isinstance(value, timedelta):
        return f"0 months {value // timedelta(microseconds=1)} us"
    if isinstance(value, list):
        return "[" + ", ".join(written(item, of.value_type) for item in value) + "]"
    if isinstance(value, dict):
        fields = [f"'{name}': {written(item, of.field(name).type)}" for name, item in value.items()]
        return "{" + ", ".join(fields) + "}"
    return str(value)
