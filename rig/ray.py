"""A Ray cluster on one machine: one node in each host of the rig, or several on loopback addresses.

Ray identifies nodes by address. In hosts they are machines with a link each, which can be slowed or
cut. On loopback they are plain processes and need no root. The cluster's processes and folders are
removed on exit, also when the caller is killed. The rig does not import Ray: the cluster uses the
running Python's installation.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import cgroups, units
from .cleanup import undo
from .cleanup.ledger import ledger
from .cleanup.marked import marked
from .faults.perturbers import Pause, pause
from .hosts import Host, Hosts
from .tools import RigError

START_SECONDS_MAX = 120
STARTS_MAX = 3
# What `ray start` says when it has given up.
TIMED_OUT = "The current node timed out during startup"
# Sockets lie in Ray's folders, and a socket's path has at most 107 bytes.
FOLDER = "/tmp"


def missing() -> str | None:
    """The reason why no Ray cluster can start, or None."""
    return None if importlib.util.find_spec("ray") else "ray is not installed"


class Node:
    """One node: Ray's own processes, its workers, and their folder."""

    def __init__(self, address: str, folder: Path, host: Host | None) -> None:
        self.address = address
        self.folder = folder
        self.host = host
        self._made = contextlib.ExitStack()
        self._starting: subprocess.Popen[Any] | None = None
        self._start: tuple[Sequence[str], Mapping[str, str]] = ((), {})

    def __repr__(self) -> str:
        return f"Node({self.address!r})"

    @property
    def raylet(self) -> int:
        """The process id of the node's raylet."""
        found = [pid for pid in undo.all_pids() if self._is_raylet(pid)]
        # A child has the same command line between fork and exec.
        first = min(found, key=lambda pid: int(undo.started(pid) or sys.maxsize), default=None)
        if first is None:
            raise RigError(f"no raylet at {self.address}")
        return first

    def _is_raylet(self, pid: int) -> bool:
        words = command_of(pid)
        return words[0].endswith(b"/raylet") and os.fsencode(self.folder) in b" ".join(words)

    def kill_raylet(self) -> None:
        """Kills the raylet with SIGKILL; the node's workers notice and end."""
        undo.kill(self.raylet)

    def crash(self) -> None:
        """Kills all processes of the node at once, workers too, like a power failure."""
        self._made.close()

    def freeze(
        self, *, on: float | None = None, off: float = 0, seconds: float | None = None
    ) -> Pause:
        """Stops the raylet within a `with`; its workers keep running."""
        return pause(self.raylet, on=on, off=off, seconds=seconds)

    def _begin(self, options: Sequence[str], environment: Mapping[str, str]) -> None:
        self._start = (options, environment)
        self.folder.mkdir()
        book = ledger()
        self._made.callback(book.undo, book.record("titled", path=str(self.folder)))
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start"]
        own = [f"--node-ip-address={self.address}", f"--temp-dir={self.folder}"]
        command = [*ray, *own, *options]
        with open(self.folder / "start.log", "wb") as log:
            self._starting = marked(
                self._made,
                command if self.host is None else self.host.inside(command),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self, starts_left: int = STARTS_MAX - 1) -> None:
        """Waits for `ray start`, which ends when the node is up.

        `ray start` gives up when its own processes have not answered for 30 s, which no setting
        changes and a busy machine exceeds: then the node is removed and started again.
        """
        assert self._starting is not None
        if self._starting.wait(START_SECONDS_MAX) == 0:
            return
        said = (self.folder / "start.log").read_text(errors="replace")
        if starts_left == 0 or TIMED_OUT not in said:
            raise RigError(f"ray did not start at {self.address}: {said.strip()}")
        self._made.close()
        shutil.rmtree(self.folder)
        self._begin(*self._start)
        self._wait(starts_left - 1)


def command_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


