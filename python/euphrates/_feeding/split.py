"""Splits the rows of a query among consumers, which take batches at their own pace."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from .._options import known_options
from ..errors import ResourceError, UsageError
from ..flow import Flow
from .consumer import Consumer
from .distributor import Distributor, Terms
from .frames import LOCAL, tcp_address
from .producer import UnitSink
from .resuming import merged
from .row_hashes import hash_of, shuffled
from .statistics import as_values, shown
from .units import DIGEST, Unit, UnitSet, rounds, units, without

if TYPE_CHECKING:
    from ..queries import Query
    from ..running import Running

CONSUMERS_MAX = 4096
_UNITS_AHEAD = 4
"""Units that wait in shared memory for a consumer that asks."""
_OPTIONS = (
    *("equal", "batch_size", "listen", "timeout", "resumable", "resume", "state"),
    *("shuffle_seed", "shuffle_by"),
)
"""Options of a split that are not those of its flow."""
_TOKEN_BYTES = 32
_BACKLOG = 1024


class Split(Sequence[Consumer]):
    """The consumers of a stream. The process that has made the split runs the flow, once for each
    epoch. The split ends when it is closed, when this process ends, or when it and its consumers
    have been dropped and none was sent to another process.

    >>> with eu.query({"n": [1, 2, 3]}).split(2) as consumers:
    ...     [sum(batch.num_rows for batch in one) for one in consumers]
    [3, 0]
    """

    def __init__(self, owner: _Owner, consumers: list[Consumer]) -> None:
        self._owner = owner
        self._consumers = consumers

    def __len__(self) -> int:
        return len(self._consumers)

    @overload
    def __getitem__(self, number: int) -> Consumer: ...
    @overload
    def __getitem__(self, number: slice) -> list[Consumer]: ...
    def __getitem__(self, number: int | slice) -> Consumer | list[Consumer]:
        return self._consumers[number]

    def stats(self) -> str:
        """What each consumer has taken, and how long it needed, as text.

        >>> with eu.query({"n": [1, 2, 3]}).split(2) as consumers:
        ...     batches = list(consumers[1])
        ...     print(consumers.stats())
        consumer   batches        rows          bytes   busy s   waiting s
        0                0           0 ...
        1                1           3 ...
        """
        return shown(as_values(self._owner.distributor.statistics))

    def close(self) -> None:
        """Cancels the flow, and ends the connections: consumers that still iterate get an error.

        >>> consumers = eu.query({"n": [1]}).split(1)
        >>> consumers.close()
        >>> list(consumers[0])
        Traceback (most recent call last):
        euphrates.errors.ResourceError: consumer 0: unix:... cannot be reached: ...
        """
        self._owner.close()

    def __enter__(self) -> Split:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<split into {len(self)} consumers>"


def split(
    rows: Query,
    consumers: int,
    *,
    equal: bool,
    batch_size: int | None,
    listen: str | None,
    timeout: float,
    resumable: bool,
    resume: bool,
    state: Any,
    shuffle_seed: int | None,
    shuffle_by: Sequence[str],
    options: dict[str, Any],
) -> Split:
    """The consumers of a query: `Query.split`."""
    _check(consumers, batch_size, timeout)
    known_options(Flow.start, options, rows._flow._document.get("variables", {}), _OPTIONS)
    given = [] if state is None else state if isinstance(state, list | tuple) else [state]
    epoch, done = merged(given)
    with_digests = resumable or resume or state is not None

    def query_of(epoch: int) -> Query:
        query = rows if shuffle_seed is None else shuffled(rows, shuffle_seed + epoch, shuffle_by)
        return _with_digests(query, batch_size) if with_digests else query

    _ = query_of(epoch).schema  # A flow that is wrong fails here.
    plan = _Plan(query_of, options, consumers, equal, batch_size)
    plan.resumed_epoch, plan.done = epoch, done.ranges()
    token = secrets.token_hex(_TOKEN_BYTES)
    listeners, address = _listeners(listen)
    terms = Terms(
        consumers,
        equal=equal,
        token=token,
        timeout=timeout,
        units_ahead=2 * consumers if equal else _UNITS_AHEAD,
        first_epoch=epoch,
        gathers_states=resume,
        start=plan.start,
        units=plan.units,
        resume=plan.resume,
    )
    owner = _Owner(Distributor(terms, listeners))
    made = [Consumer(address, token, number) for number in range(consumers)]
    for consumer in made:
        consumer._owner = owner
        consumer._is_resumable = with_digests
        consumer._epoch = epoch
    # One of them has what was consumed before, so that the next states are whole.
    made[0]._consumed = UnitSet(done.ranges())
    return Split(owner, made)


@dataclass
class _Plan:
    """What the flow of an epoch is, and how its batches become units."""

    query_of: Callable[[int], Query]
    options: dict[str, Any]
    consumers: int
    equal: bool
    batch_size: int | None
    resumed_epoch: int = 0
    done: Sequence[tuple[int, int, int]] = ()

    def start(self, epoch: int, sink: UnitSink) -> Running:
        return self.query_of(epoch)._complete(sink).start(**self.options)

    def resume(self, states: list[dict[str, Any]]) -> int:
        """Takes the states of the consumers, and returns the epoch that they are in."""
        self.resumed_epoch, done = merged(states)
        self.done = done.ranges()
        return self.resumed_epoch

    def units(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Unit]:
        made = units(batches, self.batch_size)
        if epoch == self.resumed_epoch and self.done:
            made = without(made, list(self.done))
        return rounds(made, self.consumers, self.batch_size) if self.equal else made


class _Owner:
    """Keeps a distributor until the split and all its consumers of this process have been dropped;
    until the process ends, if one of them was sent to another.
    """

    def __init__(self, distributor: Distributor) -> None:
        self.distributor = distributor
        _open.add(distributor)
        self._finalizer = weakref.finalize(self, _close, distributor)

    def keep(self) -> None:
        self._finalizer.detach()

    def close(self) -> None:
        self._finalizer.detach()
        _close(self.distributor)


_open: set[Distributor] = set()


def _close(distributor: Distributor) -> None:
    # A forked child has copies, which it has abandoned.
    if distributor in _open:
        _open.discard(distributor)
        distributor.close()


def _close_all() -> None:
    for distributor in list(_open):
        _close(distributor)


def _abandon_all() -> None:
    for distributor in list(_open):
        distributor.abandon()
    _open.clear()


os.register_at_fork(after_in_child=_abandon_all)
atexit.register(_close_all)


def _check(consumers: int, batch_size: int | None, timeout: float) -> None:
    if not isinstance(consumers, int) or not 1 <= consumers <= CONSUMERS_MAX:
        raise UsageError(
            f"split into {consumers!r} consumers", remedy=f"give a number from 1 to {CONSUMERS_MAX}"
        )
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"batch_size is {batch_size}", remedy="give at least 1, or None")
    if not timeout > 0:
        raise UsageError(f"timeout is {timeout}", remedy="give seconds above 0")


def _listeners(listen: str | None) -> tuple[list[socket.socket], str]:
    """The sockets of a split, and their address."""
    name = f"euphrates-split-{secrets.token_hex(8)}"
    local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    local.bind(f"\0{name}")
    local.listen(_BACKLOG)
    if listen is None:
        return [local], f"{LOCAL}{name}"
    host, port = tcp_address(listen)
    try:
        remote = socket.create_server((host, port), backlog=_BACKLOG)
    except OSError as error:
        local.close()
        raise ResourceError(
            f"cannot listen at {listen}: {error.strerror or error}",
            remedy="choose an address of this host, and a port that is free; 0 is any",
        ) from None
    shown = socket.getfqdn() if host in ("0.0.0.0", "::") else host
    shown = f"[{shown}]" if ":" in shown else shown
    return [local, remote], f"{LOCAL}{name},{shown}:{remote.getsockname()[1]}"


def _with_digests(query: Query, batch_size: int | None) -> Query:
    """The query with a hash of each row, if its units are the same in every run."""
    remedy = 'end it with .sort("id") by columns that distinguish all rows, or .shuffle(seed)'
    if batch_size is None:
        raise UsageError(
            "without a batch size, the batches are not the same in every run",
            remedy="split(…, batch_size=…)",
        )
    flow = query._complete(UnitSink(lambda ports: None))
    if not flow.explain().data["modules"][-1]["ordered"]:
        raise UsageError("a stream without order cannot be resumed", remedy=remedy)
    return query.with_columns(**{DIGEST: hash_of(query.schema.to_pyarrow())})
