"""Actors that hold workers on Ray's nodes: started together, watched, and ended.

Their class is pickled by value, so that a node without this package can report that itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import _euphrates
from ..errors import EuphratesError, ResourceError, UsageError

if TYPE_CHECKING:
    from ..ray import Place

Lose = Callable[[str, str], None]

STOP_SECONDS = 2
"""The time that workers get to end their work."""
RESTART_SECONDS = 10
"""The time within which a worker must be back; a flow waits meanwhile."""
LOCAL_FOLDERS = "folders of this machine are given to `ray.init` or to `ray job submit`"
HEAD_LOOK_SECONDS = 2
HEAD_PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"
HEAD_PATIENCE_PART = 2 / 3
"""The part of Ray's own timeout that its head gets to come back, before Ray ends the program."""


def worker_class() -> type:
    """The class that runs on a node. It must not refer to names of this module."""

    class EuphratesWorker:
        def __init__(self, name: str) -> None:
            import threading

            self.name = name
            self.server: Any = None
            self.over = threading.Event()

        def __repr__(self) -> str:
            """The prefix that Ray puts before every line printed by the actor."""
            return self.name

        def start(self, version: str, folder: str, arguments: dict[str, Any]) -> tuple[str, str]:
            """The worker's address, or the reason why no worker can start here."""
            import os

            try:
                from euphrates import __version__
            except ImportError as error:
                return "not here", f"`euphrates` cannot be imported there: {error}"
            if __version__ != version:
                return "not here", f"it has euphrates {__version__}, and the program {version}"
            # Only after the version check: another version may lack these parts.
            from euphrates import _euphrates

            # Relative paths of a flow refer to the program's folder, if the node shares it.
            if folder and os.path.isdir(folder):
                os.chdir(folder)
            # User code runs in children of this process. If it uses Ray, it joins the same cluster;
            # without an address, Ray would start another one.
            import ray

            context = ray.get_runtime_context()
            os.environ["RAY_ADDRESS"] = context.gcs_address
            os.environ["RAY_NAMESPACE"] = context.namespace
            self.server = _euphrates.WorkerServer(self.name, **arguments)
            return "at", self.server.address

        def hold(self) -> None:
            """Blocks until the end of the worker, so that its caller learns of a death at once."""
            self.over.wait()

        def stop(self) -> None:
            if self.server is not None:
                self.server.close()
            self.over.set()

    EuphratesWorker.__qualname__ = EuphratesWorker.__name__
    return EuphratesWorker


