"""Dask, on a running scheduler and workers."""

from __future__ import annotations

import dask.dataframe
from dask.distributed import Client
from serving import serve, settings


def sort(source: str, target: str) -> None:
    records = dask.dataframe.read_parquet(source).sort_values("key")
    records.to_parquet(target, write_index=False, compression=None)


def join(source: str, target: str) -> None:
    sides = [dask.dataframe.read_parquet(f"{source}/{side}") for side in ("left", "right")]
    joined = sides[0].merge(sides[1], on="k")
    joined.to_parquet(target, write_index=False, compression=None)


with Client(scheduler_file=settings()["scheduler_file"]) as client:
    client.wait_for_workers(settings()["workers"], timeout=120)
    serve({"sort": sort, "join": join})
