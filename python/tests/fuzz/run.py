"""Runs the case of a seed in this process."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
import traceback
from pathlib import Path

from . import case_kinds, expressions, identities, large, round_trips
from .context import Context, RefusedError, Smaller


def _abort(_: Context) -> None:
    os.abort()


def _hang_forever(_: Context) -> None:
    threading.Event().wait()


KINDS = {
    "passing": (case_kinds.passing, 10),
    "sorting": (case_kinds.sorting, 20),
    "joining": (case_kinds.joining, 20),
    "uniting": (case_kinds.uniting, 8),
    "grouping": (case_kinds.grouping, 20),
    "merging": (identities.merging, 4),
    "whole groups": (identities.whole_groups, 4),
    "again": (identities.again, 2),
    "computing": (expressions.computing, 20),
    "binary": (round_trips.binary, 15),
    "text": (round_trips.text, 12),
    "unreadable": (round_trips.unreadable, 5),
    "strangers": (round_trips.foreign, 12),
    "large": (large.large, 1),
    # For the tests of the fuzzer itself; never drawn at random.
    "aborting": (_abort, 0),
    "hanging": (_hang_forever, 0),
}
"""The kinds of cases, and their relative frequencies."""


def kind_of(seed: int) -> str:
    """The kind of the case of a seed."""
    weights = [weight for _, weight in KINDS.values()]
    return random.Random(f"kind {seed}").choices(list(KINDS), weights)[0]


def run(seed: int, kind: str | None = None, smaller: Smaller | None = None) -> dict[str, str]:
    """Runs a case; returns its kind, and its failure if any."""
    kind = kind or kind_of(seed)
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{seed}-"))
    context = None
    try:
        context = Context(seed, folder, smaller or Smaller())
        KINDS[kind][0](context)
    except RefusedError as refused:
        return {"kind": kind, "outcome": "refused", "why": str(refused)}
    except Exception as error:
        told = "\n".join(context.told if context else [])
        last = "".join(traceback.format_exception(error)[-8:])
        return {"kind": kind, "outcome": "wrong", "why": f"{told}\n{last}"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"kind": kind, "outcome": "right", "why": ""}
