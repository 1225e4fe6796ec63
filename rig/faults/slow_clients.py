"""Slow clients (slow-loris): connections that send nothing, or one byte at a time.

Every port of a network meets such clients: probes, broken programs, attackers. They hold no secret;
tests measure what they cost the server.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import TypeVar

Address = tuple[str, int]
Self = TypeVar("Self", bound="SlowClients")

# The beginning of a TLS greeting: the header of a record of 512 bytes.
TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
PAYLOADS = (b"", TLS + bytes(501), os.urandom(512))
"""Each client sends one of these: nothing, an incomplete TLS greeting, or random bytes."""
CONNECT_SECONDS_MAX = 10


class SlowClient:
    """One connection that sends its payload byte by byte."""

    def __init__(self, address: Address, payload: bytes) -> None:
        self.dropped: float | None = None
        self._address = address
        self._payload = payload
        self.connect()

    def connect(self) -> None:
        self._left = iter(self._payload)
        self._stream = socket.create_connection(self._address, CONNECT_SECONDS_MAX)
        self._stream.setblocking(False)
        self.dropped = None

    def send_byte(self) -> None:
        """Sends the next byte, and notes when the server has closed the connection."""
        try:
            for byte in self._left:
                self._stream.send(bytes([byte]))
                break
            # The server sends a reason before it closes: read on until the end.
            while self._stream.recv(4096):
                pass
            self.close()
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def close(self) -> None:
        self._stream.close()
        self.dropped = time.monotonic()


class SlowClients:
    """`count` slow clients at each of the addresses within a `with`.

    Each sends a byte every `pause` seconds. A dropped client reconnects `again` seconds later, or
    never if that is None; after `give_up` none reconnects.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        count: int,
        *,
        pause: float = 0.05,
        again: float | None = None,
    ) -> None:
        self._planned = [
            (address, PAYLOADS[number % len(PAYLOADS)])
            for number in range(count)
            for address in addresses
        ]
        self._pause = pause
        self._again = again
        self._over = threading.Event()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._clients: list[SlowClient] = []

    def __enter__(self: Self) -> Self:
        for planned in self._planned:
            self._clients.append(SlowClient(*planned))
        self._sender.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._sender.join()
        for client in self._clients:
            client.close()

    @property
    def held(self) -> int:
        """The number of clients that the servers have not dropped."""
        return sum(client.dropped is None for client in self._clients)

    def give_up(self) -> None:
        self._again = None

    def _send(self) -> None:
        while not self._over.wait(self._pause):
            for client in self._clients:
                if client.dropped is None:
                    client.send_byte()
                elif self._is_due(client.dropped):
                    # The server may have ended, or be too busy to accept.
                    with contextlib.suppress(OSError):
                        client.connect()

    def _is_due(self, dropped: float) -> bool:
        again = self._again
        return again is not None and time.monotonic() >= dropped + again
