"""Hosts: emulated machines of a cluster, each with a network, and optionally a disk and CPUs.

A host is a network namespace with an address and a link of a set rate; a switch connects it to the
other hosts and to the program outside. Programs in it see no other network. Link, disk and CPUs can
be slowed while in use. A link can be cut in either direction, and traffic to a single host can be
dropped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from . import network, units
from .cleanup.ledger import ledger
from .cleanup.marked import marked
from .cpus import Cpu
from .disks import Disk, Disks
from .features import missing, require
from .tools import RigError

Word = str | os.PathLike[str]


class Changed:
    """A change that persists, or, in a `with`, is reverted on exit."""

    def __init__(self, back: Callable[[], None]) -> None:
        self._back = back

    def __enter__(self) -> Changed:
        return self

    def __exit__(self, *_: object) -> None:
        self._back()


class Host:
    """One of `Hosts`. `address` is where the other hosts and the program outside reach it.

    `namespace` is its name for `ip netns`.
    """

    def __init__(
        self,
        name: str,
        namespace: str,
        address: str,
        link: network.Link,
        *,
        hostname: str | None,
        disk: Disk | None,
        cpu: Cpu | None,
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.address = address
        self._link = link
        self._hostname = hostname
        self._disk = disk
        self._cpu = cpu
        self._made = contextlib.ExitStack()

    def __repr__(self) -> str:
        return f"Host({self.name!r}, {self.address!r})"

    @property
    def disk(self) -> Disk:
        if self._disk is None:
            raise RigError(f"{self.name} has no disk: give Hosts a disk_rate or disk_size")
        return self._disk

    @property
    def cpu(self) -> Cpu:
        if self._cpu is None:
            raise RigError(f"{self.name} has no CPUs of its own: {missing('cpus')}")
        return self._cpu

    def inside(self, command: Sequence[Word]) -> list[str]:
        """The command that enters this host and then executes `command` in the same process."""
        words = [os.fspath(word) for word in command]
        entering = network.entering(self.namespace, self._hostname, words)
        return entering if self._cpu is None else self._cpu.inside(entering)

    def start(self, command: Sequence[Word], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program in this host; `options` are those of `subprocess.Popen`."""
        return marked(self._made, self.inside(command), **options)

    def run(
        self,
        command: Sequence[Word],
        *,
        input: Any = None,
        timeout: float | None = None,
        check: bool = False,
        **options: Any,
    ) -> subprocess.CompletedProcess[Any]:
        """Runs a program in this host to its end, like `subprocess.run`."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(command, **options)
        try:
            output, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
        done = subprocess.CompletedProcess(command, process.returncode, output, errors)
        if check:
            done.check_returncode()
        return done

    def link_rate(self, way: str = "out") -> int | None:
        """Bytes a second of its link in direction "out" or "in"; None is no limit."""
        return self._link.ends(way)[0].rate

    def set_link_rate(self, rate: str | int | float | None, way: str = "both") -> Changed:
        """Changes the rate of its link at once; `way` is "both", "in" (to this host) or "out"."""
        bytes_ = units.rate(rate)
        before = [(end, end.rate) for end in self._link.ends(way)]

        def back() -> None:
            for end, earlier in before:
                end.set(earlier, is_cut=end.is_cut)

        for end, _ in before:
            end.set(bytes_, is_cut=end.is_cut)
        return Changed(back)

    def cut(self, way: str = "both") -> Changed:
        """Drops all packets of its link silently until `mend`."""
        for end in self._link.ends(way):
            end.set(end.rate, is_cut=True)
        return Changed(lambda: self.mend(way))

    def mend(self, way: str = "both") -> None:
        for end in self._link.ends(way):
            end.set(end.rate, is_cut=False)

    def part_from(self, other: Host) -> Changed:
        """Drops all packets between these two hosts silently; other hosts reach both."""
        ways = [(self.namespace, other.address), (other.namespace, self.address)]

        def back() -> None:
            for namespace, address in ways:
                network.unblock_address(namespace, address)

        for namespace, address in ways:
            network.block_address(namespace, address)
        return Changed(back)

    def slow_link(self, rate: str | int | float) -> Changed:
        return self.set_link_rate(rate)

    def slow_disk(self, rate: str | int | float) -> Changed:
        disk, before, iops = self.disk, self.disk.rate, self.disk.iops
        disk.set_rate(rate, iops=iops)
        return Changed(lambda: disk.set_rate(before, iops=iops))

    def slow_cpu(self, quota: float) -> Changed:
        cpu, before = self.cpu, self.cpu.quota
        cpu.set_quota(quota)
        return Changed(lambda: cpu.set_quota(before))


class Hosts(Sequence[Host]):
    """`count` hosts within a `with`; on exit the processes still in them are killed.

    `link_rate` limits each link in each direction; None is no limit. With `disk_rate` or
    `disk_size` each host has a disk, with `cpu_quota` a CPU limit. With `hostnames` programs see
    the host's name as their machine's; by default they see the machine's own.
    """

    def __init__(
        self,
        count: int,
        link_rate: str | int | float | None = None,
        *,
        disk_rate: str | int | float | None = None,
        disk_size: str | int | None = None,
        cpu_quota: float | None = None,
        hostnames: bool = False,
    ) -> None:
        if not 1 <= count <= network.HOSTS_MAX:
            raise ValueError(f"a rig has 1 to {network.HOSTS_MAX} hosts")
        self._count = count
        self._rate = units.rate(link_rate)
        self._disks = None
        if disk_rate is not None or disk_size is not None:
            self._disks = Disks(count, disk_rate, size=disk_size or "64MB")
        self._quota = cpu_quota
        self._hostnames = hostnames
        self._switch: network.Switch | None = None
        self._hosts: list[Host] = []
        self._made = contextlib.ExitStack()

    def __enter__(self) -> Hosts:
        require("hosts", *([] if self._quota is None else ["cpus"]))
        with contextlib.ExitStack() as made:
            # Disks come first, so that processes started later are subject to their limits.
            disks = made.enter_context(self._disks) if self._disks is not None else None
            switch = network.open_switch(made, ledger())
            hosts = [
                self._open(made, switch, number, disks[number] if disks else None)
                for number in range(self._count)
            ]
            self._made = made.pop_all()
        self._switch, self._hosts = switch, hosts
        return self

    def _open(
        self, made: contextlib.ExitStack, switch: network.Switch, number: int, disk: Disk | None
    ) -> Host:
        namespace = network.open_namespace(made, ledger())
        link, address = switch.plug(namespace)
        cpu = made.enter_context(Cpu(self._quota)) if missing("cpus") is None else None
        name = f"host{number}"
        hostname = name if self._hostnames else None
        host = Host(name, namespace, address, link, hostname=hostname, disk=disk, cpu=cpu)
        made.push(host._made)
        if self._rate is not None:
            host.set_link_rate(self._rate)
        return host

    def __exit__(self, *_: object) -> None:
        self._switch, self._hosts = None, []
        self._made.close()

    @property
    def outside(self) -> str:
        """The address at which hosts reach the program that made them."""
        if self._switch is None:
            raise RigError("these hosts are not there: use them in a `with`")
        return self._switch.outside

    def __len__(self) -> int:
        return len(self._hosts)

    @overload
    def __getitem__(self, index: int) -> Host: ...
    @overload
    def __getitem__(self, index: slice) -> list[Host]: ...
    def __getitem__(self, index: int | slice) -> Host | list[Host]:
        return self._hosts[index]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts)
