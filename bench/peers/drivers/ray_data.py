"""Ray Data, on a Ray cluster."""

from __future__ import annotations

import ray
from serving import serve, settings


def sort(source: str, target: str) -> None:
    records = ray.data.read_parquet(source).sort("key")
    records.write_parquet(target, compression="NONE")


ray.init(**settings(), log_to_driver=False)
context = ray.data.DataContext.get_current()
context.enable_progress_bars = False
# As many parts as the others make of it; 200, the default, take as long again.
context.default_hash_shuffle_parallelism = 32
serve({"sort": sort})
