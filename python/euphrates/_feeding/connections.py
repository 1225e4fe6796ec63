"""The connections of a producer: it accepts consumers that have the token, reads and writes without
waiting for any of them.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from typing import Any

from ..errors import EuphratesError, UsageError
from .epoch import Taker
from .frames import MESSAGE_BYTES_MAX, PROTOCOL, error_json, is_proof, keep_alive, new_nonce, proof
from .peer import Peer

_HEARTBEAT_SECONDS = 2.0
_GREETING_SECONDS = 10.0
_STRANGERS_MAX = 64
"""Connections that have not proved yet that they have the token."""


class Connections:
    """Listening sockets and open connections, for one thread."""

    def __init__(
        self, listeners: list[socket.socket], token: str, consumers: int, timeout: float
    ) -> None:
        self._listeners = listeners
        self._token = token
        self._consumers = consumers
        self._timeout = timeout
        self._peers: set[Peer] = set()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for one in [*listeners, self._wake_reader, self._wake_writer]:
            one.setblocking(False)
        for one in [*listeners, self._wake_reader]:
            self._selector.register(one, selectors.EVENT_READ, one)

    def abandon(self) -> None:
        """Closes the sockets: at the end, and in a forked child, whose copies would keep the
        connections of consumers open when the parent has ended.
        """
        for one in [*self._listeners, self._wake_reader, self._wake_writer]:
            one.close()
        for peer in self._peers:
            peer.socket.close()
        self._selector.close()

    # For the class that serves the consumers

    def _handle(self, peer: Peer, taker: Taker, message: dict[str, Any], now: float) -> None:
        raise NotImplementedError

    def _greeted(self, taker: Taker) -> None:
        raise NotImplementedError

    def _dropped(self, peer: Peer) -> None:
        raise NotImplementedError

    # Inside

    def _wake(self) -> None:
        # If it is full, the loop wakes anyway.
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"x")

    def _serve_connections(
        self, events: list[tuple[selectors.SelectorKey, int]], now: float
    ) -> None:
        for key, mask in events:
            if isinstance(key.data, Peer):
                if mask & selectors.EVENT_READ:
                    self._read(key.data, now)
            else:
                self._accept(key.data, now)

    def _tell_waiting(self, now: float) -> None:
        """Shows consumers that wait that this process lives, and ends strangers' connections."""
        for peer in list(self._peers):
            if peer.taker is None and now > peer.heard_at + _GREETING_SECONDS:
                self._drop(peer)
            elif peer.wants and now > peer.sent_at + _HEARTBEAT_SECONDS:
                peer.tell({"wait": True}, now)

    def _accept(self, ready: socket.socket, now: float) -> None:
        with contextlib.suppress(OSError):
            if ready is self._wake_reader:
                ready.recv(4096)
                return
            connection, _ = ready.accept()
            if sum(peer.taker is None for peer in self._peers) >= _STRANGERS_MAX:
                connection.close()
                return
            if connection.family != socket.AF_UNIX:
                keep_alive(connection, self._timeout)
            peer = Peer(connection, new_nonce(), now)
            peer.tell({"protocol": PROTOCOL, "nonce": peer.nonce}, now)
            self._peers.add(peer)
            self._selector.register(peer, selectors.EVENT_READ, peer)

    def _read(self, peer: Peer, now: float) -> None:
        try:
            open_still = peer.read(now)
            while (message := peer.messages.next()) is not None:
                if peer.taker is None:
                    self._greet(peer, message, now)
                else:
                    self._handle(peer, peer.taker, message, now)
        except (EuphratesError, OSError, ValueError, KeyError, TypeError):
            # What no consumer of this version sends; or the connection has broken.
            open_still = False
        if not open_still:
            self._drop(peer)

    def _flush(self, peer: Peer) -> None:
        try:
            peer.flush()
        except OSError:
            return self._drop(peer)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.has_to_send() else 0)
        if self._selector.get_key(peer).events != wanted:
            self._selector.modify(peer, wanted, peer)

    def _greet(self, peer: Peer, message: dict[str, Any], now: float) -> None:
        taker = Taker(*(int(number) for number in message["taker"]))
        nonces = (peer.nonce, str(message["nonce"]))
        expected = proof(self._token, "consumer", nonces, taker)
        if not is_proof(message["proof"], expected):
            return self._reject(
                peer,
                UsageError(
                    "the token was not accepted",
                    place=f"consumer {taker.consumer}",
                    remedy="take address and token from the same split, which must still be open",
                ),
            )
        if not 0 <= taker.consumer < self._consumers or message["protocol"] != PROTOCOL:
            last = self._consumers - 1
            error = f"there is no consumer {taker.consumer}, or it is of another version"
            return self._reject(peer, UsageError(error, remedy=f"known: consumers 0 to {last}"))
        if any(other.taker == taker for other in self._peers):
            return self._reject(
                peer,
                UsageError(
                    f"consumer {taker.consumer} is connected already",
                    remedy="give each process a consumer of its own",
                ),
            )
        peer.taker = taker
        peer.messages.bytes_max = MESSAGE_BYTES_MAX
        peer.tell({"proof": proof(self._token, "producer", nonces, taker)}, now)
        self._greeted(taker)

    def _reject(self, peer: Peer, error: EuphratesError) -> None:
        peer.tell({"error": error_json(error)}, time.monotonic())
        self._flush(peer)
        self._drop(peer)

    def _drop(self, peer: Peer) -> None:
        """Ends a connection."""
        if peer not in self._peers:
            return
        self._peers.discard(peer)
        self._selector.unregister(peer)
        peer.close()
        self._dropped(peer)
