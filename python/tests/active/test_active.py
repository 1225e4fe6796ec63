"""Active messages between two processes: delivery, returns, credits, and peers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import euphrates as eu
from euphrates import active

LIMIT = 60
"""Seconds that no step takes on a crowded machine."""
SERVER = """
import sys
from euphrates import active

token, address, security = sys.argv[1:]
server = active.Endpoint("server", token, listen=address, security=security)
region = server.region(100_000)

@server.handler(1)
def echo(token, message):
    token.reply(1, *message.words, data=message.data)

@server.handler(2)
def tell(token, message):
    token.reply(2, region.key, len(region))

@server.handler(3)
def checked(token, message):
    key, offset, count = message.placed
    token.reply(3, offset, count, data=region.read(offset, count))

@server.handler(4)
def decline(token, message):
    token.decline()

@server.handler(5)
def fail(token, message):
    raise ValueError("on purpose")

@server.handler(6)
def stop(token, message):
    server.stop()

@server.handler(7)
def misuse(token, message):
    try:
        server.request(message.peer, 1)
    except Exception as error:
        token.reply(1, data=f"{type(error).__name__}: {error}".encode())

print(server.address, flush=True)
while True:
    try:
        server.serve()
        break
    except ValueError as error:
        assert str(error) == "on purpose"
