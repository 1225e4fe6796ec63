"""Strangers who call a port and never come to the point: silent, or a byte every now and then.

Whoever listens at a port of a network meets them: probes, broken programs, people who mean harm.
None of them knows a secret; what they can cost is what is to be found out.
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
Self = TypeVar("Self", bound="Strangers")

# How the greeting of TLS begins: a record of 512 bytes that is not going to come soon.
TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
SAYINGS = (b"", TLS + bytes(501), os.urandom(512))
"""Each stranger says one of these: nothing, something that may become TLS, and no language."""
CONNECT_SECONDS_MAX = 10


class Stranger:
    """One of them, who says a byte of his at a time."""

    def __init__(self, address: Address, saying: bytes) -> None:
        self.dropped: float | None = None
        self._address = address
        self._saying = saying
        self.call()

    def call(self) -> None:
        self._left = iter(self._saying)
        self._stream = socket.create_connection(self._address, CONNECT_SECONDS_MAX)
        self._stream.setblocking(False)
        self.dropped = None

    def go_on(self) -> None:
        """Says what is next, and notices if nobody is there to hear it."""
        try:
            for byte in self._left:
                self._stream.send(bytes([byte]))
                break
            # A reason is sent before the end; whoever reads no more is told of the end.
            while self._stream.recv(4096):
                pass
            self.hang_up()
        except BlockingIOError:
            pass
        except OSError:
            self.hang_up()

    def hang_up(self) -> None:
        self._stream.close()
        self.dropped = time.monotonic()


class Strangers:
    """`count` of them at each of the addresses, for as long as a `with` lasts.

    Each says a byte every `pause` seconds. Who is dropped calls again `again` seconds later, or not
    at all if that is None; with `give_up` nobody does any more.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        count: int,
        *,
        pause: float = 0.05,
        again: float | None = None,
    ) -> None:
        self._callers = [
            (address, SAYINGS[number % len(SAYINGS)])
            for number in range(count)
            for address in addresses
        ]
        self._pause = pause
        self._again = again
        self._over = threading.Event()
        self._talking = threading.Thread(target=self._talk, daemon=True)
        self._strangers: list[Stranger] = []

    def __enter__(self: Self) -> Self:
        for caller in self._callers:
            self._strangers.append(Stranger(*caller))
        self._talking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._talking.join()
        for stranger in self._strangers:
            stranger.hang_up()

    @property
    def held(self) -> int:
        """How many of them nobody has dropped yet."""
        return sum(stranger.dropped is None for stranger in self._strangers)

    def give_up(self) -> None:
        self._again = None

    def _talk(self) -> None:
        while not self._over.wait(self._pause):
            for stranger in self._strangers:
                if stranger.dropped is None:
                    stranger.go_on()
                elif self._is_due(stranger.dropped):
                    # Nobody may be listening any more, or have time.
                    with contextlib.suppress(OSError):
                        stranger.call()

    def _is_due(self, dropped: float) -> bool:
        again = self._again
        return again is not None and time.monotonic() >= dropped + again
