"""Shared by the drivers: each opens its cluster once, and then executes a piece of work per input
line.

An input line is `{"work": "sort", ...}` with the arguments of the work; the answer is a line that
begins with `ANSWER` and contains the seconds. The measured cluster is therefore warm, and can be
slowed between two pieces of work.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

ANSWER = "@answer "


def settings() -> dict[str, Any]:
    """The settings from the program that starts a driver."""
    told: dict[str, Any] = json.loads(sys.argv[1])
    return told


def serve(works: dict[str, Callable[..., None]]) -> None:
    """Serves requests until the input ends."""
    answer({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        work = works[asked.pop("work")]
        began = time.perf_counter()
        try:
            work(**asked)
        except Exception as error:
            answer({"failed": f"{type(error).__name__}: {error}"[-500:]})
            continue
        answer({"seconds": time.perf_counter() - began})


def answer(said: dict[str, Any]) -> None:
    print(f"{ANSWER}{json.dumps(said)}", flush=True)
