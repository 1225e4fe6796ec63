"""Functions by which a test holds a flow in the middle. Workers import them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import euphrates as eu


def gated(batch: eu.Batch, folder: str) -> eu.Batch:
    """Passes a batch through once the gate of all workers, or of its own, is open. Records that it
    has begun, as a file named after the worker's process.
    """
    if len(batch):
        worker = os.getppid()
        Path(folder, f"{worker}.{time.monotonic_ns()}").touch()
        while not (Path(folder, "open").exists() or Path(folder, f"open-{worker}").exists()):
            time.sleep(0.005)
    return batch
