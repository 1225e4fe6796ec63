"""Faults at system calls: at the n-th rename, link, unlink, fsync ... of a whole process tree.

A program changes files through a handful of system calls. A supervisor (seccomp user notifications)
stops each of them, counts it, and lets it pass, fails it, or kills the program before or after it.
Faults are therefore placed by count, not by time, in every process that the program starts. Calls
made without the C library are caught too.

    with rig.Syscalls([folder]) as syscalls:
        calm = syscalls.run(command)
        for call in calm.calls:
            killed = syscalls.run(command, rig.Fault(call.kind, call.nth, "kill-before"))
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..cleanup import undo
from ..cleanup.ledger import ledger
from ..features import require
from ..tools import MARK, RigError
from . import seccomp_notify
from .seccomp_notify import Call

TRAPPED = Path(__file__).with_name("seccomp_launcher.py")
CHANGING = ("rename", "link", "unlink", "fsync", "mkdir")
PASS = "pass"
KILLS = ("kill-before", "kill-after", "kill-one-before", "kill-one-after")


@dataclass(frozen=True)
class Fault:
    """The action at the n-th call of a kind, or at the n-th of all calls if the kind is `any`.

    The action is one of `KILLS` or an error such as `EIO`. `kill-before` and `kill-after` send
    SIGKILL to every process of the tree, `kill-one-before` and `kill-one-after` to the calling
    process. With `onwards` all later calls of the kind fail too, as on a full disk.
    """

    kind: str
    nth: int
    action: str
    onwards: bool = False

    def __post_init__(self) -> None:
        if self.kind != "any" and self.kind not in seccomp_notify.KINDS:
            raise ValueError(
                f"no such kind of call: {self.kind} ({', '.join(seccomp_notify.KINDS)})"
            )
        if self.action not in KILLS and not hasattr(errno, self.action):
            raise ValueError(f"no such action: {self.action} ({', '.join(KILLS)} or an errno)")

    def __call__(self, call: Call) -> str:
        nth = call.number if self.kind == "any" else call.nth
        is_of_kind = self.kind in ("any", call.kind)
        is_now = nth == self.nth or (self.onwards and nth > self.nth)
        return self.action if is_of_kind and is_now else PASS

    def __str__(self) -> str:
        return f"{self.kind}:{self.nth}:{self.action}"


@dataclass
class Run:
    """The result of a command: its calls in counting order, and the calls that a fault hit."""

    calls: list[Call] = field(default_factory=list)
    hit: list[Call] = field(default_factory=list)
    returncode: int = 0
    stdout: str = ""
    stderr: str = ""

    def counts(self) -> dict[str, int]:
        """The number of calls of each kind."""
        return dict(Counter(call.kind for call in self.calls))

    def __str__(self) -> str:
        hit = {call.number for call in self.hit}
        return "\n".join(f"{'>' if one.number in hit else ' '} {one}" for one in self.calls)


class Syscalls:
    """Runs commands under supervision. Only calls whose paths or descriptors lie below one of the
    folders are counted (all calls, if none is given), and only calls of the `kinds` are trapped.
    """

    def __init__(self, below: Sequence[Path | str] = (), kinds: Sequence[str] = CHANGING) -> None:
        unknown = set(kinds) - set(seccomp_notify.KINDS)
        if unknown:
            raise ValueError(f"no such kind of call: {', '.join(sorted(unknown))}")
        self._below = tuple(os.path.realpath(folder) for folder in below)
        self._kinds = tuple(kinds)
        self._made = contextlib.ExitStack()
        self._mark = ""
        self._runs = 0

    def __enter__(self) -> Syscalls:
        require("syscalls")
        book = ledger()
        self._mark = book.name()
        self._made.callback(book.undo, book.record("processes", mark=self._mark))
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def run(
        self,
        command: Sequence[Path | str],
        fault: Callable[[Call], str] | None = None,
        timeout: float = 120,
        **options: Any,
    ) -> Run:
        """Runs the command until every process that it has started has ended.

        `fault` decides for each call: it returns `pass` or an action of `Fault`. The other options
        are those of `subprocess.Popen`. The command's output is captured.
        """
        if not self._mark:
            raise RigError("Syscalls is not there: use it in a `with`")
        self._runs += 1
        # Its mark extends the ledger's, so that a guardian kills it too.
        mark = f"{self._mark}-{self._runs}"
        environment = {**(options.pop("env", None) or os.environ), MARK: mark}
        run = Run()
        with launched(command, self._kinds, env=environment, **options) as (process, listener):
            tree = Tree(run, listener, mark, self._below, fault or (lambda call: PASS))
            try:
                with tree.supervised():
                    run.stdout, run.stderr = process.communicate(timeout=timeout)
                    run.returncode = process.returncode
                    tree.wait(timeout)
            finally:
                undo.processes({"mark": mark})
        return run


@contextlib.contextmanager
def launched(
    command: Sequence[Path | str], kinds: Sequence[str], **options: Any
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command, stopped before exec, and the descriptor that receives its calls."""
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as made:
        made.enter_context(ours)
        with theirs:
            numbers = [",".join(map(str, found)) for found in seccomp_notify.numbers(kinds)]
            words = [sys.executable, "-I", "-S", str(TRAPPED), str(theirs.fileno()), *numbers]
            process = subprocess.Popen(
                [*words, "--", *map(str, command)],
                stdin=options.pop("stdin", subprocess.DEVNULL),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[theirs.fileno(), *options.pop("pass_fds", ())],
                **options,
            )
        made.enter_context(process)
        made.callback(process.kill)
        received = socket.recv_fds(ours, 1, 1)[1]
        if not received:
            raise RigError(f"no filter could be installed: {process.communicate()[1]}")
        made.callback(os.close, received[0])
        yield process, received[0]


