"""Compares an engine's output with the result that DuckDB computes from the input.

Both are reduced to a fingerprint: the number of rows, and hashes of all columns and of the rows,
which do not depend on the order of the rows. Sums and means of floats, which depend on the order of
their values, are added up instead, each weighted by its row's other columns.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset

from bench.shapes.engines.sql import query
from bench.shapes.values import KINDS

Job = dict[str, Any]
Fingerprint = dict[str, Any]
Types = dict[str, str]
NEARLY = 1e-9
WEIGHTS = 1009


def connect(job: Job) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(f"SET temp_directory='{job['scratch']}'; SET enable_progress_bar=false")
    return con


def expected(job: Job) -> Fingerprint:
    """The fingerprint of the right result, with the types of its columns."""
    with connect(job) as con:
        return computed(con, job)


def computed(con: duckdb.DuckDBPyConnection, job: Job) -> Fingerprint:
    names = []
    for at, input_ in enumerate(job["inputs"]):
        types = {name: KINDS[kind].sql for name, kind in input_["columns"]}
        names.append(f"input_{at}")
        view(con, names[-1], Path(input_["path"]), input_["format"], types)
    sql = query(job, *names)
    described = con.sql(f"DESCRIBE {sql}").fetchall()
    types = {row[0]: "VARCHAR" if row[1].startswith("ENUM") else row[1] for row in described}
    return fingerprint(con, f"({sql})", compared(job, types), near(job, types)) | {"types": types}


def difference(job: Job, wanted: Fingerprint) -> str | None:
    """The first difference of a job's output, or None."""
    with connect(job) as con:
        try:
            return different(con, job, wanted)
        except duckdb.Error as error:
            return f"cannot be compared: {error}"


def different(con: duckdb.DuckDBPyConnection, job: Job, wanted: Fingerprint) -> str | None:
    types = wanted["types"]
    view(con, "output", Path(job["output"]), job["format"], types)
    found = fingerprint(con, "output", compared(job, types), near(job, types))
    if found["rows"] != wanted["rows"]:
        return f"{found['rows']} rows instead of {wanted['rows']}"
    for name, hash_ in wanted["hashes"].items():
        if found["hashes"][name] != hash_:
            return f"{name} differs"
    for name, (sum_, size) in wanted["sums"].items():
        if not math.isclose(found["sums"][name][0], sum_, rel_tol=0, abs_tol=NEARLY * size):
            return f"{name} differs: {found['sums'][name][0]} instead of {sum_}"
    if job["task"] == "sort" and (wrong := disorder(con, job)):
        return f"{wrong} rows are not in order"
    return None


def compared(job: Job, types: Types) -> list[str]:
    """The columns that are compared: the first rows with equal keys may be any of them."""
    return [name for name, _ in job["by"]] if job.get("limit") else [*types]


def near(job: Job, types: Types) -> list[str]:
    """The columns that depend on the order of additions."""
    if job["task"] != "group":
        return []
    sums = [name for name, function, _ in job["values"] if function in ("sum", "avg")]
    return [name for name in sums if types[name] == "DOUBLE"]


def view(con: duckdb.DuckDBPyConnection, name: str, path: Path, format_: str, types: Types) -> None:
    """A view of a file, with these types."""
    if format_ == "arrow":
        con.register(f"{name}_file", pyarrow.dataset.dataset(path, format="arrow"))
        source = f"{name}_file"
    elif format_ in ("parquet", "zstd"):
        source = f"read_parquet('{path}')"
    else:
        known = str(types)
        reader = {"csv": "read_csv", "json_lines": "read_json"}[format_]
        more = "header=true" if format_ == "csv" else "format='newline_delimited'"
        source = f"{reader}('{path}', {more}, columns={known})"
    chosen = ", ".join(f"CAST({column} AS {type_}) AS {column}" for column, type_ in types.items())
    con.execute(f"CREATE VIEW {name} AS SELECT {chosen} FROM {source}")


def fingerprint(
    con: duckdb.DuckDBPyConnection, source: str, names: list[str], near: list[str]
) -> Fingerprint:
    exact = [name for name in names if name not in near]
    row = f"hash({', '.join(exact)})"
    hashes = [f"sum(hash({name}))" for name in exact] + [f"sum({row})"]
    weight = f"({row} % {WEIGHTS})"
    sums = [f"fsum({name} * {weight}), fsum(abs({name}) * {weight})" for name in near]
    chosen = ", ".join(["count(*)", *hashes, *sums])
    values = con.sql(f"SELECT {chosen} FROM {source}").fetchall()[0]
    count, rest = values[0], values[len(hashes) + 1 :]
    return {
        "rows": count,
        "hashes": dict(zip([*exact, "the combination of columns"], map(str, values[1:]))),
        "sums": {name: (rest[2 * at] or 0.0, rest[2 * at + 1] or 0.0)
                 for at, name in enumerate(near)},
    }  # fmt: skip


def disorder(con: duckdb.DuckDBPyConnection, job: Job) -> int:
    """How many rows come before the row in front of them, in the order of the file."""
    con.execute("SET threads=1; SET preserve_insertion_order=true")
    follows = "true"
    for name, down in reversed(job["by"]):
        sign = "<" if down else ">"
        after = f"coalesce({name} {sign} before_{name}, {name} IS NULL AND before_{name} NOTNULL)"
        follows = f"({after} OR ({name} IS NOT DISTINCT FROM before_{name} AND {follows}))"
    names = [name for name, _ in job["by"]]
    before = [f"lag({name}) OVER () AS before_{name}" for name in names]
    chosen = ", ".join([*names, *before, "row_number() OVER () AS place"])
    sql = f"SELECT {chosen} FROM output"
    count = f"SELECT count(*) FROM ({sql}) WHERE place > 1 AND NOT {follows}"
    wrong: int = con.sql(count).fetchall()[0][0]
    return wrong
