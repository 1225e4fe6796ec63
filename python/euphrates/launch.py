"""Launches arbitrary programs on the workers of a cluster."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from . import _euphrates
from .errors import UsageError

_GRACE_SECONDS = 3.0
"""The wait for stopped programs; workers give up sooner."""


@dataclass(frozen=True)
class Line:
    """A line of a program's output.

    >>> lines = []
    >>> with eu.Cluster.processes(1) as cluster:
    ...     _ = cluster.launch(["echo", "Hello"], output=lines.append).wait()
    >>> lines
    [Line(worker='w0', name='w0', stream='stdout', data=b'Hello')]
    >>> lines[0].text
    'Hello'
    """

    worker: str
    name: str
    """The program: its worker's name, or `w1.2` if a worker has several."""
    stream: Literal["stdout", "stderr"]
    data: bytes
    """The line without its terminator."""

    @property
    def text(self) -> str:
        """The line as text; invalid UTF-8 is replaced."""
        return self.data.decode(errors="replace")


@dataclass(frozen=True)
class Process:
    """A program or a flow that runs at a worker.

    >>> with eu.Cluster.processes(1) as cluster:
    ...     launched = cluster.launch(["sleep", "60"])
    ...     process = cluster.ps()[0]
    >>> process.id == f"{launched.id}.0", process.kind, process.what
    (True, 'program', 'sleep 60')
    """

    id: str
    worker: str
    kind: Literal["program", "flow"]
    what: str
    """The program with its arguments, or the name of the flow."""
    state: Literal["running", "stopping", "ended"]
    """`ended`: its output has not been read completely."""
    host: str
    """The machine of the user who started it."""
    user: str
    """The user who started it."""
    started_by: int
    """The process id of the program that started it."""
    pid: int | None
    """Its own process id, if it has a process."""
    seconds: float
    cpu_seconds: float
    memory_bytes: int | None
    """Its resident memory; a flow's memory is part of its workers'."""


