"""A connection of the producer to one taker: what has arrived and what is still to be sent."""

from __future__ import annotations

import array
import socket
from collections import deque
from dataclasses import dataclass
from typing import Any

from .epoch import Taker
from .frames import Messages, message
from .slots import Slot

_READ_BYTES = 1 << 16
_SENT_AT_ONCE_BYTES = 1 << 20


@dataclass
class _Outgoing:
    data: memoryview
    fd: int | None = None


class Peer:
    """A connection that never blocks: what the socket does not take is sent when it can be."""

    def __init__(self, connection: socket.socket, nonce: str, now: float) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.nonce = nonce
        self.taker: Taker | None = None
        self.messages = Messages()
        self.heard_at = self.sent_at = now
        self.wants = 0
        """Units that it has asked for and not got."""
        self.asked_at = now
        self.in_epoch: int | None = None
        self.begins: dict[str, Any] | None = None
        """Its request for the next epoch, which has not begun."""
        self.begins_since = 0.0
        self.mapped: dict[int, Slot] = {}
        """The slots that it has mapped, by number."""
        self.reads: dict[int, Slot] = {}
        """Those with batches that it may still use."""
        self.is_local = connection.family == socket.AF_UNIX
        self._outgoing: deque[_Outgoing] = deque()

    def fileno(self) -> int:
        return self.socket.fileno()

    def has_to_send(self) -> bool:
        return bool(self._outgoing)

    def tell(self, value: dict[str, Any], now: float, *, fd: int | None = None) -> None:
        self._outgoing.append(_Outgoing(memoryview(message(value)), fd))
        self.sent_at = now

    def append_body(self, body: memoryview) -> None:
        """The bytes behind the last message."""
        self._outgoing.append(_Outgoing(body))

    def flush(self) -> None:
        """Sends what the socket takes now."""
        while self._outgoing:
            first = self._outgoing[0]
            part = first.data[:_SENT_AT_ONCE_BYTES]
            try:
                if first.fd is None:
                    sent = self.socket.send(part)
                else:
                    rights = array.array("i", [first.fd])
                    control = (socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)
                    sent = self.socket.sendmsg([part], [control])
                    first.fd = None
            except BlockingIOError:
                return
            first.data = first.data[sent:]
            if not first.data:
                self._outgoing.popleft()

    def read(self, now: float) -> bool:
        """Takes what has arrived; false at the end of the connection."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        self.messages.data += data
        self.heard_at = now
        return bool(data)

    def close(self) -> None:
        self._outgoing.clear()
        self.socket.close()
