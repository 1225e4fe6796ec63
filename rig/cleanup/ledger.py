"""A write-ahead ledger of what this process makes and has not yet undone.

The ledger lies under /run/euphrates-rig/<pid>; without root, in a folder under /tmp. While it has
entries, a guardian process watches: when the caller ends, also by kill -9, the guardian undoes the
rest. If the guardian died too, `reclaim` undoes the rest at the next start.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

from ..features import missing_for_ledger
from ..tools import MARK, RigError
from . import undo

USER = os.geteuid()
STATE = Path("/run/euphrates-rig" if USER == 0 else f"/tmp/euphrates-rig-{USER}")
PACKAGES = Path(__file__).resolve().parents[2]


class Ledger:
    """The entries of one process. Forked children do not share it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.folder = STATE / str(self.pid)
        self.lock = threading.RLock()
        self.entries: dict[int, tuple[str, dict[str, str]]] = {}
        self.last = 0
        self.guardian: subprocess.Popen[str] | None = None

    def name(self) -> str:
        """A name that no other object of the rig has."""
        with self.lock:
            self.last += 1
            return f"{self.pid}-{self.last}"

    def record(self, kind: str, **facts: str) -> int:
        """Writes down what is about to be made; returns the number to undo it by."""
        with self.lock:
            if self.guardian is None or self.guardian.poll() is not None:
                self.watch()
            self.last += 1
            self.append([self.last, kind, facts])
            self.entries[self.last] = (kind, facts)
            return self.last

    def undo(self, number: int) -> None:
        """Undoes an entry once. After the last entry the guardian ends."""
        with self.lock:
            if os.getpid() != self.pid or number not in self.entries:
                return
            kind, facts = self.entries[number]
            undo.KINDS[kind](facts)
            self.append([number])
            del self.entries[number]
            if not self.entries:
                self.dismiss()

    def append(self, line: list[object]) -> None:
        with open(self.folder / "ledger", "a") as file:
            file.write(json.dumps(line) + "\n")

    def watch(self) -> None:
        """Starts the guardian and waits until it watches."""
        why = missing_for_ledger()
        if why is not None:
            raise RigError(why)
        STATE.mkdir(mode=0o700, exist_ok=True)
        if not is_own(STATE):
            raise RigError(f"{STATE} is another user's, or open to others")
        reclaim()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "owner").write_text(f"{self.pid} {undo.started(self.pid)}")
        own = os.pidfd_open(self.pid)
        try:
            # Without the mark of an enclosing rig, which would kill the guardian before its work is
            # done.
            environment = {key: text for key, text in os.environ.items() if key != MARK}
            self.guardian = subprocess.Popen(
                [sys.executable, "-m", "rig.cleanup.guardian", str(self.folder), str(own)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**environment, "PYTHONPATH": str(PACKAGES)},
                cwd="/",
                pass_fds=[own],
                start_new_session=True,
                text=True,
            )
        finally:
            os.close(own)
        assert self.guardian.stdout is not None
        if self.guardian.stdout.readline() != "watching\n":
            raise RigError("the guardian did not start")

    def dismiss(self) -> None:
        guardian, self.guardian = self.guardian, None
        if guardian is not None:
            guardian.communicate("bye")
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            STATE.rmdir()


_ledger: Ledger | None = None


def ledger() -> Ledger:
    """The ledger of this process."""
    global _ledger
    if _ledger is None or _ledger.pid != os.getpid():
        _ledger = Ledger()
    return _ledger


def standing(folder: Path) -> dict[int, tuple[str, dict[str, str]]]:
    """The entries of a ledger that are not undone. A truncated last line was never acted on."""
    entries: dict[int, tuple[str, dict[str, str]]] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / "ledger").read_text().splitlines():
            try:
                number, *entry = json.loads(line)
            except ValueError:
                break
            if entry:
                entries[number] = (entry[0], entry[1])
            else:
                entries.pop(number, None)
    return entries


def undo_all(folder: Path) -> list[str]:
    """Undoes every entry of a dead process's ledger; returns the failures."""
    backwards = sorted(standing(folder).items(), reverse=True)
    limits = [(number, entry) for number, entry in backwards if entry[0] == "limits"]
    others = [entry for _, entry in backwards if entry[0] != "limits"]
    # Limits first: requests queued at a slow disk delay the end of processes and file systems.
    # Limits are undone only once: later the device may belong to another process.
    for number, entry in limits:
        undo_each([entry])
        with open(folder / "ledger", "a") as file:
            file.write(json.dumps([number]) + "\n")
    # Twice, because a tool that the caller had just started may have made its object in between.
    failed = []
    for _ in range(2):
        failed = undo_each([("processes", {"mark": folder.name}), *others])
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            STATE.rmdir()
    return failed


def undo_each(entries: list[tuple[str, dict[str, str]]]) -> list[str]:
    """Undoes each entry, continues after failures, and returns them all."""
    failed = []
    for kind, facts in entries:
        try:
            undo.KINDS[kind](facts)
        except (RigError, OSError) as error:
            failed.append(f"{kind}: {error}")
    return failed


def reclaim() -> list[str]:
    """Undoes what dead processes with dead guardians left; returns their process ids."""
    found = []
    for folder in sorted(STATE.glob("*")) if is_own(STATE) else []:
        with contextlib.suppress(FileNotFoundError), open(folder / "lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # its guardian is running
            if not is_owned(folder):
                found.append(folder.name)
                for failure in undo_all(folder):
                    warnings.warn(f"left by process {folder.name}: {failure}", stacklevel=2)
    return found


def is_owned(folder: Path) -> bool:
    """Whether the process of a ledger is alive; a ledger without an owner is being made."""
    try:
        pid, started = (folder / "owner").read_text().split()
    except (FileNotFoundError, ValueError):
        return undo.started(int(folder.name)) is not None
    return undo.started(int(pid)) == started


def is_own(state: Path) -> bool:
    """Whether only this user can have written the entries: everybody may write to /tmp."""
    try:
        facts = state.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == USER and not facts.st_mode & 0o022
