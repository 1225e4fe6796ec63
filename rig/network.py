"""Namespaces, virtual links and their rates: the parts of `rig.hosts`.

The hosts' links meet at a bridge in a namespace of its own, where no packet filter of the machine
applies; removing the namespace removes every link. One more link leads to the program outside. A
token bucket at each end limits what leaves that end.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import cgroups
from .cleanup.ledger import Ledger
from .cleanup.undo import NAMESPACES
from .tools import RigError, tool

# Jumbo frames, as in clusters: with 1500 bytes a twentieth would be headers.
FRAME_BYTES = 9000
# The burst after a pause: more than the kernel's largest send, which would otherwise cost rate.
BURST_BYTES = 128 << 10
BURST_SECONDS = 0.001
# The queue of a link, as at a switch port; packets beyond it are dropped.
QUEUE_BYTES = 1 << 20
QUEUE_SECONDS = 0.05
RANGES = ("10.213.{}.0/24", "172.29.{}.0/24", "192.168.{}.0/24", "198.18.{}.0/24")
OUTSIDE = 254
HOSTS_MAX = 250
BRIDGE = "switch"
# The name of a host's link inside the host.
DEVICE = "eth0"
# A hardware address that no device has.
NOBODY = "02:00:00:00:00:00"


@dataclass
class End:
    """One end of a link: packets leaving there wait for the rate, or are dropped if this way is
    cut.
    """

    namespace: str
    device: str
    rate: int | None = None
    is_cut: bool = False

    def set(self, rate: int | None, *, is_cut: bool) -> None:
        """Takes effect at once, also for traffic in flight."""
        discipline = queueing(None if is_cut else rate)
        if is_cut:
            discipline = ["blackhole"]
        command = ["tc", "-netns", self.namespace, "qdisc", "replace", "dev", self.device, "root"]
        tool(*command, *discipline)
        self.rate, self.is_cut = rate, is_cut


def queueing(rate: int | None) -> list[str]:
    """The queueing discipline that sends at that many bytes a second."""
    if rate is None:
        return ["noqueue"]
    burst = max(BURST_BYTES, round(rate * BURST_SECONDS))
    queue = max(QUEUE_BYTES, round(rate * QUEUE_SECONDS))
    return ["tbf", "rate", f"{rate}bps", "burst", str(burst), "limit", str(queue)]


@dataclass
class Link:
    """A host's link to the switch: `out` is the host's end, `into` the switch's."""

    out: End
    into: End

    def ends(self, way: str) -> list[End]:
        ways = {"both": [self.out, self.into], "in": [self.into], "out": [self.out]}
        if way not in ways:
            raise ValueError(f"a way is both, in or out; {way!r} is none")
        return ways[way]


@dataclass
class Switch:
    """A bridge that connects the links. `outside` is the address of the program that made it."""

    namespace: str
    network: ipaddress.IPv4Network
    links: list[Link] = field(default_factory=list)

    @property
    def outside(self) -> str:
        return str(self.network[OUTSIDE])

    def plug(self, namespace: str) -> tuple[Link, str]:
        """Connects a namespace to this switch; returns the link and its address."""
        number = len(self.links) + 1
        address = str(self.network[number])
        link = Link(End(namespace, DEVICE), End(self.namespace, f"port{number}"))
        wire(namespace, link.out.device, self.namespace, link.into.device)
        to_bridge(self.namespace, link.into.device)
        up(namespace, link.out.device, f"{address}/{self.network.prefixlen}")
        self.links.append(link)
        return link, address


def open_namespace(made: contextlib.ExitStack, book: Ledger) -> str:
    """Makes a network namespace with a loopback device only; returns its name for `ip netns`."""
    name = f"{cgroups.PREFIX}{book.name()}"
    made.callback(book.undo, book.record("namespace", name=name))
    tool("ip", "netns", "add", name)
    ip(name, "link", "set", "lo", "up")
    return name


def open_switch(made: contextlib.ExitStack, book: Ledger) -> Switch:
    """Makes a bridge in a namespace, and a link to the caller's, in a free address range."""
    namespace = open_namespace(made, book)
    ip(namespace, "link", "add", "name", BRIDGE, "type", "bridge", "mcast_snooping", "0")
    ip(namespace, "link", "set", BRIDGE, "mtu", str(FRAME_BYTES), "up")
    wire(namespace, "outside", namespace, "claim")
    to_bridge(namespace, "outside")
    for network in free_networks():
        device = "rig-" + str(network.network_address).rpartition(".")[0].replace(".", "-")
        try:
            # Its name contains the range: of two rigs that claim one range, the kernel admits one.
            ip(namespace, "link", "set", "claim", "netns", str(os.getpid()), "name", device)
        except RigError as error:
            if "File exists" not in str(error):
                raise
            continue
        up(None, device, f"{network[OUTSIDE]}/{network.prefixlen}")
        return Switch(namespace, network)
    raise RigError(f"no free addresses among {', '.join(RANGES)}")


def free_networks() -> Iterator[ipaddress.IPv4Network]:
    """Private ranges without a route on this machine; the default route does not count."""
    routes = json.loads(tool("ip", "-json", "-4", "route", "show", "table", "all"))
    named = [ipaddress.IPv4Network(one["dst"]) for one in routes if one["dst"] != "default"]
    taken = [network for network in named if network.prefixlen >= 8]
    for pattern in RANGES:
        for number in range(256):
            network = ipaddress.IPv4Network(pattern.format(number))
            if not any(network.overlaps(other) for other in taken):
                yield network


def ip(namespace: str | None, *words: str) -> str:
    """Runs `ip` in that namespace, or in the caller's."""
    return tool("ip", *(["-netns", namespace] if namespace else []), *words)


def wire(namespace: str, device: str, other_namespace: str, other_device: str) -> None:
    """A virtual link between two namespaces."""
    mtu = ["mtu", str(FRAME_BYTES)]
    one, other = ["name", device, "netns", namespace], ["name", other_device]
    other += ["netns", other_namespace]
    tool("ip", "link", "add", *mtu, *one, "type", "veth", "peer", *mtu, *other)


def to_bridge(namespace: str, device: str) -> None:
    ip(namespace, "link", "set", device, "master", BRIDGE, "up")


def up(namespace: str | None, device: str, address: str) -> None:
    ip(namespace, "address", "add", address, "dev", device)
    ip(namespace, "link", "set", device, "up")


def block_address(namespace: str, address: str) -> None:
    """Drops packets from there to that address silently."""
    entry = ["neigh", "replace", address, "dev", DEVICE]
    ip(namespace, *entry, "lladdr", NOBODY, "nud", "permanent")


def unblock_address(namespace: str, address: str) -> None:
    """Delivers packets to that address again."""
    ip(namespace, "neigh", "del", address, "dev", DEVICE)


def entering(namespace: str, hostname: str | None, command: list[str]) -> list[str]:
    """The command that enters the namespace and then executes `command` in the same process."""
    inside = ["nsenter", f"--net={NAMESPACES / namespace}", "--"]
    if hostname is not None:
        script = 'hostname "$1" && shift && exec "$@"'
        inside += ["unshare", "--uts", "--", "sh", "-c", script, "sh", hostname]
    return [*inside, *command]
