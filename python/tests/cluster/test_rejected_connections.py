"""Studio, workers and keepers log each rejected connection to standard error."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

WAIT_SECONDS = 60

COMMANDS = {
    "studio": ["studio", "--no-open", "--port", "0", "--root", "."],
    "worker": ["worker", "--listen", "127.0.0.1:0", "--token-file", "token"],
    "cluster": ["cluster", "--listen", "127.0.0.1:0", "--token-file", "token"],
}


@contextlib.contextmanager
def started(folder: Path, command: list[str]) -> Iterator[tuple[int, IO[str]]]:
    """The port and the standard error of a server in this folder."""
    euphrates = [sys.executable, "-m", "euphrates"]
    subprocess.run([*euphrates, "token", "token"], cwd=folder, check=True)
    with subprocess.Popen(
        [*euphrates, *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            first = process.stdout.readline().strip()
            yield int(first.rsplit(":", 1)[1]), process.stderr
        finally:
            process.terminate()


@pytest.mark.parametrize("name", COMMANDS)
def test_rejected_peer_is_logged_with_address_and_reason(name: str, tmp_path: Path) -> None:
    with started(tmp_path, COMMANDS[name]) as (port, log):
        address = ("127.0.0.1", port)
        with socket.create_connection(address, timeout=WAIT_SECONDS) as caller:
            own = caller.getsockname()[1]
            caller.sendall(b"GET /?code=secret HTTP/1.1\r\nHost: a\x1b[2J\r\n\r\n" + b"\0" * 64)
            line = log.readline()
        assert re.match(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ refused 127\.0\.0\.1:{own}\b", line)
        assert "secret" not in line and "\x1b" not in line and len(line) < 400, line
