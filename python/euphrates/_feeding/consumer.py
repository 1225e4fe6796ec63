"""A consumer of a split: an iterable of batches, which can be sent to any process."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .._user_code.rows import rows_of
from ..errors import EuphratesError, ResourceError, UsageError
from .batch_formats import AHEAD_MAX, BatchFormats
from .consumer_link import ConsumerLink, Received
from .frames import LOCAL
from .resuming import merged, state_of
from .statistics import shown
from .units import Taken, UnitSet, resliced

if TYPE_CHECKING:
    from ..queries import Query

_SHORT_SECONDS = 0.005


class Consumer(BatchFormats):
    """One of the consumers of a split. Iterating over it takes batches from the queue that all
    consumers share, as pyarrow record batches; iterating again is the next epoch.

    A consumer can be pickled, sent to another process or given to a Ray actor. A program that was
    started otherwise makes one from the address and the token: `eu.Consumer(address, token, 0)`.

    >>> a, b = eu.query({"n": [1, 2, 3]}).split(2)
    >>> [batch.num_rows for batch in a], [batch.num_rows for batch in b]
    ([3], [])
    >>> same = eu.Consumer(a.address, a.token, a.number)
    """

    def __init__(self, address: str, token: str, number: int) -> None:
        self.address = address
        """Where the process that has made the split listens: `unix:NAME` on its host, `HOST:PORT`,
        or both, with a comma between them.
        """
        self.token = token
        """The secret of the split."""
        self.number = number
        """Which of the consumers it is, from 0."""
        self._owner: Any = None
        self._worker, self._workers, self._is_worker = 0, 1, False
        self._link: ConsumerLink | None = None
        self._iterates = False
        self._at_hand: list[Received] = []
        """Units that end with the batch that the program has."""
        self._finished: list[Received] = []
        """Units that have been processed, and not acknowledged."""
        self._epoch = 0
        self._consumed = UnitSet()
        self._is_resumable = True
        self._resumes: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._record_batches(None, False, None)

    def acknowledge(self) -> None:
        """Says that the batch at hand has been processed, as taking the next one does. A batch
        that has not been acknowledged when the loop is left goes to another consumer.

        >>> a, b = eu.query(eu.generate("integers", rows=10)).split(2, batch_size=5)
        >>> for batch in a:
        ...     a.acknowledge()
        ...     break
        >>> [batch.num_rows for batch in b]
        [5]
        """
        self._finished += self._at_hand
        self._at_hand = []
        units = self._take_finished()
        if self._link is not None and units:
            self._link.send({"do": "acknowledge", "acknowledged": units})

    def stats(self) -> str:
        """What each consumer of the split has taken, and how long it needed, as text.

        >>> a, b = eu.query({"n": [1, 2, 3]}).split(2)
        >>> batches = list(a)
        >>> print(a.stats())
        consumer   batches        rows          bytes   busy s   waiting s
        0                1           3 ...
        """
        return shown(self._connected().ask({"do": "statistics"}))

    def materialize(self) -> Query:
        """A query of the rows that this consumer gets in an epoch, which it keeps in memory.

        >>> a, b = eu.query({"n": [1, 2, 3]}).split(2)
        >>> a.materialize().filter("n > 1").to_pydict()
        {'n': [2, 3]}
        """
        from .._user_code.query_tables import query

        batches = list(self)
        if not batches:
            error = f"consumer {self.number} has got no rows, so their columns are not known"
            raise UsageError(error, remedy="give every consumer rows: split(…, equal=True)")
        return query(pa.Table.from_batches(batches))

    def state_dict(self) -> dict[str, Any]:
        """What it has consumed of this epoch, with the batch at hand, as values for JSON. When the
        loop is left, a batch that was not acknowledged is no part of it any more. Needs a split
        with `resumable=True`.

        >>> rows = eu.query(eu.generate("integers", rows=6)).sort("n")
        >>> (consumer,) = rows.split(1, batch_size=2, resumable=True)
        >>> for batch in consumer:
        ...     state = consumer.state_dict()
        ...     break
        >>> (again,) = rows.split(1, batch_size=2, state=state)
        >>> [batch["n"].to_pylist() for batch in again]
        [[2, 3], [4, 5]]
        """
        if not self._is_resumable:
            raise UsageError(
                "the batches of this split have no digests, so it cannot be resumed",
                remedy="split(…, batch_size=…, resumable=True)",
            )
        unacknowledged = [*self._finished, *self._at_hand]
        ranges = [(one.unit, one.unit + 1, one.digest or 0) for one in unacknowledged]
        return state_of(self._epoch, UnitSet([*self._consumed.ranges(), *ranges]))

    def load_state_dict(self, state: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Resumes with the state of one or more consumers. Needs a split with `resume=True`; every
        consumer loads its part of the states before it iterates.

        >>> rows = eu.query(eu.generate("integers", rows=6)).sort("n")
        >>> (first,) = rows.split(1, batch_size=2, resumable=True)
        >>> for batch in first:
        ...     state = first.state_dict()
        ...     break
        >>> (second,) = rows.split(1, batch_size=2, resume=True)
        >>> second.load_state_dict(state)
        >>> [batch["n"].to_pylist() for batch in second]
        [[2, 3], [4, 5]]
        """
        self._epoch, self._consumed = merged(state if isinstance(state, list | tuple) else [state])
        self._resumes = state_of(self._epoch, self._consumed)

    def torch_dataset(self, **options: Any) -> Any:
        """A `torch.utils.data.IterableDataset` of its batches, for a `DataLoader` with
        `batch_size=None`. All workers of a loader take from the queue. The options are those of
        `iter_torch_batches`.

        >>> from torch.utils.data import DataLoader  # doctest: +SKIP
        >>> (consumer,) = eu.query(eu.generate("integers", rows=4)).split(1, batch_size=2)
        >>> dataset = consumer.torch_dataset(batch_size=None)  # doctest: +SKIP
        >>> loader = DataLoader(dataset, batch_size=None)  # doctest: +SKIP
        >>> [batch["n"].tolist() for batch in loader]  # doctest: +SKIP
        [[0, 1], [2, 3]]
        """
        from .tensors import torch

        torch()
        from .torch_dataset import ConsumerDataset

        return ConsumerDataset(self, options)

    def close(self) -> None:
        """Closes its connection: the batches that it has not acknowledged go to others.

        >>> a, b = eu.query({"n": [1, 2, 3]}).split(2)
        >>> batches = list(a)
        >>> a.close()
        """
        if self._link is not None:
            self._link.close()
            self._link = None

    def __getstate__(self) -> dict[str, Any]:
        if self._owner is not None:
            self._owner.keep()
        # Another process opens a connection of its own.
        own: dict[str, Any] = {
            "_owner": None,
            "_link": None,
            "_iterates": False,
            "_at_hand": [],
            "_finished": [],
        }
        return {**vars(self), **own}

    def __repr__(self) -> str:
        return f"<consumer {self.number} of {self.address}>"

    # Inside

    def _become_worker(self, worker: int, workers: int) -> None:
        """Makes a copy of a consumer, in a process of a loader, one of its workers."""
        self._worker, self._workers, self._is_worker = worker, workers, True
        self._link, self._iterates = None, False
        if worker > 0:
            # The first one has what was consumed before.
            self._consumed = UnitSet()

    def _record_batches(
        self, rows: int | None, drop_last: bool, ahead: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of this many rows, or as they come. A unit is acknowledged when the batch with
        its last row has been processed.
        """
        link = self._connected()
        if self._iterates:
            raise UsageError(
                f"consumer {self.number} is being iterated over already",
                remedy="end or leave the first loop, or split into more consumers",
            )
        self._iterates = True
        is_whole = False
        try:
            stream = self._received(link, ahead)
            each = (Taken(one.batch, [one]) for one in stream)
            for taken in each if rows is None else resliced(stream, rows, drop_last):
                for one in taken.completed:
                    self._consume(one)
                if taken.batch is not None:
                    yield taken.batch
                self._finished += self._at_hand
                self._at_hand = []
            self._finish(link)
            is_whole = True
            self._epoch, self._consumed = self._epoch + 1, UnitSet()
        finally:
            self._iterates, self._resumes = False, None
            self._finished, self._at_hand = [], []
            if not is_whole and self._link is link:
                self._leave(link)

    def _row_lists(self) -> Iterator[list[dict[str, Any]]]:
        return map(rows_of, self._record_batches(None, False, None))

    def _received(self, link: ConsumerLink, ahead: int | None) -> Iterator[Received]:
        """The units of an epoch; the consumer asks for `ahead` of them before it needs them."""
        try:
            link.send({"do": "begin", "workers": self._workers, "state": self._resumes})
            asked = 1
            while (received := link.receive()) is not None:
                if self._is_worker:
                    # A loader asks its workers in turn: the end of the epoch for one of them may
                    # not depend on what another holds until it is asked again.
                    link.send({"do": "acknowledge", "acknowledged": [received.unit]})
                    ahead = 0
                began = time.perf_counter()
                yield received
                asked -= 1
                seconds = time.perf_counter() - began
                wanted = 1 + (_ahead(seconds, link.is_local) if ahead is None else ahead)
                more = max(0, wanted - asked)
                link.send({"do": "take", "units": more, "acknowledged": self._take_finished()})
                asked += more
        except EuphratesError:
            self.close()
            raise

    def _consume(self, received: Received) -> None:
        if received.epoch != self._epoch:
            self._epoch, self._consumed = received.epoch, UnitSet()
        self._is_resumable = received.digest is not None
        self._at_hand.append(received)

    def _take_finished(self) -> list[int]:
        """The units to acknowledge, which from now on are not given to others."""
        finished, self._finished = self._finished, []
        for one in finished:
            self._consumed.add(one.unit, one.digest or 0)
        return [one.unit for one in finished]

    def _finish(self, link: ConsumerLink) -> None:
        """Acknowledges the last units, and waits until the producer knows of all."""
        self._finished += self._at_hand
        self._at_hand = []
        units = self._take_finished()
        if self._link is link:
            link.ask({"do": "finish", "acknowledged": units})

    def _leave(self, link: ConsumerLink) -> None:
        """Leaves the epoch; what it holds goes to others. A producer that has ended knows."""
        try:
            link.ask({"do": "leave"})
        except (EuphratesError, OSError):
            self.close()

    def _connected(self) -> ConsumerLink:
        if self._link is not None and not self._link.is_own():
            self._link, self._iterates = None, False
        if self._link is None:
            self._link = _opened(self.address, self.token, (self.number, self._worker))
            _links.add(self._link)
        return self._link


def _ahead(seconds: float, is_local: bool) -> int:
    """The units to ask for in advance, given the time that the last one was processed for: one over
    a network, and on the same host some where a request costs more time than their processing.
    """
    if seconds < _SHORT_SECONDS:
        return AHEAD_MAX
    return 0 if is_local else 1


def _opened(addresses: str, token: str, taker: tuple[int, int]) -> ConsumerLink:
    """A connection to the first address that can be reached: the local one, on the same host."""
    *first, last = sorted(addresses.split(","), key=lambda one: not one.startswith(LOCAL))
    for address in first:
        with contextlib.suppress(ResourceError):
            return ConsumerLink(address, token, taker)
    return ConsumerLink(last, token, taker)


_links: weakref.WeakSet[ConsumerLink] = weakref.WeakSet()


def _close_links() -> None:
    """The connections belong to the parent of a forked child."""
    for link in list(_links):
        link.close()
    _links.clear()


os.register_at_fork(after_in_child=_close_links)
