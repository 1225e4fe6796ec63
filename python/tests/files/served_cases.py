"""A cluster of real processes whose workers serve disks, for tests of striped files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import euphrates as eu

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))
PATIENCE = 120.0
"""A timeout that only a hang exceeds."""
CATALOG = "catalog"
"""The worker that serves the catalog, and no disk."""


class ServedCluster:
    """A keeper, a worker with the catalog, and workers `w0` and on with a disk each."""

    def __init__(self, folder: Path, disks: int, *options: str) -> None:
        self.folder = folder
        self.token = folder / "token"
        subprocess.run([EUPHRATES, "token", self.token], check=True, timeout=PATIENCE)
        self.options = options
        keep = [EUPHRATES, "cluster", "--listen", "127.0.0.1:0", *self._access()]
        self.keeper = subprocess.Popen(keep, stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout is not None
        self.address = self.keeper.stdout.readline().split()[-1]
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.start(CATALOG, [], "--serve-catalog")
        for number in range(disks):
            self.start(f"w{number}", [f"d{number}"])

    def _access(self) -> list[str]:
        return ["--token-file", str(self.token), *self.options]

    def start(self, name: str, disks: list[str], *options: str) -> None:
        """Starts a worker, which serves disks of these names, and waits until it has joined."""
        home = self.folder / f"home-{name}"
        home.mkdir(exist_ok=True)
        named = [{"name": disk, "folder": str(self.disk(disk))} for disk in disks]
        (home / "disks.json").write_text(json.dumps(named))
        join = [EUPHRATES, "worker", "--name", name, "--join", self.address, "--serve", str(home)]
        self.workers[name] = subprocess.Popen([*join, *self._access(), *options], cwd=self.folder)
        assert self.keeper.stdout is not None
        while self.keeper.stdout.readline() != f"{name} has joined\n":
            assert self.keeper.poll() is None

    def disk(self, name: str) -> Path:
        """The folder of a disk at its worker."""
        return self.folder / name

    @property
    def cluster(self) -> str:
        return f"at:{self.address}"

    def home(self) -> str:
        """The home of this process's client."""
        security = "token" if "token" in self.options else "tls"
        return eu.striped_home(self.cluster, token_file=self.token, channel_security=security)

    def command(self, *words: str) -> list[str]:
        return [EUPHRATES, *words, "--cluster", self.cluster, *self._access()]

    def run(self, *words: str, client: str = "client", code: int = 0) -> str:
        """Runs a command of a client with a home of its own, and returns all that it prints."""
        environment = {**os.environ, "EUPHRATES_HOME": str(self.folder / client)}
        done = subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
            cwd=self.folder,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def kill(self, name: str) -> None:
        self.workers[name].kill()
        self.workers[name].wait(PATIENCE)

    def stop(self, name: str) -> None:
        """Stops a worker, which neither ends nor answers."""
        self.workers[name].send_signal(signal.SIGSTOP)

    def close(self) -> None:
        for process in [*self.workers.values(), self.keeper]:
            process.kill()
        for process in [*self.workers.values(), self.keeper]:
            process.wait(PATIENCE)
        assert self.keeper.stdout is not None
        self.keeper.stdout.close()


@contextlib.contextmanager
def served(folder: Path, disks: int, *options: str) -> Iterator[ServedCluster]:
    cluster = ServedCluster(folder, disks, *options)
    try:
        yield cluster
    finally:
        cluster.close()
