"""Clusters on Ray: one worker on each of its nodes, held by an actor.

Ray lists the nodes and their properties, starts a process on each, forwards its output, and reports
its death. Batches bypass Ray: workers exchange them over their own connections, as on every other
cluster.
"""

from __future__ import annotations

import importlib
import ipaddress
import os
import re
import secrets
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _euphrates
from ._processes.ray_actors import Actors
from .cluster import ChannelSecurity, Cluster
from .errors import ResourceError, UsageError

OLDEST = (2, 54)
"""Earlier versions let browser pages reach Ray's dashboard (CVE-2026-27482)."""


@dataclass(frozen=True)
class Place:
    """A node of Ray's, and the worker planned there."""

    name: str
    node: str
    """Ray's id of the node."""
    address: str
    cores: int
    memory_bytes: int | None
    labels: tuple[str, ...]

    def __str__(self) -> str:
        return f"Ray node {self.name} ({self.address})"


class RayCluster(Cluster):
    """Workers on Ray, constructed by `eu.Cluster.ray`."""

    def __init__(self, native: _euphrates.Cluster, actors: Actors, ends_ray: bool) -> None:
        super().__init__(native)
        # Also runs when the last reference is dropped, or the program ends.
        self._end = weakref.finalize(self, _end, native, actors, ends_ray)

    def close(self) -> None:
        """Ends the workers, and Ray if this cluster initialised it. Flows that run on it fail."""
        self._end()


def _end(native: _euphrates.Cluster, actors: Actors, ends_ray: bool) -> None:
    if native.is_forked():
        # In a forked child: Ray belongs to the parent, and does not answer here.
        return
    native.close()
    actors.stop()
    if ends_ray:
        _ray().shutdown()


def opened(
    address: str | None = None,
    *,
    workers: int | None = None,
    label_selector: Mapping[str, str] | None = None,
    cores: int | None = None,
    channel_security: ChannelSecurity = "tls",
    runtime_env: Mapping[str, Any] | None = None,
    timeout: float = 60,
    lost_after: float | None = None,
    flow: str | None = None,
) -> RayCluster:
    """Starts a worker on each of Ray's nodes that has CPUs, and connects to it."""
    for name, number in {"workers": workers, "cores": cores}.items():
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}", remedy="give at least 1")
    ray = _ray()
    own = _initialised(ray, address, runtime_env)
    try:
        _warn_of_open_doors()
        places = _places(ray.nodes(), workers, label_selector or {}, cores)
        # Unique: programs in the same Ray namespace may have clusters too.
        title = "-".join(filter(None, [flow and _readable(flow), secrets.token_hex(2)]))
        # The runtime environment of `ray.init` applies to all its actors.
        actors = Actors(ray, places, f"euphrates-{title}", None if own else runtime_env)
        native = _native(actors, channel_security, timeout, lost_after)
        return RayCluster(native, actors, own)
    except BaseException:
        if own:
            ray.shutdown()
        raise


def by_words(words: str, **options: Any) -> RayCluster:
    """The cluster of `ray`, `ray:auto` or `ray:ADDRESS`."""
    return opened(words.partition(":")[2] or None, **options)


_kept: list[RayCluster] = []


def kept(words: str, workers: int | None, channel_security: ChannelSecurity) -> _euphrates.Cluster:
    """The same for the command line, closed at exit."""
    _kept.append(by_words(words, workers=workers, channel_security=channel_security))
    return _kept[-1]._native


def _native(
    actors: Actors, channel_security: ChannelSecurity, timeout: float, lost_after: float | None
) -> _euphrates.Cluster:
    token = _euphrates.new_token()
    try:
        listening = actors.start(token, channel_security, timeout, lost_after)
        native = _euphrates.Cluster.given(
            listening, token, channel_security, actors.restart, lost_after
        )
    except BaseException:
        actors.stop()
        raise
    actors.watch(native.lose)
    return native


def _ray() -> Any:
    """The Ray module, if its version is supported."""
    remedy = f'pip install "ray>={OLDEST[0]}.{OLDEST[1]},<3"'
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UsageError(f"Ray cannot be imported: {error}", remedy=remedy) from error
    version = re.match(r"(\d+)\.(\d+)", ray.__version__)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UsageError(f"Ray is {ray.__version__}; {oldest} is needed", remedy=remedy)
    return ray


