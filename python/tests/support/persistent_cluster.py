"""A persistent cluster of real processes, joined by TCP and TLS."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import euphrates as eu

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))
PATIENCE = 180.0
"""A timeout that only a hang exceeds."""
SOON = 10.0
"""A timeout for immediate actions on a loaded machine."""


class PersistentCluster:
    """A keeper and its workers."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.token = folder / "token"
        subprocess.run([EUPHRATES, "token", self.token], check=True, timeout=PATIENCE)
        token = ["--token-file", str(self.token)]
        keep = [EUPHRATES, "cluster", "--listen", "127.0.0.1:0", *token]
        self.keeper = subprocess.Popen(keep, stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout is not None
        self.address = self.keeper.stdout.readline().split()[-1]
        self.workers = {}
        for number in range(workers):
            label = "even" if number % 2 == 0 else "odd"
            name = f"w{number}"
            join = [EUPHRATES, "worker", "--name", name, "--join", self.address, *token]
            self.workers[name] = subprocess.Popen([*join, "--label", label], cwd=folder)
            # Waits, so that workers join in order.
            assert self.keeper.stdout.readline() == f"{name} has joined\n"
        self.where = ["--cluster", f"at:{self.address}", *token]

    def command(self, command: str, *words: str) -> list[str]:
        return [EUPHRATES, command, *self.where, *words]

    def run(self, command: str, *words: str, **options: object) -> subprocess.CompletedProcess:
        told = dict(capture_output=True, timeout=PATIENCE, text=True) | options
        return subprocess.run(self.command(command, *words), **told)

    def launch(self, script: str, *words: str, **options: object) -> subprocess.CompletedProcess:
        return self.run("launch", *words, "--", "sh", "-c", script, **options)

    def begin(self, script: str, *words: str) -> subprocess.Popen:
        """Launches programs that each print `ready`, and waits for that."""
        launch = self.command("launch", *words, "--", "sh", "-c", script)
        begun = subprocess.Popen(launch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert begun.stdout is not None
        for _ in self.workers:
            assert begun.stdout.readline().endswith("ready\n")
        return begun

    def ps(self) -> list[dict]:
        listed = self.run("ps", "--json")
        assert listed.returncode == 0, listed.stderr
        return json.loads(listed.stdout)

    def python(self) -> eu.Cluster:
        return eu.Cluster.at(self.address, token_file=self.token)

    def close(self) -> None:
        for process in [*self.workers.values(), self.keeper]:
            process.terminate()
        for process in [*self.workers.values(), self.keeper]:
            process.wait(PATIENCE)
        assert self.keeper.stdout is not None
        self.keeper.stdout.close()
