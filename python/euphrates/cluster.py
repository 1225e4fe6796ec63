"""Where a flow runs: in this process, or on workers."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeAlias

from . import _euphrates
from ._options import path_text, whole_number
from ._other_names.answers import ClassWithOtherNames, OtherNames
from .errors import UsageError
from .launch import Launched, Line, Process, kill, processes

ChannelSecurity: TypeAlias = Literal["tls", "token"]
"""Mutual TLS 1.3, or only a proof that both ends know the token."""


@dataclass(frozen=True)
class Worker:
    """A worker of a cluster.

    >>> with eu.Cluster.processes(2) as cluster:
    ...     workers = cluster.workers
    >>> [worker.name for worker in workers], workers[0].host == workers[1].host
    (['w0', 'w1'], True)
    """

    name: str
    labels: tuple[str, ...]
    cores: int
    memory_bytes: int
    host: str
    """The machine; equal for workers of one machine."""
    lent_bytes: int
    """Memory that it lends to flows on other machines."""


class Cluster(OtherNames, metaclass=ClassWithOtherNames):
    """A set of workers that run any number of flows until the cluster is closed.

    >>> flow = eu.Flow("numbers")
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
    >>> with eu.Cluster.processes(2) as cluster:
    ...     flow.go(cluster=cluster).collected().to_pylist()
    [{'count': 1000}]
    """

    _kind, _called = "cluster", "a cluster"

    def __init__(self, native: _euphrates.Cluster | None = None) -> None:
        if not isinstance(native, _euphrates.Cluster):
            remedy = "call one of its constructors, such as Cluster.processes(2)"
            raise UsageError("a Cluster cannot be made directly", remedy=remedy)
        self._native = native

    @classmethod
    def processes(cls, workers: int, *, lost_after: float | None = None) -> Cluster:
        """Starts that many worker processes on this machine. A worker that dies is restarted when
        the next flow begins.

        `lost_after` is the heartbeat timeout in seconds after which a silent worker, or this
        program, is considered dead: 2 by default. Give more if the program is sometimes stopped, as
        in a debugger.

        >>> with eu.Cluster.processes(2) as cluster:
        ...     print(cluster)
        <cluster of w0, w1>

        For one flow, words do the same:

        >>> flow = eu.Flow("numbers")
        >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
        >>> flow.go(cluster="processes:2").collected().to_pylist()
        [{'count': 1000}]
        """
        number = whole_number("workers", workers)
        return cls(_euphrates.Cluster.open(f"processes:{number}", lost_after=lost_after))

    @classmethod
    def join(
        cls,
        address: str,
        workers: int,
        *,
        token_file: str | os.PathLike[str],
        timeout: float = 60,
        channel_security: ChannelSecurity = "tls",
        lost_after: float | None = None,
    ) -> Cluster:
        """Waits for workers that join by themselves, started by any means (`ssh`, `srun`, `mpirun`,
        …): `euphrates worker --join ADDRESS --token-file FILE`. Waits until `workers` have joined,
        at most `timeout` seconds.

        `lost_after` is the heartbeat timeout in seconds after which a silent worker, or this
        program, is considered dead: by default 10 between machines, 2 within one.

        >>> cluster = eu.Cluster.join(  # doctest: +SKIP
        ...     "10.0.0.1:4400", workers=8, token_file="token", timeout=120
        ... )
        """
        workers = whole_number("workers", workers)
        _warn(channel_security)
        file = path_text("token_file", token_file)
        words = f"join:{address}"
        return cls(
            _euphrates.Cluster.open(words, file, workers, timeout, channel_security, lost_after)
        )

    @classmethod
    def at(
        cls,
        address: str,
        *,
        token_file: str | os.PathLike[str],
        workers: int = 1,
        channel_security: ChannelSecurity = "tls",
        lost_after: float | None = None,
    ) -> Cluster:
        """The workers that have joined a persistent cluster (`euphrates cluster --listen ADDRESS`);
        fails if there are fewer than `workers`. `lost_after` is as for `join`.

        >>> with eu.Cluster.at("10.0.0.1:4400", token_file="token", workers=8) as cluster:
        ...     report = flow.go(cluster=cluster)  # doctest: +SKIP
        """
        _warn(channel_security)
        file = path_text("token_file", token_file)
        words = f"at:{address}"
        return cls(
            _euphrates.Cluster.open(words, file, workers, None, channel_security, lost_after)
        )

    @classmethod
    def ray(
        cls,
        address: str | None = None,
        *,
        workers: int | None = None,
        label_selector: Mapping[str, str] | None = None,
        cores: int | None = None,
        channel_security: ChannelSecurity = "tls",
        runtime_env: Mapping[str, Any] | None = None,
        timeout: float = 60,
        lost_after: float | None = None,
    ) -> Cluster:
        """A worker on each node of a Ray cluster that has CPUs; Ray ≥ 2.54.

        Uses Ray if it is initialised. Otherwise initialises it, at `address` or as `ray.init()`
        does (which finds a cluster or starts one on this machine), and shuts it down at the end.

        `workers` limits the number of nodes, `label_selector` selects nodes by labels in Ray's
        syntax. `cores` is the number of CPUs used per node, all by default. `runtime_env` is Ray's,
        for the workers: for example, packages to install there. All workers must be up within
        `timeout` seconds. `lost_after` is as for `join`.

        >>> with eu.Cluster.ray(workers=4, label_selector={"zone": "in(a,b)"}) as cluster:
        ...     report = flow.go(cluster=cluster)  # doctest: +SKIP
        """
        from .ray import opened

        _warn(channel_security)
        return opened(
            address,
            workers=workers,
            label_selector=label_selector,
            cores=cores,
            channel_security=channel_security,
            runtime_env=runtime_env,
            timeout=timeout,
            lost_after=lost_after,
        )

    @property
    def workers(self) -> list[Worker]:
        """The connected workers."""
        return [
            Worker(**{**told, "labels": tuple(told["labels"])})
            for told in json.loads(self._native.members())
        ]

    @property
    def control_bytes(self) -> int:
        """Bytes of control messages between this program and the workers."""
        return self._native.control_bytes()

    def launch(
        self,
        program: Sequence[str],
        *,
        on: str | Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        per_worker: int = 1,
        output: Callable[[Line], object] | None = None,
        stdin: bool = False,
        detach: bool = False,
    ) -> Launched:
        """Runs a program on all workers, or on those whose name or label is in `on`. Returns when
        it runs everywhere.

        `program` is the program with its arguments. Each line of its output is passed to `output`
        on a separate thread; without a function, it is stored. With `detach=True` the program keeps
        running after this one has ended, and its output is discarded.

        >>> with eu.Cluster.processes(2) as cluster:
        ...     launched = cluster.launch(["printf", "Hello"])
        ...     _ = launched.wait()
        >>> launched.stdout, launched.exit_codes
        ({'w0': b'Hello', 'w1': b'Hello'}, {'w0': 0, 'w1': 0})
        """
        if isinstance(program, str) or not program:
            remedy = f"write {program.split() or ['true']}" if isinstance(program, str) else None
            raise UsageError("a program is a list of words, the first is its name", remedy=remedy)
        order = {
            "program": os.fspath(program[0]),
            "arguments": [os.fspath(word) for word in program[1:]],
            "env": dict(env or {}),
            "cwd": None if cwd is None else os.fspath(cwd),
            "is_detached": detach,
            "has_stdin": stdin,
        }
        chosen = [on] if isinstance(on, str) else list(on or ())
        native = _euphrates.launch(self._native, json.dumps(order), chosen, per_worker)
        return Launched(native, self, output, detach)

    def ps(self) -> list[Process]:
        """The programs and flows that run on the workers, of every user of the cluster; oldest
        first.

        >>> with eu.Cluster.processes(2) as cluster:
        ...     launched = cluster.launch(["sleep", "60"], on="w1")
        ...     [(process.worker, process.what, process.state) for process in cluster.ps()]
        [('w1', 'sleep 60', 'running')]
        """
        return processes(self._native)

    def kill(self, *ids: str, at_once: bool = False) -> dict[str, int | None]:
        """Ends programs and flows listed by `ps`, of every user of the cluster; `"all"` ends all.
        Returns what has ended, and the exit codes of programs.

        >>> with eu.Cluster.processes(2) as cluster:
        ...     launched = cluster.launch(["sleep", "60"])
        ...     killed = cluster.kill(launched.id, at_once=True)
        >>> list(killed.values())
        [-9, -9]
        """
        if not ids:
            raise UsageError("nothing is said to be ended", remedy='give ids, or "all"')
        if "all" in ids:
            ids = ()
        return kill(self._native, list(ids), at_once)

    def close(self) -> None:
        """Stops the workers that were started for this cluster. Flows that run on it fail.

        >>> cluster = eu.Cluster.processes(1)
        >>> cluster.close()
        >>> cluster
        <a closed cluster>
        """
        self._native.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            names = ", ".join(worker.name for worker in self.workers)
        except UsageError:
            return "<a closed cluster>"
        return f"<cluster of {names}>"


def _warn(channel_security: ChannelSecurity) -> None:
    if channel_security == "token":
        warnings.warn(
            "channel_security='token': whoever is on the network can read and change what workers "
            "send each other",
            stacklevel=4,  # behind a constructor, and what answers its arguments
        )


@contextlib.contextmanager
def opened(cluster: Cluster | str | None, flow: str) -> Iterator[Any]:
    """The engine's handle of a cluster; a cluster given in words lives for one flow."""
    if isinstance(cluster, str):
        if cluster == "embedded":
            yield None
            return
        with _by_words(cluster, flow) as own:
            yield own._native
    else:
        yield native_of(cluster)


def native_of(cluster: Cluster | None) -> Any:
    """The engine's handle of an open cluster."""
    if cluster is not None and not isinstance(cluster, Cluster):
        remedy = 'give "processes:4", or an open one, like eu.Cluster.processes(4)'
        raise UsageError(f"{cluster!r} is not a cluster", remedy=remedy)
    return None if cluster is None else cluster._native


def _by_words(words: str, flow: str) -> Cluster:
    if words.partition(":")[0] != "ray":
        return Cluster(_euphrates.Cluster.open(words))
    from .ray import by_words

    return by_words(words, flow=flow)
