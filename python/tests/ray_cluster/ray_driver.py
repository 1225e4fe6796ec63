"""A program on Ray for tests that damage it: its flow waits in each worker for a file, which the
test creates after the loss of a worker.

Its arguments are the options of `ray.init` and a folder. It prints its progress: a word at the
beginning of each line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pyarrow as pa
import ray

import euphrates as eu

FOLDER = sys.argv[2]


def waiting(batch: eu.Batch) -> eu.Batch:
    if not len(batch):
        return batch  # depends on the schema of its result
    print("working at", os.getpid(), flush=True)
    while not Path(FOLDER, "go-on").exists():
        time.sleep(0.01)
    return batch


def say(*words: object) -> None:
    print(*words, flush=True)


ray.init(**json.loads(sys.argv[1]), logging_level="error")
try:
    with eu.Cluster.ray() as cluster:
        names = {worker.name for worker in cluster.workers}
        say("workers", *names)
        say("actors", *ray.util.list_named_actors())
        flow = eu.Flow("waits")
        batches = pa.table({"n": range(100_000)}).to_batches(max_chunksize=10_000)
        # A single-use source cannot restart.
        stream = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
        numbers = flow.place(eu.from_arrow(stream))
        waits = flow.attach(numbers, flow.place(waiting, per_worker=1))
        flow.chain(waits, eu.count(), eu.collect())
        running = flow.start(cluster=cluster)
        while not running.wait(0.05):
            if lost := names - {worker.name for worker in cluster.workers}:
                say("lost", *lost)
                Path(FOLDER, "go-on").touch()
                break
        say("done", running.finish().collected().to_pydict()["count"][0])
except eu.EuphratesError as error:
    say("failed", type(error).__name__, error.message)
say("closed")
ray.shutdown()
