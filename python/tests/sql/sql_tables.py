"""Small tables with nulls and the edges of types, for queries."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa


def tables() -> dict[str, pa.Table]:
    """The tables by name."""
    people = pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5, 6, 7, 8], pa.int64()),
            "name": ["Adad", "Bel", "Adad-nirari", "Ea", "Ishtar", "Sin", "Šamaš", "nabu"],
            "age": pa.array([30, 41, None, 25, 67, 41, 33, 18], pa.int32()),
            "city": ["Ur", "Kish", "Ur", None, "Uruk", "Kish", "Ur", "Eridu"],
            "born": pa.array(
                [
                    *(date(1990, 1, 31), date(1980, 2, 29), None, date(1999, 12, 31)),
                    *(date(1957, 7, 1), date(1980, 3, 1), date(1988, 8, 8), date(2006, 1, 1)),
                ]
            ),
            "salary": [1000.25, 2000.75, None, 0.0, -5.5, 1e6, 33.33, 12.5],
        }
    )
    sales = pa.table(
        {
            "person": pa.array([1, 1, 2, 5, 5, 5, None, 9, 3], pa.int64()),
            "amount": pa.array([10, 20, 5, 7, 30, None, 3, 100, 50], pa.int32()),
            "day": pa.array([date(2024, 1, day) for day in range(1, 10)]),
        }
    )
    cities = pa.table(
        {
            "city": ["Ur", "Kish", "Nippur", None],
            "river": ["Euphrates", "Euphrates", "none", "Tigris"],
            "founded": pa.array([-3800, -3100, -5000, None], pa.int32()),
        }
    )
    edge = pa.table(
        {
            "f": [0.0, -0.0, float("nan"), float("inf"), None, 1.5],
            "dec": pa.array(
                [
                    *(Decimal("1.10"), Decimal("-2.25"), None, Decimal("0.00")),
                    *(Decimal("99999999.99"), Decimal("1.10")),
                ],
                pa.decimal128(10, 2),
            ),
            "d": pa.array([date(2024, 1, 1), date(2024, 12, 31), None] + [date(1969, 12, 31)] * 3),
            "ts": pa.array(
                [datetime(2024, 5, 1, 12, 30), datetime(2024, 1, 1), None]
                + [datetime(1960, 1, 1, 23, 59, 59)] * 3,
                pa.timestamp("us"),
            ),
            "bin": [b"", b"\x00\xff", None, b"a", b"ab", b"b"],
            "i8": pa.array([-128, 127, None, 0, 1, 2], pa.int8()),
            "i16": pa.array([-32768, 32767, None, 0, 1, 2], pa.int16()),
            "u32": pa.array([0, 4294967295, None, 1, 2, 3], pa.uint32()),
            "bool_col": [True, False, None, True, False, None],
            "Mixed Case": ["x", "y", None, "x", "", "y"],
            "order": pa.array([6, 5, 4, 3, 2, 1], pa.int64()),
        }
    )
    return {"people": people, "sales": sales, "cities": cities, "edge": edge}