class Tree:
    """The supervisor of one process tree, in a thread of its own."""

    def __init__(
        self,
        run: Run,
        listener: int,
        mark: str,
        below: tuple[str, ...],
        decide: Callable[[Call], str],
    ) -> None:
        self._run, self._listener, self._mark = run, listener, mark
        self._below, self._decide = below, decide
        self._counts: Counter[str] = Counter()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._supervise, daemon=True)

    @contextlib.contextmanager
    def supervised(self) -> Iterator[None]:
        """Answers calls. On an early exit it kills the tree."""
        self._thread.start()
        try:
            yield
        finally:
            undo.processes({"mark": self._mark})
            self._thread.join()
            if self._failed is not None:
                raise self._failed

    def wait(self, seconds: float) -> None:
        """Waits until the tree has no process left."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise RigError("the command has ended, but not all processes that it has started")

    def _supervise(self) -> None:
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        try:
            while True:
                ((_, event),) = waiting.poll()
                if not event & select.POLLIN:
                    return  # no process has the filter any more
                asked = seccomp_notify.receive(self._listener)
                if asked is not None:
                    self._answer(asked)
        except BaseException as error:
            self._failed = error
            undo.processes({"mark": self._mark})

    def _answer(self, asked: seccomp_notify.Asked) -> None:
        """Answers a trapped call, and counts it if it matches."""
        kind, paths = asked.kind, asked.paths
        if self._below and not any(is_below(path, self._below) for path in paths):
            return seccomp_notify.let_pass(self._listener, asked)
        self._counts[kind] += 1
        number = len(self._run.calls) + 1
        call = Call(number, kind, self._counts[kind], asked.name, asked.pid, paths)
        self._run.calls.append(call)
        action = self._decide(call)
        if action == PASS:
            return seccomp_notify.let_pass(self._listener, asked)
        self._run.hit.append(call)
        if action not in KILLS:
            return seccomp_notify.fail(self._listener, asked, getattr(errno, action))
        if action.endswith("-after"):
            # The supervisor makes the call, so it is done while its thread is still stopped.
            asked.perform()
        if action.startswith("kill-one-"):
            undo.kill(asked.pid)
        else:
            undo.processes({"mark": self._mark})


def is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
