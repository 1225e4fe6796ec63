"""A studio server, and the requests that a page sends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

WAIT_SECONDS = 60


class Studio:
    """A studio server, and the requests of a page."""

    def __init__(self, root: Path, home: Path, *options: str) -> None:
        self.home = home
        command = [sys.executable, "-m", "euphrates", "studio", "--no-open", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--root", str(root), *options],
            env={**os.environ, "EUPHRATES_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        first, self.link = (self.process.stdout.readline().strip() for _ in range(2))
        self.port = int(first.rsplit(":", 1)[1])
        self.token = (home / "studio" / f"{self.port}.token").read_text()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, self.headers())
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, answer
        return answer

    def headers(self) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.token}",
            "Origin": f"http://127.0.0.1:{self.port}",
            "X-Euphrates": "1",
            "Content-Type": "application/json",
        }

    @contextlib.contextmanager
    def events(self) -> Iterator[Iterator[bytes]]:
        """The lines of the event stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        connection.request("GET", "/api/events", headers=self.headers())
        with contextlib.closing(connection):
            yield iter(connection.getresponse().readline, b"")

    def run(self, document: dict[str, Any], **order: Any) -> str:
        identity = self.ask("POST", "/api/runs", {"document": document, **order})["id"]
        assert isinstance(identity, str)
        return identity

    def until(self, identity: str, wanted: Callable[[Any], Any]) -> Any:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            run = self.ask("GET", f"/api/runs/{identity}")
            if wanted(run):
                return run
            time.sleep(0.05)
        raise AssertionError(run)

    def ended(self, identity: str) -> Any:
        return self.until(identity, lambda run: run["state"] != "running")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(WAIT_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


def flow(*modules: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    ids = [f"{name}_{number}" for number, (name, _) in enumerate(modules)]
    placed = [
        {"id": identity, "module": name, "config": config}
        for identity, (name, config) in zip(ids, modules)
    ]
    queues = [{"from": a, "to": b} for a, b in zip(ids, ids[1:])]
    return {"euphrates": 1, "name": "tried", "modules": placed, "queues": queues, **more}


ENDLESS = flow(
    ("generate", {"what": "integers", "rows": 1 << 40}),
    ("filter", {"where": "n % 2 = 0"}),
    ("count", {}),
    ("collect", {}),
)