server.close()
"""


class Server:
    """A server in a process of its own, and a client of it with what it has received."""

    def __init__(self, address: str, security: str, credits: int = 64) -> None:
        token = active.new_token()
        command = [sys.executable, "-c", SERVER, token, address, security]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.client = active.Endpoint("client", token, security=security, credits=credits)
        self.peer = self.client.connect(self.address, within=LIMIT)
        self.replies: list[tuple[int, tuple[int, ...], bytes]] = []
        self.returned: list[active.Returned] = []
        for number in (1, 2, 3):
            self.client.reply_handler(number)(self.receive(number))
        self.client.returned_handler(self.returned.append)

    def receive(self, number: int) -> object:
        return lambda message: self.replies.append((number, message.words, message.data))

    def settle(self) -> None:
        deadline = time.monotonic() + LIMIT
        while self.client.unsettled:
            self.client.wait(LIMIT)
            assert time.monotonic() < deadline

    def end(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["unix", "tcp", "tls"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    address = f"unix:{tmp_path}/socket" if request.param == "unix" else "127.0.0.1:0"
    server = Server(address, "tls" if request.param == "tls" else "token")
    yield server
    server.end()


def test_short_medium_and_placed_data_reach_another_process(server: Server) -> None:
    client, peer = server.client, server.peer
    client.request(peer, 1, 1, 2, 2**32 - 1)
    client.request(peer, 1, data=b"x" * 65_536)
    client.request(peer, 2)
    server.settle()
    key, size = server.replies[2][1][:2]
    assert size == 100_000
    placed = os.urandom(60_000)
    client.request(peer, 3, data=placed, to=(key, 40_000))
    server.settle()
    assert server.replies[0] == (1, (1, 2, 2**32 - 1, 0, 0, 0, 0, 0), b"")
    assert server.replies[1][2] == b"x" * 65_536
    assert server.replies[3] == (3, (40_000, 60_000, 0, 0, 0, 0, 0, 0), placed)
    assert not server.returned


def test_what_cannot_be_delivered_returns_once_with_its_reason(server: Server) -> None:
    client, peer = server.client, server.peer
    client.request(peer, 99, 5, data=b"some")
    client.request(peer, 4)
    client.request(peer, 5)
    client.request(peer, 3, data=b"ab", to=(77, 0))
    client.request(peer, 2)
    server.settle()
    key = server.replies[0][1][0]
    client.request(peer, 3, data=b"ab", to=(key, 99_999))
    client.request(peer, 1, data=b"x" * 65_537)
    server.settle()
    client.poll()
    reasons = [back.reason for back in server.returned]
    expected = ["no handler", "declined", "declined", "no region", "region too small", "too large"]
    assert sorted(reasons) == sorted(expected)
    first = server.returned[0]
    assert (first.peer, first.handler, first.words[0], first.data) == (peer, 99, 5, b"some")
    assert "no such handler for a request" in first.text
    assert [back.to for back in server.returned if back.reason == "no region"] == [(77, 0)]


def test_killed_process_returns_what_it_has_not_settled(server: Server) -> None:
    client, peer = server.client, server.peer
    os.kill(server.process.pid, signal.SIGSTOP)
    for number in range(10):
        client.request(peer, 1, number, data=b"kept")
    server.process.kill()
    deadline = time.monotonic() + LIMIT
    while client.peers:
        client.wait(LIMIT)
        assert time.monotonic() < deadline
    client.request(peer, 1, 10, data=b"kept")
    client.poll()
    assert [back.words[0] for back in server.returned] == list(range(11))
    assert {back.reason for back in server.returned} == {"peer lost"}
    assert {back.data for back in server.returned} == {b"kept"}
    assert list(client.losses) == [peer] and not server.replies


def test_process_that_closes_returns_requests_as_not_handled(server: Server) -> None:
    client, peer = server.client, server.peer
    client.request(peer, 6)
    deadline = time.monotonic() + LIMIT
    while client.peers:
        client.wait(LIMIT)
        assert time.monotonic() < deadline
    client.request(peer, 1)
    client.poll()
    assert [back.reason for back in server.returned] == ["no endpoint"]
    assert server.process.wait(LIMIT) == 0 and client.losses == {}


def test_handler_that_uses_its_endpoint_is_told_so(server: Server) -> None:
    server.client.request(server.peer, 7)
    server.settle()
    text = server.replies[0][2].decode()
    assert text.startswith("UsageError: a handler used its endpoint") and "after `poll`" in text


def test_requests_wait_for_credits_and_all_arrive(tmp_path: Path) -> None:
    server = Server(f"unix:{tmp_path}/socket", "token", credits=2)
    for number in range(2_000):
        server.client.request(server.peer, 1, number)
        assert server.client.unsettled <= 2
    server.settle()
    assert [words[0] for _, words, _ in server.replies] == list(range(2_000))
    server.end()


def test_other_threads_run_while_one_waits(tmp_path: Path) -> None:
    server = Server(f"unix:{tmp_path}/socket", "token")
    waiting = threading.Thread(target=lambda: [server.client.wait(LIMIT) for _ in range(1)])
    waiting.start()
    server.client.request(server.peer, 1, 7)
    waiting.join(LIMIT)
    assert not waiting.is_alive()
    server.settle()
    assert server.replies[0][1][0] == 7
    server.end()


def test_exception_of_a_handler_is_that_of_poll(tmp_path: Path) -> None:
    server = Server(f"unix:{tmp_path}/socket", "token")

    @server.client.reply_handler(1)
    def fail(message: active.Message) -> None:
        raise KeyError(message.words[0])

    server.client.request(server.peer, 1, 3)
    with pytest.raises(KeyError, match="3"):
        server.settle()
    server.end()


def test_wrong_use_names_the_remedy(tmp_path: Path) -> None:
    token = active.new_token()
    with active.Endpoint("one", token, listen=f"unix:{tmp_path}/one") as one:
        for wrong in (
            lambda: active.Endpoint("two", token, security="none"),
            lambda: active.Endpoint("two", token, credits=0),
            lambda: active.Endpoint("two", "short"),
            lambda: one.request(0, 1, 2**32),
            lambda: one.request(0, 1, *range(9)),
            lambda: one.request(0, 1, to=(1, 0)),
            lambda: one.request(3, 1),
            lambda: one.region(10).read(5, 6),
            lambda: active.Endpoint("two", active.new_token()).connect(str(one.address)),
        ):
            with pytest.raises(eu.UsageError) as error:
                wrong()
            assert error.value.remedy
        with pytest.raises(eu.ResourceError, match="cannot be reached"):
            one.connect(f"unix:{tmp_path}/none")
    with pytest.raises(eu.UsageError, match="closed"):
        one.poll()


def test_token_is_for_one_reply_within_the_handler() -> None:
    token = active.ReplyToken()
    token.reply(1)
    with pytest.raises(eu.UsageError, match="answered"):
        token.decline()
    token._end()
    with pytest.raises(eu.UsageError, match="ended"):
        token.reply(1)
