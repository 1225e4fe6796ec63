"""What the drivers share: they open their cluster once, and then do a piece of work for each line.

A line of the input is `{"work": "sort", ...}` with what the work takes; the answer is a line that
begins with `ANSWER`, and has the seconds it took. So a cluster is warm when it is measured, and can
be made slow between two pieces of work.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

ANSWER = "@answer "


def settings() -> dict[str, Any]:
    """What the program that starts a driver tells it."""
    told: dict[str, Any] = json.loads(sys.argv[1])
    return told


def serve(works: dict[str, Callable[..., None]]) -> None:
    """Until the input ends."""
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