class Actors:
    """One actor at each place."""

    def __init__(
        self,
        ray: Any,
        places: Sequence[Place],
        title: str,
        runtime_env: Mapping[str, Any] | None,
    ) -> None:
        self._ray = ray
        self._over = threading.Event()
        self._folder = "" if "working_dir" in (runtime_env or {}) else os.getcwd()
        self._places = list(places)
        affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        self._class = ray.remote(worker_class())
        self._options = [
            {
                "num_cpus": 0,
                "max_concurrency": 2,
                "scheduling_strategy": affinity(place.node, soft=False),
                "runtime_env": _environment(place, runtime_env),
            }
            for place in self._places
        ]
        self._title = title
        self._said: dict[str, Any] = {}
        self._lose: Lose | None = None
        self._restarts = 0
        try:
            made = [self._made(number) for number in range(len(self._places))]
        except (TypeError, ValueError) as error:
            raise UsageError(f"runtime_env: {error}", remedy=LOCAL_FOLDERS) from error
        self._actors = [actor.remote(place.name) for actor, place in zip(made, self._places)]

    def _made(self, number: int) -> Any:
        """The options that create an actor at a place. Names are unique: Ray remembers dead
        actors.
        """
        again = f"-{self._restarts}" if self._restarts else ""
        name = f"{self._title}-{self._places[number].name}{again}"
        return self._class.options(name=name, **self._options[number])

    def start(
        self, token: str, security: str, timeout: float, lost_after: float | None
    ) -> list[tuple[str, str]]:
        """Starts all workers and returns their addresses; the first failure fails all.

        The token goes from process to process in a call: Ray's head would store arguments of an
        actor's constructor.
        """
        self._said = {"token": token, "security": security, "lost_after": lost_after}
        waiting = {self._called(number): place for number, place in enumerate(self._places)}
        deadline = time.monotonic() + timeout
        listening = {}
        while waiting:
            left = max(0, deadline - time.monotonic())
            done, _ = self._ray.wait([*waiting], timeout=left)
            if not done:
                raise _late([*waiting.values()], timeout)
            place = waiting.pop(done[0])
            listening[place] = self._address(done[0], place)
        return [(place.name, listening[place]) for place in self._places]

    def _called(self, number: int) -> Any:
        place = self._places[number]
        host = f"[{place.address}]" if ":" in place.address else place.address
        arguments = {
            **self._said,
            "listen": f"{host}:0",
            "labels": list(place.labels),
            "cores": place.cores,
            "memory_bytes": place.memory_bytes,
        }
        start = self._actors[number].start
        return start.remote(_euphrates.__version__, self._folder, arguments)

    def restart(self, name: str) -> str | None:
        """Restarts a lost worker: returns its address, or None."""
        numbers = [number for number, place in enumerate(self._places) if place.name == name]
        if self._over.is_set() or not self._ray.is_initialized() or not numbers:
            return None
        [number] = numbers
        place, lost = self._places[number], self._actors[number]
        self._restarts += 1
        self._actors[number] = self._made(number).remote(name)
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(lost)
        call = self._called(number)
        done, _ = self._ray.wait([call], timeout=RESTART_SECONDS)
        if not done:
            return None
        address = self._address(call, place)
        if self._lose is not None:
            self._hold(self._actors[number], place, self._lose)
        return address

    def _address(self, call: Any, place: Place) -> str:
        try:
            said, what = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, EuphratesError):
                cause.place = f"{place}: {cause.place}" if cause.place else str(place)
                raise cause from None
            raise ResourceError(_told(error), place=str(place)) from error
        if said != "at":
            release = f"euphrates=={_euphrates.__version__}"
            remedy = f'`pip install {release}` there, or give runtime_env={{"pip": ["{release}"]}}'
            raise ResourceError(what, place=str(place), remedy=remedy)
        return str(what)

    def watch(self, lose: Lose) -> None:
        """Calls back on every death from now on, and on that of Ray's head."""
        self._lose = lose
        for actor, place in zip(self._actors, self._places):
            self._hold(actor, place, lose)
        head = self._ray.get_runtime_context().gcs_address
        watch = partial(_watch_head, head, [place.name for place in self._places], lose, self._over)
        threading.Thread(target=watch, name="ray head", daemon=True).start()

    def _hold(self, actor: Any, place: Place, lose: Lose) -> None:
        def on_end(held: Future[None]) -> None:
            error = held.exception()
            if error is None or self._over.is_set() or actor not in self._actors:
                return
            if isinstance(error, self._ray.exceptions.ActorUnavailableError):
                # The connection failed, and the actor may be alive: ask again.
                threading.Timer(1, self._hold, (actor, place, lose)).start()
            else:
                lose(place.name, _told(error))

        if not self._over.is_set() and self._ray.is_initialized():
            actor.hold.remote().future().add_done_callback(on_end)

    def stop(self) -> None:
        """Ends the actors, as far as Ray is still running."""
        self._over.set()
        if not self._ray.is_initialized():
            return
        actors, self._actors = self._actors, []
        with contextlib.suppress(self._ray.exceptions.RayError):
            ends = [actor.stop.remote() for actor in actors]
            self._ray.wait(ends, num_returns=len(ends), timeout=STOP_SECONDS)
        for actor in actors:
            self._ray.kill(actor)


def _environment(place: Place, given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Some versions of Ray hide GPUs from actors that request none; this setting prevents that."""
    if "gpu" not in place.labels:
        return dict(given) if given else None
    variables = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", **(given or {}).get("env_vars", {})}
    return {**(given or {}), "env_vars": variables}


def _late(places: Sequence[Place], timeout: float) -> ResourceError:
    return ResourceError(
        f"no worker has started within {timeout:g} seconds",
        place=", ".join(map(str, places)),
        remedy="see what `ray status` and `ray list actors` say, or give a longer timeout",
    )


def _told(error: BaseException) -> str:
    """Ray's message about an actor's end, without actor numbers and call traces."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("\t")]
    if len(lines) > 4:
        lines = [lines[0], *lines[-2:]]
    return " ".join(line.strip() for line in lines)


def _watch_head(address: str, workers: Sequence[str], lose: Lose, over: threading.Event) -> None:
    """Watches Ray's head. Workers do not need it, but without it Ray ends the program silently."""
    host, _, port = address.rpartition(":")
    patience = float(os.environ.get(HEAD_PATIENCE) or 60) * HEAD_PATIENCE_PART
    answered = time.monotonic()
    while not over.wait(HEAD_LOOK_SECONDS):
        with contextlib.suppress(OSError):
            socket.create_connection((host.strip("[]"), int(port)), HEAD_LOOK_SECONDS).close()
            answered = time.monotonic()
        silent = time.monotonic() - answered
        if silent > patience:
            why = f"Ray's head at {address} has not answered for {silent:.0f} seconds"
            for worker in workers:
                lose(worker, why)
            return
