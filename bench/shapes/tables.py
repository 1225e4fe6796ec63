"""Tables of given columns, rows and order, written in a given format. The same seed gives the same
table.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from bench.shapes.values import KINDS, Bits, mixed

Draw = Literal["any", "unique", "skewed"]
Order = Literal["random", "sorted", "reversed", "nearly sorted", "eight runs"]
Format = Literal["parquet", "zstd", "arrow", "csv", "json_lines"]

SUFFIXES: dict[str, str] = {
    "parquet": ".parquet",
    "zstd": ".zstd.parquet",
    "arrow": ".arrow",
    "csv": ".csv",
    "json_lines": ".jsonl",
}
ORDERS: tuple[Order, ...] = ("random", "sorted", "reversed", "nearly sorted", "eight runs")
COUNT_MIN = 1000
"""Rows, and different values, are scaled down to this number, if there are more."""
PIECE_ROWS = 1 << 18
GROUP_ROWS = 122_880
"""Rows of a row group, or batch: DuckDB's default."""
SWAPPED = 0.01
RUNS = 8
READ_BYTES = 16 << 20


@dataclass(frozen=True)
class Column:
    """A column: of `distinct` values, or, with 0, of any bits."""

    name: str
    kind: str
    distinct: int = 0
    draw: Draw = "any"
    """`unique`: every value once; `skewed`: value i about 1/i times (Zipf)."""
    dense: bool = False
    """Values are small, and close to each other."""
    nulls: float = 0.0


@dataclass(frozen=True)
class Table:
    columns: tuple[Column, ...]
    rows: int
    order: Order = "random"
    by: tuple[str, ...] = ()
    """The columns of that order."""
    format: Format = "parquet"
    seed: int = 1

    @property
    def bytes(self) -> int:
        """About the bytes in memory."""
        return self.rows * sum(KINDS[column.kind].bytes for column in self.columns)

    @property
    def file(self) -> str:
        """The file's name, different for every table."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16] + SUFFIXES[self.format]

    def scaled(self, factor: float) -> Table:
        def count(of: int) -> int:
            return max(min(of, COUNT_MIN), round(of * factor))

        columns = tuple(replace(one, distinct=count(one.distinct)) for one in self.columns)
        return replace(self, columns=columns, rows=count(self.rows))


def ensure(table: Table, folder: Path) -> Path:
    """The table's file, made if there is none."""
    path = folder / table.file
    if not path.exists():
        staged = path.with_name(f"new-{path.name}")
        write(ordered(made(table), table), table.format, staged)
        staged.rename(path)
        os.sync()
    return path


def read_once(path: Path) -> None:
    """Brings a file into the page cache."""
    with path.open("rb") as file:
        while file.read(READ_BYTES):
            pass


def made(table: Table) -> pa.Table:
    columns = {column.name: values(column, table) for column in table.columns}
    return pa.table(columns).unify_dictionaries()


def values(column: Column, table: Table) -> pa.ChunkedArray:
    chance = np.random.default_rng([table.seed, zlib.crc32(column.name.encode())])
    every = bits(column, table.rows, chance)
    nulls = chance.random(table.rows) < column.nulls
    pieces = []
    for at in range(0, table.rows, PIECE_ROWS):
        piece = KINDS[column.kind].array(every[at : at + PIECE_ROWS])
        if column.nulls:
            places = np.arange(len(piece))
            piece = piece.take(pa.array(places, mask=nulls[at : at + PIECE_ROWS]))
        pieces.append(piece)
    return pa.chunked_array(pieces)


def bits(column: Column, rows: int, chance: np.random.Generator) -> Bits:
    if column.draw == "unique":
        ordinals = chance.permutation(rows).astype(np.uint64)
    elif column.draw == "skewed":
        ordinals = (column.distinct ** chance.random(rows)).astype(np.uint64) - np.uint64(1)
    elif column.distinct:
        ordinals = chance.integers(0, column.distinct, rows, np.uint64)
    else:
        return chance.integers(0, 2**64, rows, np.uint64)
    return ordinals if column.dense else mixed(ordinals)


def ordered(made: pa.Table, table: Table) -> pa.Table:
    if table.order == "random":
        return made
    by = [(name, "ascending") for name in table.by]
    places = pc.sort_indices(plain(made.select(table.by)), sort_keys=by).to_numpy().copy()
    chance = np.random.default_rng(table.seed)
    if table.order == "reversed":
        places = places[::-1]
    elif table.order == "nearly sorted":
        moved = chance.choice(len(places), int(len(places) * SWAPPED), replace=False)
        places[moved] = places[chance.permutation(moved)]
    elif table.order == "eight runs":
        places = np.concatenate([places[at::RUNS] for at in range(RUNS)])
    return made.take(pa.array(places))


def plain(made: pa.Table) -> pa.Table:
    """The same values without dictionaries, which pyarrow does not sort."""
    is_encoded = [pa.types.is_dictionary(type_) for type_ in made.schema.types]
    columns = [
        column.cast(pa.string()) if encoded else column
        for column, encoded in zip(made.columns, is_encoded)
    ]
    return pa.table(columns, names=made.column_names)


def write(made: pa.Table, format_: Format, path: Path) -> None:
    if format_ in ("parquet", "zstd"):
        compression = "none" if format_ == "parquet" else "zstd"
        pyarrow.parquet.write_table(made, path, compression=compression, row_group_size=GROUP_ROWS)
    elif format_ == "arrow":
        with pa.ipc.new_file(path, made.schema) as writer:
            writer.write_table(made, max_chunksize=GROUP_ROWS)
    elif format_ == "csv":
        pyarrow.csv.write_csv(made, path, pyarrow.csv.WriteOptions(quoting_style="needed"))
    else:
        write_json_lines(made, path)


def write_json_lines(made: Any, path: Path) -> None:
    import duckdb

    duckdb.sql(f"COPY (SELECT * FROM made) TO '{path}' (FORMAT json)")
