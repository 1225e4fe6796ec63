"""Shared by the figures of the mount: a mount of a home, in a process of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SECONDS_MAX = 60.0


@contextlib.contextmanager
def mounted(home: Path, folder: Path) -> Iterator[Path]:
    """The folder at which the home is mounted; the process is in the caller's control group, so
    that the rates of the rig's disks hold for it.
    """
    folder.mkdir()
    program = str(Path(sys.executable).with_name("euphrates"))
    command = [program, "mount", str(folder), "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            # Warnings may come first.
            said: list[str] = []
            while not said or "is mounted at" not in said[-1]:
                said.append(process.stderr.readline())
                if not said[-1]:
                    raise RuntimeError(f"`euphrates mount` did not mount: {''.join(said)}")
            yield folder
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_MAX)
            process.kill()
            subprocess.run(["umount", "-l", folder], capture_output=True, check=False)


def missing() -> str | None:
    """Why nothing can be mounted here."""
    try:
        with open("/dev/fuse", "r+b", buffering=0):
            return None
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error.strerror}"
