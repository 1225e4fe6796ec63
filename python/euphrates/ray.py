"""Clusters on Ray: one worker on each of its nodes, held by an actor.

Ray says which nodes there are and what is true of them, starts a process on each, brings what that
prints, and tells of its death. Batches never come near it: they go from worker to worker over
connections of their own, as on every other cluster.
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
from ._ray_actors import Actors
from .cluster import ChannelSecurity, Cluster
from .errors import ResourceError, UsageError

OLDEST = (2, 54)
"""Before it, pages in a browser could reach into Ray's dashboard (CVE-2026-27482)."""


@dataclass(frozen=True)
class Place:
    """A node of Ray's, and what the worker there is to be."""

    name: str
    node: str
    """What Ray calls it: an id."""
    address: str
    cores: int
    memory_bytes: int | None
    labels: tuple[str, ...]

    def __str__(self) -> str:
        return f"Ray node {self.name} ({self.address})"


class RayCluster(Cluster):
    """Workers on Ray. `eu.Cluster.ray` makes it."""

    def __init__(self, native: _euphrates.Cluster, actors: Actors, ends_ray: bool) -> None:
        super().__init__(native)
        # Also when nobody holds the cluster any more, or the program ends.
        self._end = weakref.finalize(self, _end, native, actors, ends_ray)

    def close(self) -> None:
        """Ends the workers, and Ray if this has initialised it. Flows that run on it fail."""
        self._end()


def _end(native: _euphrates.Cluster, actors: Actors, ends_ray: bool) -> None:
    if native.is_forked():
        # Ray is the parent's, too, and does not answer here.
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
    """Starts a worker on each of Ray's nodes that has CPUs, and calls them."""
    for name, number in {"workers": workers, "cores": cores}.items():
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}", remedy="give at least 1")
    ray = _ray()
    own = _initialised(ray, address, runtime_env)
    try:
        _warn_of_open_doors()
        places = _places(ray.nodes(), workers, label_selector or {}, cores)
        # Whoever shares the namespace may have a cluster, too.
        title = "-".join(filter(None, [flow and _readable(flow), secrets.token_hex(2)]))
        # What Ray was initialised with holds for all its actors.
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
    """The same for the command line, until it ends."""
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
    """Ray, if there is one that will do."""
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
    """Sees to it that Ray is initialised; whether it was not before."""
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
    """Once: Ray itself sets the variable where it has found or made a token."""
    global _warned
    if not _warned and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        _warned = True
        warnings.warn(
            "RAY_AUTH_MODE is not `token`: whoever reaches Ray's ports may run code on its nodes",
            stacklevel=4,
        )


def _places(
    nodes: Sequence[Mapping[str, Any]],
    workers: int | None,
    selector: Mapping[str, str],
    cores: int | None,
) -> list[Place]:
    """Where workers are to be: nodes without CPUs are heads and drivers' own."""
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
    # Whoever runs flows is called so.
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
        # Ray's two parts of what its control group or machine has. A flow's budget is 70 % of it,
        # which is what Ray itself leaves beside its objects.
        memory_bytes=int(has.get("memory", 0) + has.get("object_store_memory", 0)) or None,
        labels=(*labels, *(["gpu"] if has.get("GPU") else [])),
    )


def _plain_name(node: Mapping[str, Any]) -> str:
    """What its owner has called it; else what its machine is called."""
    name = node.get("NodeName") or ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return _readable(name or node["NodeManagerHostname"])
    return _readable(node["NodeManagerHostname"] or name)


def _readable(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name, flags=re.ASCII).strip("-") or "node"


def _is_selected(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether a node has labels as Ray's selectors want them: `a`, `!a`, `in(a,b)`, `!in(a,b)`."""
    return all(_is_wanted(labels.get(key), wanted) for key, wanted in selector.items())


def _is_wanted(label: str | None, wanted: str) -> bool:
    among = re.fullmatch(r"(!?)in\((.*)\)", wanted) or re.fullmatch(r"(!?)(.*)", wanted)
    assert among is not None
    values = [value.strip() for value in among[2].split(",")]
    return (label in values) != bool(among[1])
