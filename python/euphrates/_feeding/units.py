"""Units: the numbered batches that consumers take, and sets of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from ..errors import CorruptError

DIGEST = "__euphrates_digest"
"""A column with a hash of each row, of streams that can be resumed. Consumers do not see it."""
_DIGEST_MODULUS = 1 << 64


class Unit(NamedTuple):
    """A batch that one consumer takes as a whole."""

    number: int
    batch: pa.RecordBatch
    digest: int | None
    """Of streams that can be resumed: the sum of the hashes of its rows modulo 2^64, which does not
    depend on their order.
    """


def units(batches: Iterable[pa.RecordBatch], rows: int | None) -> Iterator[Unit]:
    """The batches of a stream, numbered; with `rows`, cut into units of this many rows, the last of
    which may have fewer.
    """
    for number, batch in enumerate(batches if rows is None else sliced(batches, rows)):
        digest = None
        if DIGEST in batch.schema.names:
            column = batch.schema.names.index(DIGEST)
            hashes = batch.column(column).to_numpy(zero_copy_only=False)
            digest = int(hashes.sum(dtype="uint64"))
            batch = batch.remove_column(column)
        yield Unit(number, batch, digest)


def sliced(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of this many rows; the last may have fewer. Rows are copied only where a batch ends
    within one.
    """
    parts: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        offset = 0
        while batch.num_rows - offset >= missing:
            parts.append(batch.slice(offset, missing))
            yield whole(parts)
            offset, parts, missing = offset + missing, [], rows
        if offset < batch.num_rows:
            parts.append(batch.slice(offset))
            missing -= batch.num_rows - offset
    if parts:
        yield whole(parts)


def whole(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def rounds(stream: Iterable[Unit], consumers: int, rows: int | None) -> Iterator[Unit]:
    """Whole rounds: a unit for every consumer. With `rows`, units of fewer rows, and those of the
    last round if it is not whole, are dropped. Otherwise the rows of the last round are divided
    evenly, and fewer rows than there are consumers are dropped.
    """
    waiting: list[Unit] = []
    for unit in stream:
        if rows is not None and unit.batch.num_rows < rows:
            continue
        waiting.append(unit)
        if len(waiting) == consumers:
            yield from waiting
            waiting = []
    if waiting and rows is None:
        rest = whole([unit.batch for unit in waiting])
        share = rest.num_rows // consumers
        for position in range(consumers if share else 0):
            part = rest.slice(position * share, share)
            yield Unit(waiting[0].number + position, part, None)


class UnitSet:
    """Units that have been consumed, as ranges with the sums of their digests."""

    def __init__(self, ranges: Iterable[tuple[int, int, int]] = ()) -> None:
        self._ranges = list(ranges)

    def add(self, unit: int, digest: int) -> None:
        self._ranges.append((unit, unit + 1, digest))

    def ranges(self) -> list[tuple[int, int, int]]:
        """First unit, unit behind the last, digest; in order, neighbours united."""
        united: list[tuple[int, int, int]] = []
        for first, end, digest in sorted(self._ranges):
            if united and united[-1][1] == first:
                begin, _, before = united.pop()
                first, digest = begin, (before + digest) % _DIGEST_MODULUS
            united.append((first, end, digest))
        self._ranges = united
        return list(united)


class Taken(NamedTuple):
    """A batch for the program, and the units of which it has the last rows; no batch for rows that
    are dropped.
    """

    batch: pa.RecordBatch | None
    completed: list[Any]


def resliced(stream: Iterable[Any], rows: int, drop_last: bool) -> Iterator[Taken]:
    """The batches of received units, cut into batches of this many rows."""
    parts: list[pa.RecordBatch] = []
    completed: list[Any] = []
    missing = rows
    for unit in stream:
        offset, end = 0, unit.batch.num_rows
        while end - offset >= missing:
            parts.append(unit.batch.slice(offset, missing))
            offset += missing
            if offset == end:
                completed.append(unit)
            yield Taken(whole(parts), completed)
            parts, completed, missing = [], [], rows
        if offset < end or end == 0:
            parts += [unit.batch.slice(offset)] if offset < end else []
            missing -= end - offset
            completed.append(unit)
    if completed:
        yield Taken(None if drop_last or not parts else whole(parts), completed)


def without(stream: Iterable[Unit], done: list[tuple[int, int, int]]) -> Iterator[Unit]:
    """The units that are not in these ranges, which are in order. Rows of a range that differ from
    those that were consumed are an error: the rest of the stream differs, too.
    """
    remaining = iter(done)
    current = next(remaining, None)
    digest = 0
    for unit in stream:
        if current is None or unit.number < current[0]:
            yield unit
            continue
        digest = (digest + (unit.digest or 0)) % _DIGEST_MODULUS
        if unit.number + 1 == current[1]:
            if digest != current[2]:
                raise _differs(current)
            current, digest = next(remaining, None), 0
    if current is not None:
        raise _differs(current)


def _differs(expected: tuple[int, int, int]) -> CorruptError:
    return CorruptError(
        f"units {expected[0]} to {expected[1] - 1} have other rows than when they were consumed",
        remedy="resume with the same rows and `batch_size`, in an order by columns that distinguish"
        " all rows, like `.shuffle(seed)`",
    )
