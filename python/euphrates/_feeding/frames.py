"""Length-prefixed JSON messages between a producer and its consumers, and their authentication."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import struct
from typing import Any

from ..errors import CorruptError, EuphratesError, UsageError

PROTOCOL = 1
GREETING_BYTES_MAX = 4096
"""The length of a message before the other end has proved that it has the token."""
MESSAGE_BYTES_MAX = 64 << 20
"""The length of later messages. The longest have the state of a consumer."""
NONCE_BYTES = 32
FDS_MAX = 8
"""File descriptors that one read may receive."""

LOCAL = "unix:"

_LENGTH = struct.Struct(">I")
_SHOWN_MAX = 100


def message(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text


class Messages:
    """The messages in a stream of bytes, of which some may follow a message as its body."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.bytes_max = GREETING_BYTES_MAX

    def next(self) -> dict[str, Any] | None:
        """The next message, if it has arrived."""
        if len(self.data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self.data)
        if length > self.bytes_max:
            raise CorruptError(f"a message of {length} bytes: this is no consumer or no producer")
        if len(self.data) < _LENGTH.size + length:
            return None
        text = bytes(self.data[_LENGTH.size : _LENGTH.size + length])
        del self.data[: _LENGTH.size + length]
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise CorruptError("a message that is no JSON object: no consumer or no producer")
        return value


def proof(token: str, role: str, nonces: tuple[str, str], taker: tuple[int, int]) -> str:
    """What only an end with the token can answer to the other's nonce. The token is never sent."""
    text = "\0".join(["euphrates-split", role, *nonces, *map(str, taker)])
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_proof(given: Any, expected: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(given.encode(), expected.encode())


def new_nonce() -> str:
    return os.urandom(NONCE_BYTES).hex()


def tcp_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[HOST]:PORT`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(
            f"`{text[:_SHOWN_MAX]}` is no address", remedy='write "HOST:PORT", like "10.0.0.1:7000"'
        )
    return host, int(port)


def local_name(address: str) -> str | None:
    """The name of a socket on this host, of an address like `unix:NAME`. It is an abstract name:
    it ends with the process, and leaves no file.
    """
    return f"\0{address.removeprefix(LOCAL)}" if address.startswith(LOCAL) else None


def keep_alive(connection: socket.socket, seconds: float) -> None:
    """Lets the kernel end a TCP connection whose other host has gone, after about this time."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    third = max(1, int(seconds / 3))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, third)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, third)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def error_json(error: EuphratesError) -> dict[str, Any]:
    """An error as a message has it."""
    return {
        "kind": error.kind,
        "message": error.message,
        "place": error.place,
        "remedy": error.remedy,
        "row": error.row,
    }
