"""Daft on a Ray cluster: its own runner is a single process, without several workers."""

from __future__ import annotations

import daft
import ray
from serving import serve, settings


def sort(source: str, target: str) -> None:
    records = daft.read_parquet(f"{source}/*.parquet").sort("key")
    records.write_parquet(target, compression="none")


def join(source: str, target: str) -> None:
    left, right = (daft.read_parquet(f"{source}/{side}/*.parquet") for side in ("left", "right"))
    left.join(right, on="k").write_parquet(target, compression="none")


ray.init(**settings(), log_to_driver=False)
daft.set_runner_ray()
serve({"sort": sort, "join": join})