class Launched:
    """Programs started by `Cluster.launch`.

    They end when the last reference to it is dropped, when the cluster is closed, and with this
    program; unless they are detached.

    >>> with eu.Cluster.processes(2) as cluster:
    ...     launched = cluster.launch(["sh", "-c", "printf no >&2; exit 3"], on="w1")
    ...     _ = launched.wait()
    >>> launched.exit_codes, launched.stderr, launched.lost
    ({'w1': 3}, {'w1': b'no'}, {})
    """

    def __init__(
        self,
        native: _euphrates.Launch,
        cluster: object,
        output: Callable[[Line], object] | None,
        detach: bool,
    ) -> None:
        self._native = native
        # Keeps the cluster open: its opener closes it, or its last reference.
        self._cluster = cluster
        self._told = _Told(native, output)
        if detach:
            self._told.over.set()
            return
        self._end = weakref.finalize(self, _stop, native)
        self._reader = threading.Thread(
            target=self._told.read, name="euphrates-launch", daemon=True
        )
        self._reader.start()
        _running.add(self)

    @property
    def id(self) -> str:
        """Its name in `Cluster.ps`; its programs append their numbers after a dot."""
        return self._native.id

    @property
    def exit_codes(self) -> dict[str, int | None]:
        """Exit codes by program; below zero, the signal that ended it. `None` while it runs, and if
        its worker is lost.
        """
        return dict(zip(self._told.names, self._told.codes))

    @property
    def lost(self) -> dict[str, str]:
        """Programs whose workers are lost, and why."""
        return {self._told.names[rank]: why for rank, why in self._told.lost.items()}

    @property
    def stdout(self) -> dict[str, bytes]:
        """The standard output of each program, unless a function receives it."""
        return self._told.all("stdout")

    @property
    def stderr(self) -> dict[str, bytes]:
        """The standard error of each program, likewise."""
        return self._told.all("stderr")

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all have ended, at most `timeout` seconds; returns whether they have. Ctrl-C
        ends them. Raises what the output function raised.

        >>> with eu.Cluster.processes(1) as cluster:
        ...     launched = cluster.launch(["sleep", "60"])
        ...     launched.wait(timeout=0.01)
        False
        """
        self._native.check()
        try:
            over = self._told.over.wait(timeout)
        except BaseException:
            self.kill(at_once=True)
            raise
        if over and self._told.error is not None:
            raise self._told.error
        return over

    def kill(self, *, at_once: bool = False) -> None:
        """Ends all programs: by SIGINT, and two seconds later by SIGKILL; or by SIGKILL at once.

        >>> with eu.Cluster.processes(1) as cluster:
        ...     launched = cluster.launch(["sleep", "60"])
        ...     launched.kill(at_once=True)
        ...     _ = launched.wait()
        >>> launched.exit_codes
        {'w0': -9}
        """
        self._native.stop(at_once)

    def feed(self, data: bytes) -> bool:
        """Sends this to the standard input of all programs of a launch with `stdin=True`; `b""` is
        the end. Waits while a program does not read. Returns whether any program may still read.

        >>> with eu.Cluster.processes(1) as cluster:
        ...     launched = cluster.launch(["cat"], stdin=True)
        ...     _ = launched.feed(b"Ur and Uruk"), launched.feed(b"")
        ...     _ = launched.wait()
        >>> launched.stdout
        {'w0': b'Ur and Uruk'}
        """
        return self._native.feed(data)

    def __repr__(self) -> str:
        codes = ", ".join(f"{name}: {code}" for name, code in self.exit_codes.items())
        return f"<launch {self.id} ({codes})>"


class _Told:
    """The state of a launch. A thread fills it in, and holds no reference to its `Launched`."""

    def __init__(self, native: _euphrates.Launch, output: Callable[[Line], object] | None) -> None:
        self.native = native
        self.output = output
        self.workers, self.names = zip(*native.places())
        self.codes: list[int | None] = [None] * len(self.names)
        self.lost: dict[int, str] = {}
        # Unterminated lines that the output function has not got yet.
        self.parts = {name: [bytearray() for _ in self.names] for name in ("stdout", "stderr")}
        self.error: BaseException | None = None
        self.over = threading.Event()

    def read(self) -> None:
        try:
            while True:
                kind, rank, word, value = self.native.step(3600.0)
                if kind == "over":
                    break
                self.take(kind, rank, word, value)
        except BaseException as error:
            # Waiting threads are woken.
            self.error = error
            self.native.stop(True)
        self.over.set()

    def take(self, kind: str, rank: int, word: str, value: Any) -> None:
        if kind == "wrote":
            part = self.parts[word][rank]
            part += value
            if self.output is not None and b"\n" in value:
                *lines, rest = bytes(part).split(b"\n")
                self.parts[word][rank] = bytearray(rest)
                for line in lines:
                    self.tell(rank, word, line)
        elif kind == "ended":
            self.codes[rank] = value
        elif kind == "lost":
            self.lost[rank] = word
        if kind in ("ended", "lost") and self.output is not None:
            for stream, parts in self.parts.items():
                last, parts[rank] = bytes(parts[rank]), bytearray()
                if last:
                    self.tell(rank, stream, last)

    def tell(self, rank: int, stream: str, line: bytes) -> None:
        assert self.output is not None
        where: Any = stream
        self.output(Line(self.workers[rank], self.names[rank], where, line))

    def all(self, stream: str) -> dict[str, bytes]:
        return {name: bytes(part) for name, part in zip(self.names, self.parts[stream])}


_running: weakref.WeakSet[Launched] = weakref.WeakSet()
# The programs belong to the parent of a forked child, and survive the child.
os.register_at_fork(after_in_child=_running.clear)


def _stop(native: _euphrates.Launch) -> None:
    """Ends the programs when the last reference is dropped; a forked child leaves them alone."""
    with contextlib.suppress(UsageError):
        native.stop(True)


@atexit.register
def _stop_all() -> None:
    """Ends all launches at the end of the program."""
    running = list(_running)
    for launched in running:
        launched.kill(at_once=True)
    for launched in running:
        launched._reader.join(_GRACE_SECONDS)


def processes(native: _euphrates.Cluster) -> list[Process]:
    """All programs and flows that run on a cluster."""
    return [Process(**told) for told in json.loads(_euphrates.processes(native))]


def kill(native: _euphrates.Cluster, ids: list[str], at_once: bool) -> dict[str, int | None]:
    """Ends the programs and flows of these names."""
    killed = json.loads(_euphrates.kill(native, ids, at_once))
    return {told["id"]: code for told, code in killed}
