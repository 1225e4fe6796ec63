"""Mounts of striped files for tests, and why there can be none."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

WAIT = 30.0
EUPHRATES = str(Path(sys.executable).with_name("euphrates"))


def missing() -> str | None:
    """Why nothing can be mounted here."""
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error.strerror}"
    os.close(device)
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "neither root nor fusermount3"
    return None


class Mount:
    """A process that mounts a home at a folder."""

    def __init__(self, home: Path, folder: Path, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        command = [EUPHRATES, "mount", str(folder), "--home", str(home)]
        self.process = subprocess.Popen(
            [*command, *options], stderr=subprocess.PIPE, text=True, cwd=folder.parent
        )
        self.messages: list[str] = []
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for("is mounted at")

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.messages.extend(self.process.stderr)

    def wait_for(self, text: str) -> None:
        until(lambda: text in "".join(self.messages) or not self._reader.is_alive())
        assert text in "".join(self.messages), self.messages

    def end(self) -> int:
        """The exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT)
        # Whatever it was mounted at, and however it ended.
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=False)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextlib.contextmanager
def mounted(home: Path, folder: Path, *options: str) -> Iterator[Mount]:
    mount = Mount(home, folder, *options)
    try:
        yield mount
    finally:
        mount.kill()
