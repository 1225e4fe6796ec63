"""Runs a job with DuckDB; Arrow files are read and written with pyarrow."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.dataset

from bench.shapes.engines import Job, compression, main
from bench.shapes.engines.sql import query

BATCH_ROWS = 122_880


def opened(job: Job) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(f"SET threads={job['threads']}; SET preserve_insertion_order=false")
    con.execute("SET enable_progress_bar=false")
    con.execute(f"SET temp_directory='{job['scratch']}'")
    if job["memory"]:
        con.execute(f"SET memory_limit='{job['memory'] // 2**20}MiB'")
    pa.set_cpu_count(job["threads"])
    return con


def run(con: duckdb.DuckDBPyConnection, job: Job) -> None:
    sql = query(job, *(relation(con, **input_) for input_ in job["inputs"]))
    if job["format"] == "arrow":
        return write_arrow(con, sql, job["output"])
    options = {"csv": "FORMAT csv, HEADER", "json_lines": "FORMAT json"}
    packed = {"none": "uncompressed"}.get(compression(job), compression(job))
    chosen = options.get(job["format"], f"FORMAT parquet, COMPRESSION {packed}")
    con.execute(f"COPY ({sql}) TO '{job['output']}' ({chosen})")
    return None


def relation(con: duckdb.DuckDBPyConnection, path: str, format: str, **_: object) -> str:
    if format != "arrow":
        return f"'{path}'"
    name = f"arrow_{len(con.sql('SHOW TABLES').fetchall())}"
    con.register(name, pyarrow.dataset.dataset(path, format="arrow"))
    return name


def write_arrow(con: duckdb.DuckDBPyConnection, sql: str, path: str) -> None:
    reader = con.sql(sql).to_arrow_reader(BATCH_ROWS)
    with pa.ipc.new_file(path, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


if __name__ == "__main__":
    main(opened, run)
