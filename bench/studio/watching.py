"""What it costs a run to be watched: the same flow run by the command line alone, and by a studio
whose events one tab reads and another does not, in turns. Both times are those of the run's report.

Medians over the rounds come out: how many times as long a watched run takes as the two beside it
that are not, and, as what chance makes of it, the slower of these two as the faster. The claim is
that watching costs at most 1 %.

    python bench/studio/watching.py --rounds 15 --keep
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"
EUPHRATES = [sys.executable, "-m", "euphrates"]
COST_MAX = 0.01


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        flow = document(options.rows)
        (root / "flow.json").write_text(json.dumps(flow))
        with studio(root) as ask:
            outcome = measured(root, flow, ask, options.rounds)
    print(json.dumps(outcome, indent=2))
    if options.keep:
        path = RESULTS / f"{date.today().isoformat()}-watching.json"
        path.write_text(json.dumps(outcome, indent=1) + "\n")
    if outcome["watched"] > 1 + COST_MAX:
        sys.exit(f"watched runs take {outcome['watched']:.3f} times as long")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=1_000_000_000)
    parser.add_argument("--keep", action="store_true", help="keep the result under bench/results")
    return parser.parse_args()


def document(rows: int) -> dict[str, Any]:
    modules = [
        {"id": "generate_1", "module": "generate", "config": {"what": "integers", "rows": rows}},
        {"id": "filter_1", "module": "filter", "config": {"where": "n % 2 = 0"}},
        {"id": "count_1", "module": "count", "config": {}},
        {"id": "collect_1", "module": "collect", "config": {}},
    ]
    ids = [str(module["id"]) for module in modules]
    queues = [{"from": a, "to": b} for a, b in zip(ids, ids[1:])]
    return {"euphrates": 1, "name": "watched", "modules": modules, "queues": queues}


def measured(root: Path, flow: dict[str, Any], ask: Any, rounds: int) -> dict[str, Any]:
    alone, again, watched = [], [], []
    for number in range(rounds + 1):
        ways = [
            (alone, lambda: by_itself(root)),
            (watched, lambda: by_studio(flow, ask)),
            (again, lambda: by_itself(root)),
        ]
        # What a machine does at the beginning of a round is nobody's in particular.
        for seconds, run in ways[number % 3 :] + ways[: number % 3]:
            seconds.append(run())
    # The first round warms up.
    pairs = list(zip(alone[1:], again[1:], watched[1:]))
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "rounds": rounds,
        "watched": statistics.median(2 * c / (a + b) for a, b, c in pairs),
        "chance": statistics.median(max(a, b) / min(a, b) for a, b, _ in pairs),
        "seconds": {"alone": alone, "again": again, "watched": watched},
    }


def by_itself(root: Path) -> float:
    command = [*EUPHRATES, "--log", "json", "run", "flow.json"]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    events = (json.loads(line) for line in done.stderr.splitlines() if line.startswith("{"))
    return next(float(e["report"]["seconds"]) for e in events if e["event"] == "report")


def by_studio(flow: dict[str, Any], ask: Any) -> float:
    run = ask("POST", "/api/runs", {"document": flow})["id"]
    while (told := ask("GET", f"/api/runs/{run}"))["state"] == "running":
        time.sleep(0.5)
    return float(told["report"]["seconds"])


@contextmanager
def studio(root: Path) -> Iterator[Any]:
    home = root / "home"
    process = subprocess.Popen(
        [*EUPHRATES, "studio", "--no-open", "--port", "0", "--root", str(root)],
        env={**os.environ, "EUPHRATES_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().strip().rsplit(":", 1)[1])
    headers = {
        "Authorization": f"Bearer {(home / 'studio' / f'{port}.token').read_text()}",
        "Origin": f"http://127.0.0.1:{port}",
        "X-Euphrates": "1",
        "Content-Type": "application/json",
    }

    def connected() -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", port)

    def ask(method: str, path: str, body: Any = None) -> Any:
        connection = connected()
        connection.request(method, path, body and json.dumps(body), headers)
        return json.loads(connection.getresponse().read())

    def read() -> None:
        connection = connected()
        connection.request("GET", "/api/events", headers=headers)
        response = connection.getresponse()
        while response.readline():
            pass

    deaf = connected()
    deaf.request("GET", "/api/events", headers=headers)
    threading.Thread(target=read, daemon=True).start()
    try:
        yield ask
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
