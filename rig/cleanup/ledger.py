"""What this process has made and not yet unmade: written down before it is made.

The ledger lies under /run/euphrates-rig/<pid>, and that of who is not root in a folder under /tmp.
As long as anything stands in it a guardian process watches: when the caller ends in whatever way,
kill -9 included, the guardian unmakes the rest. What a guardian could not, because it died too,
`reclaim` does at the next start.
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
    """The entries of one process. Its forked children share none of it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.folder = STATE / str(self.pid)
        self.lock = threading.RLock()
        self.entries: dict[int, tuple[str, dict[str, str]]] = {}
        self.last = 0
        self.guardian: subprocess.Popen[str] | None = None

    def name(self) -> str:
        """A name no other thing of the rig has."""
        with self.lock:
            self.last += 1
            return f"{self.pid}-{self.last}"

    def record(self, kind: str, **facts: str) -> int:
        """Writes down what is about to be made; returns the number to unmake it by."""
        with self.lock:
            if self.guardian is None or self.guardian.poll() is not None:
                self.watch()
            self.last += 1
            self.append([self.last, kind, facts])
            self.entries[self.last] = (kind, facts)
            return self.last

    def undo(self, number: int) -> None:
        """Unmakes an entry, once. With the last one the guardian goes, too."""
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
            # Not under a mark of a rig around this one, which would kill it before its work.
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
    """The entries of a ledger that are not unmade; a last line cut short was not acted on."""
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
    """Unmakes all that stands in a dead process's ledger; returns what could not be."""
    backwards = sorted(standing(folder).items(), reverse=True)
    limits = [(number, entry) for number, entry in backwards if entry[0] == "limits"]
    others = [entry for _, entry in backwards if entry[0] != "limits"]
    # Limits first: what waits at a slow disk holds up the end of processes and file systems. And
    # never again: the device may be somebody else's then.
    for number, entry in limits:
        undo_each([entry])
        with open(folder / "ledger", "a") as file:
            file.write(json.dumps([number]) + "\n")
    # Twice, for a tool the caller had only just begun may have made its thing in between.
    failed = []
    for _ in range(2):
        failed = undo_each([("processes", {"mark": folder.name}), *others])
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            STATE.rmdir()
    return failed


def undo_each(entries: list[tuple[str, dict[str, str]]]) -> list[str]:
    """Goes on after a failure; returns all of them."""
    failed = []
    for kind, facts in entries:
        try:
            undo.KINDS[kind](facts)
        except (RigError, OSError) as error:
            failed.append(f"{kind}: {error}")
    return failed


def reclaim() -> list[str]:
    """Unmakes what processes left whose guardian died, too; returns whose it was."""
    found = []
    for folder in sorted(STATE.glob("*")) if is_own(STATE) else []:
        with contextlib.suppress(FileNotFoundError), open(folder / "lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # its guardian is at work
            if not is_owned(folder):
                found.append(folder.name)
                for failure in undo_all(folder):
                    warnings.warn(f"left by process {folder.name}: {failure}", stacklevel=2)
    return found


def is_owned(folder: Path) -> bool:
    """Whether the process of a ledger is alive; one that has no owner yet is being made."""
    try:
        pid, started = (folder / "owner").read_text().split()
    except (FileNotFoundError, ValueError):
        return undo.started(int(folder.name)) is not None
    return undo.started(int(pid)) == started


def is_own(state: Path) -> bool:
    """Whether nobody else can have written there what is to be unmade: /tmp is everybody's."""
    try:
        facts = state.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == USER and not facts.st_mode & 0o022
