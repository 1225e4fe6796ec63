"""The work of `unequal.py`: its input, and checks of its output. Each kind of work is one function
in every driver.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import euphrates as eu

FILES = 32
"""The number of files of a table, so that each system can divide it as it likes."""
KEYS_SHARE = 8
"""Rows of the left for each row of the right."""


class Work(NamedTuple):
    """A kind of work."""

    make: Callable[[Path, int], None]
    """Makes the input in a folder, with that many records."""
    check: Callable[[str, Path, Path], int]
    """Checks a system's output against the input; returns its number of parts."""


def source(work: str, folder: Path, records: int) -> Path:
    """The input, made once."""
    path = folder / f"{work}-{records}"
    if not path.exists():
        making = folder / "making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        WORKS[work].make(making, records)
        making.rename(path)
    return path


def parquet(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def parts_of(system: str, target: Path, columns: list[str], order: bool) -> list[pa.Table]:
    """The output: a table of each part, or one of a collection."""
    if system != "Euphrates":
        return [pq.read_table(file, columns=columns) for file in parquet(target)]
    flow = eu.Flow("check")
    flow.chain(eu.read("out", columns=columns, order=order), eu.collect())
    return [flow.go(home=target, progress=False).collected().to_pyarrow()]


def rows(files: list[Path]) -> int:
    return sum(pq.read_metadata(file).num_rows for file in files)


# --- sort -----------------------------------------------------------------------------------------


def make_records(folder: Path, records: int) -> None:
    """A key of 10 characters and a payload of 88."""

    def as_text(batch: eu.Batch) -> pa.Table:
        columns = pa.table(batch.to_pyarrow())
        texts = [column.cast(pa.binary()).cast(pa.string()) for column in columns.columns]
        return pa.table(texts, names=columns.column_names)

    each = records // FILES
    for number in range(FILES):
        flow = eu.Flow("make")
        numbers = eu.generate("records", rows=each, first=number * each, ascii=True)
        file = folder / f"{number:03}.parquet"
        flow.chain(numbers, flow.place(as_text), eu.save(str(file), compression="none"))
        flow.go(progress=False)


def check_sorted(system: str, target: Path, source: Path) -> int:
    """Checks that all records are there, each part is sorted, and no two overlap."""
    parts = [part["key"] for part in parts_of(system, target, ["key"], order=True) if len(part)]
    assert sum(len(part) for part in parts) == rows(parquet(source)), f"{system} lost records"
    for part in parts:
        keys = part.combine_chunks().cast(pa.large_string())
        assert pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py(), f"{system} did not sort"
    ends = sorted((part[0].as_py(), part[-1].as_py()) for part in parts)
    for (_, last), (first, _) in zip(ends, ends[1:]):
        assert last <= first, f"two parts of {system} overlap"
    return len(parts)


# --- join -----------------------------------------------------------------------------------------


def make_sides(folder: Path, records: int) -> None:
    """A left table of numbered rows with random keys of the right's, and 80 characters; a right
    table with a row of 64 characters per key.
    """
    keys = records // KEYS_SHARE
    left = f"""(hash(i) % {keys})::bigint as k, i as n,
               md5(i::text) || md5((-i)::text) || '0123456789abcdef' as a"""
    right = "i as k, md5(i::text) || md5((-i)::text) as b"
    for side, columns, count in [("left", left, records), ("right", right, keys)]:
        (folder / side).mkdir()
        for number in range(FILES):
            first, end = number * count // FILES, (number + 1) * count // FILES
            file = folder / side / f"{number:03}.parquet"
            query = f"select {columns} from range({first}, {end}) numbers(i) order by hash(i)"
            duckdb.sql(f"copy ({query}) to '{file}'")


def check_joined(system: str, target: Path, source: Path) -> int:
    """Checks that each row of the left appears once, with its match."""
    parts = parts_of(system, target, ["k", "n", "a", "b"], order=False)
    con = duckdb.connect()
    con.register("found", pa.concat_tables(parts, promote_options="permissive"))
    told = con.sql(
        f"""select count(*), count(distinct f.n), count(*) filter (
              l.k = f.k and l.a = f.a and f.b = md5(f.k::text) || md5((-f.k)::text))
            from found f join '{source}/left/*.parquet' l on l.n = f.n"""
    ).fetchall()
    assert told == [(rows(parquet(source / "left")),) * 3], f"{system} did not join: {told}"
    return len(parts)


WORKS = {"sort": Work(make_records, check_sorted), "join": Work(make_sides, check_joined)}
