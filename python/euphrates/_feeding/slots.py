"""Shared memory for batches on one host: the producer writes Arrow IPC, consumers map it.

A slot is a sealed memory file. It is used again when no consumer refers to its bytes any more, so
its pages need to be mapped and zeroed by the kernel only once.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from typing import Any

import pyarrow as pa

_SLOT_BYTES = 1 << 20
"""Sizes of slots are multiples of this."""
_FREE_MAX = 16


class Slot:
    """A memory file, and how the producer sees it."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.fd = os.memfd_create("euphrates-batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        # A file that shrinks would kill the processes that have mapped it.
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        self.map = mmap.mmap(self.fd, size)
        self.holders: set[object] = set()
        """Its references: the epoch and the connections that may still read its bytes."""
        self.is_reusable = self.is_open = True

    def close(self) -> None:
        self.is_open = False
        os.close(self.fd)


class SlotPool:
    """The producer's slots, for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Slot] = []
        self._made = 0

    def take(self, size: int, holder: object) -> Slot:
        """A slot of at least this size."""
        with self._lock:
            fitting = [slot for slot in self._free if slot.size >= size]
            if fitting:
                slot = min(fitting, key=lambda one: one.size)
                self._free.remove(slot)
            else:
                self._made += 1
                slot = Slot(self._made, -(-size // _SLOT_BYTES) * _SLOT_BYTES)
            slot.holders.add(holder)
            return slot

    def hold(self, slot: Slot, holder: object) -> None:
        with self._lock:
            slot.holders.add(holder)

    def drop(self, slot: Slot, holder: object, *, reusable: bool = True) -> None:
        """A holder no longer reads the slot. One whose reader has gone, perhaps with batches that
        refer to it, is not used again. A few that nobody reads are kept, the most recent ones.
        """
        with self._lock:
            slot.holders.discard(holder)
            slot.is_reusable &= reusable
            if slot.holders:
                return
            if not slot.is_reusable:
                return slot.close()
            self._free.append(slot)
            if len(self._free) > _FREE_MAX:
                self._free.pop(0).close()

    def close(self) -> None:
        with self._lock:
            while self._free:
                self._free.pop().close()


def encoded_size(batch: pa.RecordBatch) -> int:
    """The bytes of a batch as an Arrow stream."""
    counted = pa.MockOutputStream()
    _write(batch, counted)
    return int(counted.size())


def encode(batch: pa.RecordBatch, slot: Slot) -> None:
    """Writes a batch to a slot, as an Arrow stream."""
    sink = pa.FixedSizeBufferWriter(pa.py_buffer(slot.map))
    _write(batch, sink)
    sink.close()


def _write(batch: pa.RecordBatch, sink: Any) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def decode(data: pa.Buffer) -> pa.RecordBatch:
    """The batch of an Arrow stream, which refers to the bytes of the stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


class _Lease:
    """Keeps a slot for a batch; when the last array of the batch has gone, the slot is released."""

    def __init__(self, number: int, released: list[int], mapped: pa.Buffer) -> None:
        self._number = number
        self._released = released
        self._mapped = mapped

    def __del__(self) -> None:
        self._released.append(self._number)


class MappedSlots:
    """A consumer's slots: each is mapped once."""

    def __init__(self) -> None:
        self._maps: dict[int, pa.Buffer] = {}
        self.released: list[int] = []
        """Slots whose batches are no longer used, for the producer. Any thread may append."""

    def add(self, number: int, fd: int) -> None:
        size = os.fstat(fd).st_size
        mapped = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)
        os.close(fd)
        self._maps[number] = pa.py_buffer(mapped)

    def forget(self, number: int) -> None:
        """A slot that the producer has closed. Batches that refer to it stay valid."""
        self._maps.pop(number, None)

    def batch(self, number: int, size: int) -> pa.RecordBatch:
        mapped = self._maps[number]
        lease = _Lease(number, self.released, mapped)
        return decode(pa.foreign_buffer(mapped.address, size, base=lease))

    def take_released(self) -> list[int]:
        released = []
        while self.released:
            released.append(self.released.pop())
        return released
