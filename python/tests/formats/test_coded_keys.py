"""Keys that are read as codes of their dictionaries: groups are those of DuckDB for every type."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu

ROWS = 40_000
VALUES = 300
DAY = datetime.datetime(2024, 2, 28)

KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int8": (pa.int8(), lambda n: n % 256 - 128),
    "uint16": (pa.uint16(), lambda n: n * 200),
    "int32": (pa.int32(), lambda n: n * 7_000_000 - 1_000_000_000),
    "int64": (pa.int64(), lambda n: (n - 150) << 52),
    "uint64": (pa.uint64(), lambda n: n << 55),
    "float32": (pa.float32(), lambda n: [0.0, -0.0, float("nan")][n] if n < 3 else n / 8),
    "float64": (pa.float64(), lambda n: [0.0, -0.0, float("nan")][n] if n < 3 else n / 7),
    "decimal9": (pa.decimal128(9, 2), lambda n: Decimal(n - 150) / 4),
    "decimal38": (pa.decimal128(38, 2), lambda n: Decimal((n - 150) * 10**20) / 4),
    "date": (pa.date32(), lambda n: (DAY + datetime.timedelta(days=n)).date()),
    "time": (pa.time64("us"), lambda n: (DAY + datetime.timedelta(seconds=n)).time()),
    "timestamp": (pa.timestamp("us"), lambda n: DAY + datetime.timedelta(hours=n)),
    "nanoseconds": (pa.timestamp("ns"), lambda n: DAY + datetime.timedelta(minutes=n)),
    "text": (pa.string(), lambda n: f"a value of thirty bytes or so {n}"),
    "large text": (pa.large_string(), lambda n: "ab" * (n % 40)),
    "binary": (pa.binary(), lambda n: bytes([n % 256, 255]) * (n % 9)),
    "fixed binary": (pa.binary(16), lambda n: n.to_bytes(16, "big")),
    "bool": (pa.bool_(), lambda n: n % 2 == 0),
}


def table(kind: str, seed: int) -> pa.Table:
    """A key with nulls and another key of few values, a number, and a list."""
    type_, value = KINDS[kind]
    draw = random.Random(seed)
    numbers = [draw.randrange(VALUES) for _ in range(ROWS)]
    keys = [None if number % 10 == 9 else value(number) for number in numbers]
    # One row group has no value at all.
    keys[10_000:20_000] = [None] * 10_000
    return pa.table(
        {
            "k": pa.array(keys, type_),
            "flag": pa.array([draw.randrange(3) for _ in range(ROWS)], pa.int8()),
            "v": pa.array(range(ROWS), pa.int64()),
            "l": pa.array([[number] for number in numbers], pa.list_(pa.int64())),
        }
    )


def write(folder: Path, kind: str) -> str:
    """Two files: one with codes alone, and one whose dictionaries may become full."""
    # Codes alone if the limit of bytes is that of the first.
    for number, limit in enumerate([1 << 20, 1500]):
        pq.write_table(
            table(kind, number), folder / f"{number}.parquet",
            row_group_size=10_000, dictionary_pagesize_limit=limit, data_page_size=4096,
        )  # fmt: skip
    return f"{folder}/*.parquet"


QUERIES = {
    "one key": "select k, count(*) n, sum(v)::bigint s from t group by k",
    "two keys": "select k, flag, count(*) n, max(v) s from t group by k, flag",
    "distinct": "select flag, count(distinct k) n from t group by flag",
    "filtered": "select k, count(*) n, sum(v)::bigint s from t where v % 5 = 0 group by k",
    "few rows, nested": "select k, count(*) n, sum(len(l))::bigint s from t "
    "where v between 300 and 400 group by k",
    "also read as values": "select k, min(k) n, count(*) s from t group by k",
}


@pytest.mark.parametrize("files", ["0.parquet", "*.parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_coded_keys_make_the_groups_of_their_values(tmp_path: Path, kind: str, files: str) -> None:
    paths = write(tmp_path, kind).replace("*.parquet", files)
    for name, query in QUERIES.items():
        if kind == "bool" and name == "also read as values":
            continue
        found = pa.table(eu.sql(query, t=eu.scan(paths)).collect())
        wanted = duckdb.sql(query.replace("from t", f"from '{paths}' t")).to_arrow_table()
        assert rows(found) == rows(wanted), name


def rows(table: pa.Table) -> list[str]:
    """In one order; zeros have no sign."""
    return sorted(repr([plain(value) for value in row.values()]) for row in table.to_pylist())


def plain(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value
