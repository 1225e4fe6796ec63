"""What users of SQL write in the methods of a query."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu

SALES = {"city": ["Ur", "Kish", "Ur"], "day": [2, 1, 1], "n": [5, 3, 2]}


def test_columns_and_aggregates_may_be_named_by_as() -> None:
    rows = eu.query(SALES)
    assert rows.with_columns("n * 2 as twice", "n + 1 AS n").columns == [
        "city",
        "day",
        "n",
        "twice",
    ]
    sums = rows.group_by("upper(city) as town").agg("sum(n) as total", '"max"(n) as "the most"')
    expected = {"town": ["KISH", "UR"], "total": [3, 7], "the most": [3, 5]}
    assert sums.sort("town").to_pydict() == expected
    texts = rows.with_columns("'n as m' as t", "cast(day as varchar) as d").select("t", "d")
    assert texts.limit(1).to_pydict() == {"t": ["n as m"], "d": ["2"]}
    with pytest.raises(eu.UsageError, match="`cast\\(n as int\\)` has no name"):
        rows.with_columns("cast(n as int)")


@pytest.mark.parametrize(
    "window",
    [
        "row_number() over (partition by city order by day)",
        "sum(n) OVER (order by day, n rows between 1 preceding and current row)",
        "n - lag(n, 1, 0) over (order by day, n)",
    ],
)
def test_windows_in_columns_are_those_of_sql(window: str) -> None:
    rows, sales = eu.query(SALES), pa.table(SALES)
    wanted = duckdb.sql(f"select *, {window} as r from sales order by city, day").fetchall()
    shown = rows.with_columns(r=window).sort("city", "day").to_pylist()
    assert [tuple(row.values()) for row in shown] == wanted
    selected = rows.select("*", f"{window} as r").sort("city", "day").to_pylist()
    assert selected == shown
    assert sales.num_rows == rows.with_columns("'x) over (' as t").collect().num_rows


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda rows: rows.window("city", r="row_number() over ()"), ".with_columns(r="),
        (lambda rows: rows.sort("-n"), '.sort("n desc")'),
        (lambda rows: rows.group_by("city").agg(c=eu.count()), 'write "count()"'),
    ],
)
def test_what_is_no_option_is_answered_with_one(
    call: Callable[[eu.Query], object], remedy: str
) -> None:
    with pytest.raises(eu.UsageError) as error:
        call(eu.query(SALES))
    assert remedy in str(error.value.remedy)


def test_sizes_of_files_have_units(tmp_path: Path) -> None:
    rows = eu.query(eu.generate("records", rows=60_000))
    rows.save(tmp_path / "out/", file_bytes="2MB", compression="none")
    sizes = [file.stat().st_size for file in (tmp_path / "out").iterdir()]
    assert len(sizes) > 2 and max(sizes) <= 2_200_000
    for wrong in ("2 parsecs", 0, "0MB"):
        with pytest.raises(eu.UsageError, match="file_bytes"):
            rows.save(tmp_path / "other/", file_bytes=wrong)