class RayCluster:
    """One node in each host, or `count` nodes on loopback; the first is the head.

    `labels` are one set per node. With `outside_head` the head is the node outside, so that all
    hosts have the same role; this needs hosts. With `logs` drivers print what workers print. With
    `dashboard` jobs can be submitted if `ray[default]` is installed. `settings` are Ray's own, such
    as `health_check_period_ms`. With hosts, the outside is a node without CPUs: a driver there
    needs one at its address.
    """

    def __init__(
        self,
        hosts: Hosts | int,
        *,
        cpus_per_node: int = 1,
        labels: Sequence[Mapping[str, str]] | None = None,
        object_store: str | int = "80MB",
        settings: Mapping[str, object] | None = None,
        logs: bool = False,
        dashboard: bool = False,
        outside_head: bool = False,
    ) -> None:
        if outside_head and isinstance(hosts, int):
            raise ValueError("nodes on loopback have no outside that could be the head")
        self._hosts = hosts
        self._count = hosts if isinstance(hosts, int) else len(hosts)
        if self._count < 1:
            raise ValueError("a cluster has at least one node")
        if labels is not None and len(labels) != self._count:
            raise ValueError(f"labels for {len(labels)} nodes, and {self._count} nodes")
        self._labels = labels or [{}] * self._count
        self._cpus = cpus_per_node
        self._logs = logs
        self._dashboard = dashboard
        self._outside_head = outside_head
        self._store = units.amount(object_store)
        own = {f"RAY_{name}": str(setting) for name, setting in (settings or {}).items()}
        # The head would require a token in the user's home, and the other nodes would not send it.
        auth = os.environ.get("RAY_AUTH_MODE", "disabled")
        self._environment = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": auth, **own}
        self.address = ""
        self.nodes: list[Node] = []
        self._head: Node | None = None
        self._made = contextlib.ExitStack()

    def __enter__(self) -> RayCluster:
        why = missing()
        if why is not None:
            raise RigError(why)
        with contextlib.ExitStack() as made:
            nodes = self._planned(made)
            environment = {**os.environ, **self._environment}
            for node in nodes:
                made.push(node._made)
            first = self._count if self._outside_head else 0
            head = nodes[first]
            shown = str(self._dashboard).lower()
            quiet = [f"--include-dashboard={shown}", "--no-monitor"]
            head._begin(["--head", "--port=0", *quiet, *self._options(first)], environment)
            head._wait()
            self.address = (head.folder / "ray_current_cluster").read_text().strip()
            others = [(number, node) for number, node in enumerate(nodes) if node is not head]
            for number, node in others:
                node._begin([f"--address={self.address}", *self._options(number)], environment)
            for _, node in others:
                node._wait()
            self.nodes, self._head = nodes[: self._count], head
            self._made = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes, self._head = [], None
        self._made.close()

    def _planned(self, made: contextlib.ExitStack) -> list[Node]:
        """The nodes, each with an address and a folder; the outside comes last."""
        folder = own_folder(made)
        if isinstance(self._hosts, int):
            # Ray would replace 127.0.0.1 by the machine's own address.
            return [
                Node(f"127.0.0.{number + 2}", folder / str(number), None)
                for number in range(self._count)
            ]
        nodes = [
            Node(host.address, folder / str(number), host)
            for number, host in enumerate(self._hosts)
        ]
        return [*nodes, Node(self._hosts.outside, folder / "outside", None)]

    def _options(self, number: int) -> list[str]:
        """The arguments of `ray start` for the node of that number."""
        outside = number == self._count
        labels = {} if outside else self._labels[number]
        joined = ",".join(f"{key}={label}" for key, label in labels.items())
        return [
            f"--num-cpus={0 if outside else self._cpus}",
            f"--object-store-memory={self._store}",
            # A node whose agent does not get its port starts no jobs.
            "--dashboard-agent-listen-port=0",
            f"--include-log-monitor={str(self._logs).lower()}",
            *([f"--labels={joined}"] if joined else []),
        ]

    @property
    def head(self) -> Node:
        if self._head is None:
            raise RigError("this cluster is not there: use it in a `with`")
        return self._head

    def driver(self, node: Node | None = None) -> dict[str, str]:
        """Arguments of `ray.init` for a driver outside, or for one at that node.

        Without its address Ray takes any node of the machine for the driver's own.
        """
        own = self.head.address if node is None else node.address
        if node is None and not isinstance(self._hosts, int):
            own = self._hosts.outside
        return {"address": self.address, "_node_ip_address": own}


def own_folder(made: contextlib.ExitStack) -> Path:
    """A folder of the cluster, removed on exit."""
    book = ledger()
    folder = Path(FOLDER) / f"{cgroups.PREFIX}{book.name()}"
    made.callback(book.undo, book.record("folder", path=str(folder)))
    folder.mkdir(mode=0o700)
    return folder
