"""Hosts on the real kernel: namespaces and links, with root; elsewhere skipped.

A link may never exceed its rate. That it nearly reaches its rate is required of the best half of
several streams, since other programs may load the machine.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import rig
from rig import features, measure, network
from rig_leftovers import ROOT, left_by, wait_for_end
from rig_requirements import needs

MB = 1_000_000
RATE = 10 * MB
# Sends its argument to every connection.
NAMED = """
import socket, sys
with socket.create_server(("", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        stream, _ = server.accept()
        with stream:
            stream.sendall(sys.argv[1].encode())
"""
# Prints the answer of each given server on a line.
ASKING = """
import socket, sys
for server in sys.argv[1:]:
    address, port = server.split(":")
    with socket.create_connection((address, int(port))) as stream:
        print(stream.recv(100).decode())
"""
ECHO = """
import socket, sys
with socket.create_server(("", 0)) as server:
    print(server.getsockname()[1], flush=True)
    stream, _ = server.accept()
    while heard := stream.recv(100):
        print("heard", flush=True)
        stream.sendall(heard)
"""


def python(script: str, *words: str) -> list[str]:
    return [sys.executable, "-S", "-c", script, *words]


def listening(host: rig.Host, script: str, *words: str) -> tuple[subprocess.Popen[Any], int]:
    """A server in that host, and its port."""
    process = host.start(python(script, *words), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@contextlib.contextmanager
def echo(host: rig.Host) -> Iterator[tuple[socket.socket, Any]]:
    """A connection to an echo server in that host, and the server's output."""
    process, port = listening(host, ECHO)
    with process, socket.create_connection((host.address, port)) as stream:
        yield stream, process.stdout


def answered(stream: socket.socket, text: bytes, seconds: float = 60) -> bool:
    """Whether an answer arrives within that time; a later one is left for the next call."""
    stream.sendall(text)
    return bool(select.select([stream], [], [], seconds)[0]) and stream.recv(100) == text


# --- the network ---------------------------------------------------------------------------------


@needs("hosts")
def test_hosts_and_outside_are_connected() -> None:
    with rig.Hosts(3) as hosts, socket.create_server((hosts.outside, 0)) as outside:
        assert len({host.address for host in hosts}) == 3
        servers = [f"{host.address}:{listening(host, NAMED, host.name)[1]}" for host in hosts]
        names = "".join(f"{host.name}\n" for host in hosts)
        for host in hosts:
            done = host.run(python(ASKING, *servers), stdout=subprocess.PIPE, text=True)
            assert done.stdout == names
        done = subprocess.run(python(ASKING, *servers), stdout=subprocess.PIPE, text=True)
        assert done.stdout == names
        asking = hosts[0].start(python(ASKING, "{}:{}".format(*outside.getsockname())))
        stream, (address, _) = outside.accept()
        stream.close()
        assert address == hosts[0].address
        assert asking.wait() == 0


@needs("hosts")
def test_two_rigs_have_separate_networks() -> None:
    with rig.Hosts(1) as ours, rig.Hosts(1) as theirs:
        assert ours.outside != theirs.outside
        _, port = listening(theirs[0], NAMED, "theirs")
        server = f"{theirs[0].address}:{port}"
        done = ours[0].run(python(ASKING, server), stderr=subprocess.PIPE, text=True)
        assert "Network is unreachable" in done.stderr


@needs("hosts")
@pytest.mark.parametrize("own", [True, False])
def test_host_has_its_own_hostname_on_request(own: bool) -> None:
    script = "import socket; print(socket.gethostname())"
    with rig.Hosts(2, hostnames=own) as hosts:
        names = [
            host.run(python(script), stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
            for host in hosts
        ]
    assert names == (["host0", "host1"] if own else [socket.gethostname()] * 2)


@needs("hosts")
def test_program_in_a_host_passes_exit_code_and_input() -> None:
    with rig.Hosts(1) as hosts:
        host = hosts[0]
        assert host.run(["sh", "-c", "exit 7"]).returncode == 7
        assert host.run(["cat"], input=b"word", stdout=subprocess.PIPE).stdout == b"word"
        with pytest.raises(subprocess.CalledProcessError):
            host.run(["false"], check=True)
        with pytest.raises(subprocess.TimeoutExpired):
            host.run(["sleep", "1000"], timeout=0.1)


def test_address_range_in_use_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = ["default", "0.0.0.0/1", "10.0.0.0/8", "172.29.0.7", "172.29.1.0/25"]
    listed = json.dumps([{"dst": route} for route in routes])
    monkeypatch.setattr(network, "tool", lambda *_: listed)
    assert next(network.free_networks()) == ipaddress.ip_network("172.29.2.0/24")


def test_missing_host_feature_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "capabilities", lambda: 1 << features.CAP_SYS_ADMIN)
    assert features.missing_for_hosts() == "needs root's rights to networks (CAP_NET_ADMIN)"
    monkeypatch.setattr(features, "capabilities", lambda: -1)
    monkeypatch.setattr(features, "NETWORK_TOOLS", ("no-such-tool",))
    assert features.missing_for_hosts() == "no no-such-tool"


def test_invalid_host_count_is_rejected() -> None:
    for count in (0, network.HOSTS_MAX + 1):
        with pytest.raises(ValueError, match="1 to"):
            rig.Hosts(count)


# --- rates ---------------------------------------------------------------------------------------


def at_once(rate: float) -> float:
    """The burst of a link, and the bytes buffered for a slow reader."""
    return network.BURST_BYTES + rate / 5


@needs("hosts")
def test_link_reaches_and_never_exceeds_its_rate() -> None:
    with rig.Hosts(2, RATE) as hosts:
        rates = []
        for _ in range(3):
            bytes_, seconds = measure.Stream(hosts[0], hosts[1], 2).end()
            assert seconds >= (bytes_ - at_once(RATE)) / RATE
            rates.append(bytes_ / seconds)
    assert statistics.median(rates) >= 0.9 * RATE


@needs("hosts")
@pytest.mark.parametrize("way", ["in", "out"])
def test_either_end_limits_a_link(way: str) -> None:
    with rig.Hosts(2) as hosts:
        hosts[0].set_link_rate(RATE, way)
        ends = (hosts[1], hosts[0]) if way == "in" else (hosts[0], hosts[1])
        bytes_, seconds = measure.Stream(*ends, 0.5).end()
    assert seconds >= (bytes_ - at_once(RATE)) / RATE


@needs("hosts")
def test_link_rate_changes_in_use_and_is_restored() -> None:
    with rig.Hosts(2, 4 * RATE) as hosts:
        stream = measure.Stream(hosts[0], hosts[1], 1000, each=MB)
        stream.came()
        with hosts[1].slow_link(RATE):
            slow = rate_from_now(stream)
            assert slow[1] >= (slow[0] - at_once(RATE)) / RATE
        assert hosts[1].link_rate() == 4 * RATE
        fast = rate_from_now(stream)
        assert fast[0] / fast[1] > 1.5 * RATE


def rate_from_now(stream: measure.Stream) -> tuple[int, float]:
    """Bytes and seconds of an interval that begins after all earlier progress was reported."""
    _, told = stream.came()
    bytes_, seconds = stream.came()
    while seconds < told + 1:
        bytes_, seconds = stream.came()
    later_bytes, later = stream.came()
    while later < seconds + 1:
        later_bytes, later = stream.came()
    return later_bytes - bytes_, later - seconds


# --- cuts ----------------------------------------------------------------------------------------


@needs("hosts")
def test_stream_stalls_while_its_link_is_cut() -> None:
    with rig.Hosts(1, RATE) as hosts, echo(hosts[0]) as (stream, _):
        assert answered(stream, b"before")
        with hosts[0].cut():
            assert not answered(stream, b"during", seconds=1)
        assert stream.recv(100) == b"during"
        hosts[0].cut()
        assert not answered(stream, b"again", seconds=0.2)
        hosts[0].mend()
        assert stream.recv(100) == b"again"
        assert hosts[0].link_rate("in") == hosts[0].link_rate("out") == RATE


@needs("hosts")
@pytest.mark.parametrize("way", ["in", "out"])
def test_one_way_cut_keeps_the_other_direction(way: str) -> None:
    with rig.Hosts(1) as hosts, echo(hosts[0]) as (stream, printed):
        assert answered(stream, b"before") and printed.readline() == "heard\n"
        with hosts[0].cut(way):
            assert not answered(stream, b"during", seconds=1)
            heard = bool(select.select([printed], [], [], 0)[0])
            assert heard == (way == "out")
        assert stream.recv(100) == b"during"


@needs("hosts")
def test_rate_set_on_a_cut_link_applies_after_mend() -> None:
    with rig.Hosts(1) as hosts, echo(hosts[0]) as (stream, _):
        assert answered(stream, b"before")
        with hosts[0].cut():
            hosts[0].set_link_rate(RATE)
            assert not answered(stream, b"during", seconds=0.2)
        assert stream.recv(100) == b"during"
        assert hosts[0].link_rate() == RATE


@needs("hosts")
def test_parted_hosts_reach_all_but_each_other() -> None:
    with rig.Hosts(3) as hosts:
        servers = [f"{host.address}:{listening(host, NAMED, host.name)[1]}" for host in hosts]

        def reaches(host: rig.Host, server: str) -> bool:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return host.run(python(ASKING, server), timeout=1).returncode == 0
            return False

        with hosts[0].part_from(hosts[1]):
            assert not reaches(hosts[0], servers[1]) and not reaches(hosts[1], servers[0])
            assert all(reaches(host, servers[2]) for host in hosts[:2])
        assert reaches(hosts[0], servers[1]) and reaches(hosts[1], servers[0])


def test_unknown_link_direction_is_rejected() -> None:
    end = network.End("none", "none")
    with pytest.raises(ValueError, match="both, in or out"):
        network.Link(end, end).ends("up")


# --- disks and CPUs ------------------------------------------------------------------------------


@needs()
def test_host_link_disk_and_cpu_can_be_slowed() -> None:
    with rig.Hosts(2, "20MB/s", disk_rate="20MB/s", disk_size="32MB", cpu_quota=0.5) as hosts:
        host = hosts[0]
        path = host.disk.path / "written"
        host.run(["sh", "-c", 'echo data > "$0"', path], check=True)
        assert path.read_text() == "data\n"
        with host.slow_disk("1MB/s"), host.slow_cpu(0.1), host.slow_link("2MB/s"):
            rates = (host.disk.rate, host.cpu.quota, host.link_rate())
            assert rates == (MB, 0.1, 2 * MB)
        assert (host.disk.rate, host.cpu.quota) == (20 * MB, 0.5)
        assert host.link_rate("in") == host.link_rate("out") == 20 * MB
        assert hosts[1].disk.path != host.disk.path


@needs("hosts")
def test_missing_host_disk_names_the_remedy() -> None:
    with rig.Hosts(1) as hosts, pytest.raises(rig.RigError, match="disk_rate"):
        hosts[0].slow_disk("1MB/s")


# --- cleanup -------------------------------------------------------------------------------------

EVERYTHING = """
import sys, rig
from rig.cleanup.ledger import ledger
with rig.Hosts(2, "2MB/s", disk_size="32MB", hostnames=True) as hosts:
    hosts[0].start(["sleep", "1000"])
    hosts[1].start(["env", "-i", "setsid", "sleep", "1000"])
    hosts[0].cut()
    print(ledger().guardian.pid, hosts.outside, flush=True)
    sys.stdin.read()
"""


@needs()
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, None])
def test_hosts_are_cleaned_up_however_the_process_ends(how: signal.Signals | None) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", EVERYTHING],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    guardian, outside = process.stdout.readline().split()
    handle = os.pidfd_open(int(guardian))
    assert len(left_by(process.pid)) >= 8
    assert outside in addresses()
    if how is not None:
        process.send_signal(how)
    process.communicate()
    wait_for_end(handle)
    assert left_by(process.pid) == []
    assert outside not in addresses()


def addresses() -> list[str]:
    listed = json.loads(subprocess.check_output(["ip", "-json", "-4", "address", "show"]))
    return [address["local"] for link in listed for address in link["addr_info"]]


@needs("hosts")
def test_hosts_command_runs_a_command() -> None:
    script = "ip -brief address show dev eth0; exit 7"
    command = [sys.executable, "-m", "rig", "hosts", "2", "--link", "20MB/s", "--"]
    done = subprocess.run(
        [*command, "ip", "netns", "exec", "{netns1}", "sh", "-c", f"echo {{1}}; {script}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (7, "")
    address, shown = done.stdout.splitlines()
    assert f" {address}/24" in shown
