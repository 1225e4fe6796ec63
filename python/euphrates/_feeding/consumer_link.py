"""A consumer's connection to the process that feeds it."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
from collections import deque
from typing import Any, NamedTuple

import pyarrow as pa

from ..errors import ResourceError, UsageError, made
from .frames import (
    FDS_MAX,
    MESSAGE_BYTES_MAX,
    NONCE_BYTES,
    PROTOCOL,
    Messages,
    is_proof,
    keep_alive,
    local_name,
    message,
    new_nonce,
    proof,
    tcp_address,
)
from .slots import MappedSlots, decode

_GREETING_SECONDS = 10.0
_SILENCE_SECONDS = 30.0
"""A producer says at least every few seconds that it is there."""
_READ_BYTES = 1 << 16
_CONTROL_BYTES = socket.CMSG_SPACE(FDS_MAX * array.array("i").itemsize)


class Received(NamedTuple):
    """A unit that has arrived."""

    epoch: int
    unit: int
    batch: pa.RecordBatch
    digest: int | None


class ConsumerLink:
    """An authenticated connection. Every wait is bounded: a producer that has died, or that says
    nothing for half a minute, is an error.
    """

    def __init__(self, address: str, token: str, taker: tuple[int, int]) -> None:
        self._place = f"consumer {taker[0]}"
        self._pid = os.getpid()
        self._messages = Messages()
        self._fds: deque[int] = deque()
        self._slots = MappedSlots()
        self.is_local = local_name(address) is not None
        self._socket = self._connected(address)
        try:
            self._greet(token, taker)
        except BaseException:
            self.close()
            raise

    def is_own(self) -> bool:
        """Whether this process has opened it; a forked child must open its own."""
        return self._pid == os.getpid()

    def send(self, value: dict[str, Any]) -> None:
        if released := self._slots.take_released():
            value = {**value, "released": released}
        try:
            self._socket.sendall(message(value))
        except OSError as error:
            # The producer may have said why, before it closed the connection.
            self._drain(error)

    def receive(self) -> Received | None:
        """The unit that was asked for, or none at the end of the epoch."""
        while True:
            answer = self._next()
            if "error" in answer:
                self.close()
                raise _error_of(answer["error"])
            for number in answer.get("closed", ()):
                self._slots.forget(number)
            if "end" in answer:
                return None
            if "unit" in answer:
                batch = self._batch(answer)
                digest = answer["digest"]
                told = None if digest is None else int(digest)
                return Received(answer["epoch"], answer["unit"], batch, told)

    def ask(self, value: dict[str, Any]) -> Any:
        """A question that is answered at once. Units that arrive before the answer are let go."""
        self.send(value)
        while "answer" not in (answer := self._next()):
            if "error" in answer:
                self.close()
                raise _error_of(answer["error"])
            if "unit" in answer:
                self._batch(answer)
        return answer["answer"]

    def close(self) -> None:
        self._socket.close()
        while self._fds:
            os.close(self._fds.popleft())

    def _connected(self, address: str) -> socket.socket:
        name = local_name(address)
        try:
            if name is not None:
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.settimeout(_GREETING_SECONDS)
                connection.connect(name)
            else:
                target = tcp_address(address)
                connection = socket.create_connection(target, timeout=_GREETING_SECONDS)
                keep_alive(connection, _SILENCE_SECONDS)
        except OSError as error:
            gone = error.errno in (errno.ENOENT, errno.ECONNREFUSED)
            raise ResourceError(
                f"{address} cannot be reached: {error.strerror or error}",
                place=self._place,
                remedy="the split was closed, or the process that made it has ended: split again"
                if gone
                else "check the address, and that this host can reach it",
            ) from None
        return connection

    def _greet(self, token: str, taker: tuple[int, int]) -> None:
        theirs = self._next().get("nonce")
        mine = new_nonce()
        nonces = (theirs if isinstance(theirs, str) else "", mine)
        shown = proof(token, "consumer", nonces, taker)
        self.send({"protocol": PROTOCOL, "nonce": mine, "taker": [*taker], "proof": shown})
        answer = self._next()
        if "error" in answer:
            raise _error_of(answer["error"])
        if len(nonces[0]) != 2 * NONCE_BYTES or not is_proof(
            answer.get("proof"), proof(token, "producer", nonces, taker)
        ):
            raise UsageError(
                "the process at this address does not have the token",
                place=self._place,
                remedy="take address and token from the same split",
            )
        self._messages.bytes_max = MESSAGE_BYTES_MAX
        self._socket.settimeout(_SILENCE_SECONDS)

    def _next(self) -> dict[str, Any]:
        while (found := self._messages.next()) is None:
            self._messages.data += self._read()
        return found

    def _read(self) -> bytes:
        try:
            if not self.is_local:
                data = self._socket.recv(_READ_BYTES)
            else:
                data, fds = _received_with_fds(self._socket)
                self._fds.extend(fds)
        except OSError as error:
            raise self._lost(error) from None
        if not data:
            raise self._lost(None)
        return data

    def _batch(self, answer: dict[str, Any]) -> pa.RecordBatch:
        size = int(answer["bytes"])
        slot = answer.get("slot")
        if slot is None:
            return decode(self._body(size))
        if answer.get("new"):
            self._slots.add(slot, self._fds.popleft())
        return self._slots.batch(slot, size)

    def _body(self, size: int) -> pa.Buffer:
        body = pa.allocate_buffer(size)
        view = memoryview(body).cast("B")
        early = min(size, len(self._messages.data))
        view[:early] = self._messages.data[:early]
        del self._messages.data[:early]
        while early < size:
            try:
                read = self._socket.recv_into(view[early:])
            except OSError as error:
                raise self._lost(error) from None
            if read == 0:
                raise self._lost(None)
            early += read
        return body

    def _drain(self, error: OSError) -> None:
        """Reads what the producer said last; if that is no error, the connection is lost."""
        told = None
        with contextlib.suppress(ResourceError):
            while told is None:
                told = self._next().get("error")
        self.close()
        raise self._lost(error) if told is None else _error_of(told)

    def _lost(self, error: OSError | None) -> ResourceError:
        self.close()
        silent = isinstance(error, TimeoutError)
        what = "does not answer" if silent else "has closed the connection, or has ended"
        return ResourceError(
            f"the process that feeds it {what}",
            place=self._place,
            remedy="see why that process ended; split again, with `state` to resume",
        )


def _received_with_fds(connection: socket.socket) -> tuple[bytes, list[int]]:
    data, controls, _, _ = connection.recvmsg(_READ_BYTES, _CONTROL_BYTES, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, control in controls:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(control[: len(control) - len(control) % fds.itemsize])
    return data, list(fds)


def _error_of(told: Any) -> BaseException:
    fields = told if isinstance(told, dict) else {"message": str(told)}
    place = [fields["place"]] if fields.get("place") else []
    kind = str(fields.get("kind", "failed"))
    return made(kind, str(fields.get("message")), place, fields.get("remedy"), fields.get("row"))