def _initialised(ray: Any, address: str | None, runtime_env: Mapping[str, Any] | None) -> bool:
    """Initialises Ray if necessary; returns whether it did."""
    if (address or "").startswith("ray://"):
        raise UsageError(
            f"{address} is for Ray Client, and the program must reach the workers itself",
            remedy="run it on a machine of the cluster: `ray job submit -- python …`",
        )
    if ray.is_initialized():
        known = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", known):
            raise UsageError(
                f"Ray is initialised at {known}, not at {address}",
                remedy="leave out the address, or `ray.shutdown()` first",
            )
        return False
    try:
        ray.init(address=address, runtime_env=runtime_env and dict(runtime_env))
    except Exception as error:  # of many classes: no connection, no token, no such cluster
        raise ResourceError(
            f"Ray cannot be initialised: {error}",
            remedy="see what `ray status` says, and give the address: `ray:HOST:PORT`",
        ) from error
    return True


_warned = False


def _warn_of_open_doors() -> None:
    """Warns once. Ray itself sets the variable where it has found or made a token."""
    global _warned
    if not _warned and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        _warned = True
        warnings.warn(
            "RAY_AUTH_MODE is not `token`: whoever reaches Ray's ports may run code on its nodes",
            stacklevel=5,
        )


def _places(
    nodes: Sequence[Mapping[str, Any]],
    workers: int | None,
    selector: Mapping[str, str],
    cores: int | None,
) -> list[Place]:
    """The places of workers: nodes without CPUs serve only heads and drivers."""
    able = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    chosen = [node for node in able if _is_selected(node.get("Labels") or {}, selector)]
    chosen.sort(key=lambda node: (_plain_name(node), node["NodeID"]))
    if len(chosen) < (workers or 1):
        of = " that the labels select" if selector else ""
        raise ResourceError(
            f"nodes with CPUs{of}: Ray has {len(chosen)}, wanted are {workers or 1}",
            remedy="start more (`ray start --address=…`), or ask for fewer workers",
        )
    names = [_plain_name(node) for node in chosen]
    # `master` is the name of the program's own process.
    shared = {name for name in names if names.count(name) > 1} | {"master"}
    return [
        _place(node, f"{name}-{node['NodeID'][:6]}" if name in shared else name, cores)
        for node, name in zip(chosen[:workers], names)
    ]


def _place(node: Mapping[str, Any], name: str, cores: int | None) -> Place:
    has = node["Resources"]
    labels = [f"{key}={label}" for key, label in sorted((node.get("Labels") or {}).items())]
    return Place(
        name=name,
        node=node["NodeID"],
        address=node["NodeManagerAddress"],
        cores=cores or max(1, int(has["CPU"])),
        # Ray's two memory resources, which together are the limit of its control group or machine.
        # A flow's budget is 70 % of it; Ray reserves the rest beside its objects.
        memory_bytes=int(has.get("memory", 0) + has.get("object_store_memory", 0)) or None,
        labels=(*labels, *(["gpu"] if has.get("GPU") else [])),
    )


def _plain_name(node: Mapping[str, Any]) -> str:
    """The name that its owner gave it, otherwise its machine's name."""
    name = node.get("NodeName") or ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return _readable(name or node["NodeManagerHostname"])
    return _readable(node["NodeManagerHostname"] or name)


def _readable(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name, flags=re.ASCII).strip("-") or "node"


def _is_selected(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether a node's labels match Ray's selectors: `a`, `!a`, `in(a,b)`, `!in(a,b)`."""
    return all(_is_wanted(labels.get(key), wanted) for key, wanted in selector.items())


def _is_wanted(label: str | None, wanted: str) -> bool:
    among = re.fullmatch(r"(!?)in\((.*)\)", wanted) or re.fullmatch(r"(!?)(.*)", wanted)
    assert among is not None
    values = [value.strip() for value in among[2].split(",")]
    return (label in values) != bool(among[1])
