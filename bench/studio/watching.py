"""The cost of watching a run: the same flow runs unwatched and watched, in turns. Both times are
those of the run's report.

The watcher is either the studio or a notebook's view. In the studio, one tab reads events, another
does not, and a third samples rows of a queue each second; in process or on worker processes. The
notebook's view runs in a real kernel, whose page answers like a browser's (`make .venv/.test
.venv/.bench` installs the kernel).

Results are medians over the rounds: the ratio of a watched run to the two unwatched runs beside it,
and, as the noise, the ratio of the slower of these two to the faster. The claim is that watching
costs at most 1 %.

    python bench/studio/watching.py --rounds 15 --keep
    python bench/studio/watching.py --cluster processes:2 --keep
    python bench/studio/watching.py --notebook --keep
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"
EUPHRATES = [sys.executable, "-m", "euphrates"]
COST_MAX = 0.01
QUEUE = 1
"""The queue whose rows are sampled."""
Run = Callable[[], float]
"""Runs the flow once; returns its seconds."""


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "flow.json").write_text(json.dumps(document(int(options.rows))))
        with in_notebook(root) if options.notebook else in_studio(root, options.cluster) as ways:
            outcome = measured(*ways, options.rounds)
    print(json.dumps(outcome, indent=2))
    if options.keep:
        by = "-notebook" if options.notebook else "-cluster" if options.cluster else ""
        path = RESULTS / f"{date.today().isoformat()}-watching{by}.json"
        path.write_text(json.dumps(outcome, indent=1) + "\n")
    if outcome["watched"] > 1 + COST_MAX:
        sys.exit(f"watched runs take {outcome['watched']:.3f} times as long")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument("--cluster", help="what the studio runs the flow on, like processes:2")
    parser.add_argument("--notebook", action="store_true", help="watched by eu.studio(flow)")
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


def measured(unwatched: Run, watched_run: Run, rounds: int) -> dict[str, Any]:
    alone: list[float] = []
    again: list[float] = []
    watched: list[float] = []
    for number in range(rounds + 1):
        ways = [(alone, unwatched), (watched, watched_run), (again, unwatched)]
        # Alternates the order, so that load at the start of a round affects neither way in
        # particular.
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


@contextmanager
def in_studio(root: Path, cluster: str | None) -> Iterator[tuple[Run, Run]]:
    """The flow by the command line alone, and by a studio."""
    flow = json.loads((root / "flow.json").read_text())

    def by_itself() -> float:
        given = [f"--cluster={cluster}"] if cluster else []
        command = [*EUPHRATES, "--log", "json", "run", "flow.json", *given]
        done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        events = (json.loads(line) for line in done.stderr.splitlines() if line.startswith("{"))
        return next(float(e["report"]["seconds"]) for e in events if e["event"] == "report")

    def by_studio() -> float:
        run = ask("POST", "/api/runs", {"document": flow, "cluster": cluster})["id"]
        seen = 0
        while (told := ask("GET", f"/api/runs/{run}"))["state"] == "running":
            seen = max(seen, len(ask("GET", f"/api/runs/{run}/rows?queue={QUEUE}").get("rows", ())))
            time.sleep(1)
        assert told["state"] == "done" and seen > 0, told
        return float(told["report"]["seconds"])

    with studio(root) as ask:
        yield by_itself, by_studio


@contextmanager
def in_notebook(root: Path) -> Iterator[tuple[Run, Run]]:
    """The flow by `go`, and by a view, in one kernel."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(root))

    def alone() -> float:
        printed: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            printed.append(message["content"].get("text", ""))

        client.execute_interactive("print(seconds(flow.go(progress=False)))", output_hook=hear)
        return float("".join(printed))

    def watched() -> float:
        client.execute("view = eu.studio(flow); view.run()")
        while True:
            message = client.get_iopub_msg(timeout=60)
            if message["msg_type"] != "comm_msg":
                continue
            content = message["content"]
            state = content["data"].get("state", {})
            if state.get("progress"):
                seen = {"method": "custom", "content": {"seen": True}}
                told = {"comm_id": content["comm_id"], "data": seen}
                client.shell_channel.send(client.session.msg("comm_msg", told))
            status = json.loads(state.get("status") or "{}")
            if status.get("state") == "done":
                return float(status["report"]["seconds"])

    try:
        client.execute_interactive(
            "import json, euphrates as eu\n"
            "seconds = lambda report: json.loads(report.to_json())['seconds']\n"
            "flow = eu.Flow.load('flow.json')"
        )
        yield alone, watched
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


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
