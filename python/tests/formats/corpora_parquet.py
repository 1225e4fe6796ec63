"""Apache's Parquet test files: read as pyarrow or DuckDB read them, or rejected as they reject
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import corpora
import euphrates as eu
from corpora import READ, REFUSED, WRONG, Verdict

FOLDER = "parquet-testing"

FORMATS = ["parquet", "arrow", "csv", "jsonl"]


def files(root: Path) -> list[Path]:
    """All Parquet files of the corpus."""
    wanted = {".parquet", ".encrypted"}
    return sorted(path for path in root.rglob("*") if path.suffix in wanted)


# Readers disagree about a 96-bit timestamp in the year 290000. The microseconds that were written:
SPARK = [
    1704141296123456,
    1704070800000000,
    253402225200000000,
    1735599600000000,
    None,
    9089380393200000000,
]


def judge(path: Path, scratch: Path) -> Verdict:
    """Compares the result with those of the available readers."""
    ours = _or_error(lambda path: corpora.read(path, format="parquet"), path)
    if isinstance(ours, Exception):
        return _judge_refusal(path, ours)
    if path.name == "int96_from_spark.parquet":
        same = ours["a"].cast(pa.int64()).to_pylist() == SPARK
        differences = [] if same else [f"{ours['a']}"]
    else:
        differences = _differences(path, ours)
    if differences:
        return Verdict(path.name, WRONG, "; ".join(differences))
    written, wrong = corpora.written(ours, scratch, FORMATS)
    return Verdict(path.name, WRONG if wrong else READ, wrong or "", written)


def _differences(path: Path, ours: pa.Table) -> list[str]:
    """The difference from every other reader; empty if one agrees, or if none reads the file."""
    differences = []
    for read in (_by_pyarrow, _by_duckdb):
        theirs = _or_error(read, path)
        if not isinstance(theirs, Exception):
            difference = corpora.difference(ours, theirs)
            if difference is None:
                return []
            differences.append(f"{read.__name__}: {difference}")
    return differences


def _judge_refusal(path: Path, error: Exception) -> Verdict:
    if not isinstance(error, eu.UsageError | eu.CorruptError | eu.ResourceError):
        return Verdict(path.name, WRONG, f"not typed: {error!r}")
    readers = {"pyarrow": _by_pyarrow, "DuckDB": _by_duckdb}
    others = [name for name, read in readers.items() if _refuses(read, path)]
    if not others and "checksum" in str(error) and _refuses(_by_pyarrow_with_checksums, path):
        others = ["pyarrow if it is to verify checksums"]
    if not others:
        return Verdict(path.name, WRONG, f"rejected by no other reader: {error}")
    reason = str(error).replace(f"{path}", "…").replace("\n", ";")
    return Verdict(path.name, REFUSED, f"{reason} (and by {' and '.join(others)})")


def _refuses(read: Any, path: Path) -> bool:
    return isinstance(_or_error(read, path), Exception)


def _or_error(read: Any, path: Path) -> pa.Table | Exception:
    try:
        return read(path)
    except Exception as error:
        return error


def _by_pyarrow(path: Path) -> pa.Table:
    # 96-bit timestamps exceed the range of nanoseconds.
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()


def _by_pyarrow_with_checksums(path: Path) -> pa.Table:
    return pq.ParquetFile(path, page_checksum_verification=True).read()


def _by_duckdb(path: Path) -> pa.Table:
    with duckdb.connect() as connection:
        return connection.read_parquet(str(path)).to_arrow_table()
