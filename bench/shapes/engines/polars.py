"""Runs a job with Polars' streaming engine; the number of threads comes from the environment."""

from __future__ import annotations

from typing import Any

import polars as pl

from bench.shapes.engines import Job, compression, main

SCANS = {
    "parquet": pl.scan_parquet,
    "zstd": pl.scan_parquet,
    "arrow": pl.scan_ipc,
    "csv": pl.scan_csv,
    "json_lines": pl.scan_ndjson,
}


def opened(job: Job) -> None:
    """There is no session."""


def run(session: None, job: Job) -> None:
    frames = [SCANS[input_["format"]](input_["path"]) for input_ in job["inputs"]]
    if job["task"] == "join":
        result = frames[0].join(frames[1], on=job["on"], how=job["how"], coalesce=coalesced(job))
    else:
        result = {"sort": sort, "group": group, "scan": scan}[job["task"]](frames[0], job)
    save(result, job)


def coalesced(job: Job) -> bool | None:
    return None if job["how"] in ("semi", "anti") else True


def sort(frame: pl.LazyFrame, job: Job) -> pl.LazyFrame:
    by, down = zip(*job["by"])
    result = frame.sort(by, descending=down, nulls_last=True)
    return result.head(job["limit"]) if job["limit"] else result


def group(frame: pl.LazyFrame, job: Job) -> pl.LazyFrame:
    values = [value(*what).alias(name) for name, *what in job["values"]]
    return frame.group_by(job["keys"]).agg(values)


def value(function: str, column: str) -> pl.Expr:
    if not column:
        return pl.len()
    names = {"avg": "mean", "count distinct": "n_unique"}
    expression: pl.Expr = getattr(pl.col(column), names.get(function, function))()
    return expression


def scan(frame: pl.LazyFrame, job: Job) -> pl.LazyFrame:
    if job["where"]:
        frame = frame.filter(pl.sql_expr(job["where"]))
    return frame.select(job["columns"]) if job["columns"] else frame


def save(frame: pl.LazyFrame, job: Job) -> None:
    common: dict[str, Any] = {"maintain_order": job["task"] == "sort", "engine": "streaming"}
    packed = {"none": "uncompressed"}.get(compression(job), compression(job))
    if job["format"] in ("parquet", "zstd"):
        frame.sink_parquet(job["output"], compression=packed, **common)
    elif job["format"] == "arrow":
        frame.sink_ipc(job["output"], **common)
    elif job["format"] == "csv":
        frame.sink_csv(job["output"], **common)
    else:
        frame.sink_ndjson(job["output"], **common)


if __name__ == "__main__":
    main(opened, run)
