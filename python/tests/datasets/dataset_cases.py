"""Tables for tests of folders of files, and what is in such folders."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import euphrates as eu

SPECIAL = [
    "Ur",
    "",
    "a/b",
    "x=y",
    "50%",
    "%41",
    "é–ß",
    " ",
    ".",
    "..",
    "it's",
    '"',
    "a:b*?",
    "{[]}^",
]
"""Texts that are awkward in paths."""


def special_rows() -> pa.Table:
    texts = [*SPECIAL, None, "__HIVE_DEFAULT_PARTITION__", "\t\n\x7f", "007"] * 3
    return pa.table({"n": range(len(texts)), "text": texts})


def typed_rows() -> pa.Table:
    day = datetime.date(2024, 2, 28)
    return pa.table(
        {
            "n": pa.array(range(12), pa.int32()),
            "whole": pa.array([-5, 0, 7, None] * 3, pa.int64()),
            "day": pa.array([day, day + datetime.timedelta(2), None] * 4, pa.date32()),
            "flag": pa.array([True, False] * 6),
            "name": pa.array(["Ur", "Kish", None] * 4),
        }
    )


def write(table: Any, path: Path, **config: Any) -> eu.Report:
    """Writes a table to a folder with the module `save_dataset`."""
    options = {name: config.pop(name) for name in ("memory", "cluster", "cores") if name in config}
    flow = eu.Flow("write")
    source = table if isinstance(table, eu.modules.ModuleCall) else eu.from_arrow(table)
    flow.chain(source, eu.save_dataset(path, **config))
    return flow.go(**options)


def rows_of(table: Any) -> list[str]:
    """The rows, without their order."""
    table = pa.table(table)
    columns = sorted(table.column_names)
    return sorted(map(str, table.select(columns).to_pylist()))


def by_duckdb(path: Path, **options: Any) -> pa.Table:
    given = "".join(f", {name}={value}" for name, value in options.items())
    query = f"from read_parquet('{path}/**/*.parquet', hive_partitioning=true{given})"
    return duckdb.connect().sql(query).to_arrow_table()


def files_in(path: Path) -> list[str]:
    """All files below a folder, hidden ones as well."""
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if not file.is_dir())


def visible(folder: Path) -> list[str]:
    """The entries of a folder, hidden ones as well, without the home of the test."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name != "home")


def scanned(path: Path | str | list[str], **options: Any) -> pa.Table:
    return eu.query(eu.scan(path, **options)).to_pyarrow()
