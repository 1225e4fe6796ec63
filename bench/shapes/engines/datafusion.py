"""Runs a job with DataFusion."""

from __future__ import annotations

import datafusion

from bench.shapes.engines import Job, compression, main
from bench.shapes.engines.sql import query

POOL = 0.8
"""The part of the limit that its pool manages; not all of its memory comes from there."""


def opened(job: Job) -> datafusion.SessionContext:
    config = datafusion.SessionConfig().with_target_partitions(job["threads"])
    runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_specified(job["scratch"])
    if job["memory"]:
        runtime = runtime.with_fair_spill_pool(int(job["memory"] * POOL))
    return datafusion.SessionContext(config, runtime)


def run(context: datafusion.SessionContext, job: Job) -> None:
    names = [f"t{at}" for at in range(len(job["inputs"]))]
    for name, input_ in zip(names, job["inputs"]):
        register(context, name, input_["path"], input_["format"])
    packed = {"none": "uncompressed", "zstd": "zstd(3)"}[compression(job)]
    stored = {"csv": "CSV", "json_lines": "JSON", "arrow": "ARROW"}.get(job["format"], "PARQUET")
    options = {"PARQUET": f" OPTIONS ('format.compression' '{packed}')",
               "CSV": " OPTIONS ('format.has_header' 'true')"}.get(stored, "")  # fmt: skip
    sql = query(job, *names, half="LEFT")
    context.sql(f"COPY ({sql}) TO '{job['output']}' STORED AS {stored}{options}").collect()


def register(context: datafusion.SessionContext, name: str, path: str, format_: str) -> None:
    if format_ == "csv":
        context.register_csv(name, path)
    elif format_ == "json_lines":
        context.register_json(name, path, file_extension=".jsonl")
    elif format_ == "arrow":
        context.register_arrow(name, path)
    else:
        context.register_parquet(name, path)


if __name__ == "__main__":
    main(opened, run)
