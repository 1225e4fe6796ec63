"""The distributor of a split: one thread that accepts consumers, and hands out the units of each
epoch to whichever asks. It never blocks on a consumer, so a slow one delays nobody.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import EuphratesError, FlowError, Interrupted, ResourceError, UsageError
from .batch_formats import AHEAD_MAX
from .connections import Connections
from .epoch import Epoch, Taker
from .frames import error_json
from .peer import Peer
from .producer import Encoded, Ended, Producer, UnitSink
from .slots import SlotPool
from .statistics import ConsumerStatistics, as_values

if TYPE_CHECKING:
    from ..running import Running

_TICK_SECONDS = 0.25
_CLOSING_SECONDS = 2.0


@dataclass
class Terms:
    """What was agreed when the stream was split."""

    consumers: int
    equal: bool
    token: str
    timeout: float
    """Seconds that consumers wait for one that has not connected, or not begun the next epoch."""
    units_ahead: int
    first_epoch: int
    gathers_states: bool
    """Whether the first epoch begins when all consumers have told what they have consumed."""
    start: Callable[[int, UnitSink], Running] = field(kw_only=True)
    """Starts the flow of an epoch, given its number, with this sink."""
    units: Callable[..., Any] = field(kw_only=True)
    """The units of an epoch, given its number and its batches."""
    resume: Callable[[list[dict[str, Any]]], int] = field(kw_only=True)
    """Takes the states of all consumers, and returns the epoch to begin with."""


class Distributor(Connections):
    """Serves the consumers of a split until it is closed."""

    def __init__(self, terms: Terms, listeners: list[socket.socket]) -> None:
        super().__init__(listeners, terms.token, terms.consumers, terms.timeout)
        self._terms = terms
        self.statistics = [ConsumerStatistics() for _ in range(terms.consumers)]
        self._slots = SlotPool()
        self._ended: dict[Taker, int] = {}
        """The last epoch that each taker has ended."""
        self._epoch: Epoch | None = None
        self._idle_since = 0.0
        """Since when nobody has been in the epoch."""
        self._absent: set[int] = set()
        self._failure: EuphratesError | None = None
        self._producer: Producer | None = None
        self._given_last = -1
        self._delayed_since: float | None = None
        self._units: dict[int, Encoded] = {}
        """Units that have been encoded, and not acknowledged."""
        self._posted: deque[Encoded | Ended] = deque()
        self._closing = self._sleeps = False
        self._thread = threading.Thread(target=self._serve, name="euphrates-split", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the epoch; consumers get an error. Waits for the flow to be cancelled."""
        self._closing = True
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSING_SECONDS)
        if self._producer is not None:
            self._producer.join(_CLOSING_SECONDS)

    # The loop

    def _serve(self) -> None:
        remedy = "keep it open until the consumers have ended"
        error: EuphratesError = Interrupted("the split was closed", remedy=remedy)
        try:
            while not self._closing:
                self._sleeps = True
                # What is posted from here on wakes it.
                seconds = _TICK_SECONDS if self._peers else None
                events = self._selector.select(0 if self._posted else seconds)
                self._sleeps = False
                self._step(events)
        except Exception as raised:
            error = FlowError(f"the distributor failed: {type(raised).__name__}: {raised}")
        self._end(error)

    def _step(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        now = time.monotonic()
        self._serve_connections(events, now)
        self._take_posted()
        self._begin_epoch(now)
        self._assign(now)
        self._check_waits(now)
        for peer in list(self._peers):
            self._flush(peer)

    def _post(self, event: Encoded | Ended) -> None:
        self._posted.append(event)
        if self._sleeps:
            self._wake()

    # Connections

    def _greeted(self, taker: Taker) -> None:
        self._absent.discard(taker.consumer)
        self.statistics[taker.consumer].connections += 1

    def _dropped(self, peer: Peer) -> None:
        """What the taker of a connection that has ended held goes to others."""
        for slot in peer.reads.values():
            self._slots.drop(slot, peer, reusable=False)
        if peer.taker is None:
            return
        self.statistics[peer.taker.consumer].connections -= 1
        if self._epoch is None:
            return
        if self._terms.equal and peer.in_epoch == self._epoch.number:
            error = (
                f"consumer {peer.taker.consumer} has ended within the epoch, so the others cannot"
                " get equal numbers of batches"
            )
            remedy = "see why it ended, and iterate again with all consumers"
            self._fail(ResourceError(error, remedy=remedy))
        elif self._epoch.lost(peer.taker):
            # It may have been told the end while it held its last units: if it comes back, it takes
            # part in this epoch again.
            self._ended.pop(peer.taker, None)

    # Requests

    def _handle(self, peer: Peer, taker: Taker, message: dict[str, Any], now: float) -> None:
        for number in message.get("released", ()):
            if (slot := peer.reads.pop(number, None)) is not None:
                self._slots.drop(slot, peer)
        for unit in map(int, message.get("acknowledged", ())):
            encoded = None if peer.is_local else self._units.get(unit)
            if encoded is not None and peer.reads.pop(encoded.slot.number, None) is not None:
                # It has been sent as a whole.
                self._slots.drop(encoded.slot, peer)
            self._acknowledge(taker, unit, now)
        what = message.get("do")
        if what == "begin":
            peer.begins, peer.begins_since = message, now
        if what in ("begin", "take"):
            units = 1 if what == "begin" else min(int(message["units"]), AHEAD_MAX + 1)
            peer.wants, peer.asked_at = peer.wants + units, now
            if self._epoch is not None and peer.in_epoch == self._epoch.number:
                for _ in range(units):
                    self._epoch.asked(taker)
        elif what == "leave":
            self._leave(peer, taker)
            peer.tell({"answer": True}, now)
        elif what == "finish":
            peer.tell({"answer": True}, now)
        elif what == "statistics":
            peer.tell({"answer": as_values(self.statistics)}, now)

    def _acknowledge(self, taker: Taker, unit: int, now: float) -> None:
        epoch = self._epoch
        if epoch is not None and (seconds := epoch.acknowledged(taker, unit, now)) is not None:
            encoded = self._units.pop(unit)
            self._slots.drop(encoded.slot, encoded.epoch)
            statistics = self.statistics[taker.consumer]
            statistics.batches += 1
            statistics.rows += encoded.rows
            statistics.bytes += encoded.size
            statistics.busy_seconds += seconds

    def _leave(self, peer: Peer, taker: Taker) -> None:
        peer.begins, peer.wants = None, 0
        if self._epoch is not None:
            # It may hold the last rows of an epoch that has ended for it.
            self._epoch.left(taker)
        if peer.in_epoch is not None:
            self._ended[taker] = peer.in_epoch
            peer.in_epoch = None

    # Epochs

    def _take_posted(self) -> None:
        while self._posted:
            event = self._posted.popleft()
            epoch = self._epoch
            is_current = epoch is not None and event.epoch == epoch.number
            if isinstance(event, Encoded):
                if epoch is None or not is_current:
                    self._slots.drop(event.slot, event.epoch)
                    continue
                self._units[event.number] = event
                epoch.offered(event.number)
            elif epoch is not None and is_current:
                epoch.ended()
                if event.error is not None:
                    self._fail(event.error)

    def _begin_epoch(self, now: float) -> None:
        """Lets takers into the epoch that runs, or, when all have ended it, into the next."""
        if not any(peer.begins for peer in self._peers):
            return
        if self._epoch is None and not self._begin_first_epoch(now):
            return
        self._let_in()
        waiting = [peer for peer in self._peers if peer.begins]
        epoch = self._epoch
        assert epoch is not None
        if not waiting or any(peer.in_epoch == epoch.number for peer in self._peers):
            self._idle_since = now
            return
        late = self._late()
        if (late or not self._is_over()) and now < self._idle_since + self._terms.timeout:
            return
        self._absent |= late
        self._start(epoch.number + 1)
        self._let_in()

    def _late(self) -> set[int]:
        """The consumers for which the next epoch waits. One that did not come is not awaited again
        before it connects.
        """
        begun = {peer.taker.consumer for peer in self._peers if peer.taker and peer.begins}
        idle = {peer.taker.consumer for peer in self._peers if peer.taker and not peer.begins}
        return (set(range(self._terms.consumers)) - begun - self._absent) | (idle - self._absent)

    def _begin_first_epoch(self, now: float) -> bool:
        """Begins at once, or, to resume, when the states of all consumers are there."""
        if not self._terms.gathers_states:
            self._start(self._terms.first_epoch)
            return True
        beginning = [peer for peer in self._peers if peer.begins]
        found: dict[int, int] = {}
        states = []
        for peer in beginning:
            assert peer.taker is not None and peer.begins is not None
            workers = max(1, int(peer.begins.get("workers", 1)))
            found[peer.taker.consumer] = found.get(peer.taker.consumer, workers) - 1
            states += [peer.begins["state"]] if peer.begins.get("state") else []
        missing = [n for n in range(self._terms.consumers) if found.get(n, 1) > 0]
        error: EuphratesError | None = None
        if missing:
            if now < min(peer.begins_since for peer in beginning) + self._terms.timeout:
                return False
            error = ResourceError(
                f"consumers that have not begun in {self._terms.timeout:g} s:"
                f" {', '.join(map(str, missing))}",
                remedy="all must iterate before one can resume; or give a longer `timeout`",
            )
        else:
            try:
                self._start(self._terms.resume(states))
                return True
            except EuphratesError as raised:
                error = raised
        for peer in beginning:
            self._reject(peer, error)
        return False

    def _let_in(self) -> None:
        epoch = self._epoch
        assert epoch is not None
        for peer in list(self._peers):
            taker = peer.taker
            if not peer.begins or taker is None or self._ended.get(taker, -1) >= epoch.number:
                continue
            if peer.begins.get("state") and not self._terms.gathers_states:
                error = "a state was loaded, and the split does not wait for states"
                self._reject(peer, UsageError(error, remedy="split(…, resume=True)"))
                continue
            peer.begins, peer.in_epoch = None, epoch.number
            epoch.joined(taker)
            for _ in range(peer.wants):
                epoch.asked(taker)

    def _is_over(self) -> bool:
        """Whether nobody will get a unit of this epoch any more."""
        epoch = self._epoch
        assert epoch is not None
        ended = {taker.consumer for taker, last in self._ended.items() if last >= epoch.number}
        return epoch.is_over() or self._failure is not None or len(ended) == self._terms.consumers

    def _start(self, number: int) -> None:
        self._stop_producer()
        for encoded in self._units.values():
            self._slots.drop(encoded.slot, encoded.epoch)
        self._units.clear()
        self._failure = self._delayed_since = None
        self._given_last = -1
        terms = self._terms
        self._epoch = Epoch(number, terms.consumers, equal=terms.equal)
        self._producer = Producer(
            number,
            lambda sink: terms.start(number, sink),
            lambda batches: terms.units(number, batches),
            self._slots,
            self._post,
            terms.units_ahead,
        )

    def _stop_producer(self) -> None:
        if self._producer is not None:
            self._producer.stop()

    def _fail(self, error: EuphratesError) -> None:
        """Ends the epoch with an error for all who take part in it."""
        self._failure = self._failure or error
        self._stop_producer()

    def _assign(self, now: float) -> None:
        epoch = self._epoch
        if epoch is None:
            return
        takers = {peer.taker: peer for peer in self._peers if peer.in_epoch == epoch.number}
        if self._failure is not None:
            for peer in takers.values():
                if peer.wants:
                    self._tell_last(peer, {"error": error_json(self._failure)}, now)
            return
        for taker, unit in epoch.assignments(now):
            if unit is None:
                self._tell_last(takers[taker], {"end": True}, now)
            else:
                self._give(takers[taker], self._units[unit], now)
        if not any(peer.in_epoch == epoch.number for peer in takers.values()) and self._is_over():
            self._stop_producer()

    def _give(self, peer: Peer, encoded: Encoded, now: float) -> None:
        assert self._producer is not None and peer.taker is not None
        if encoded.number > self._given_last:
            # Not one that comes back from a consumer.
            self._given_last = encoded.number
            self._producer.taken()
        peer.wants -= 1
        self.statistics[peer.taker.consumer].waiting_seconds += now - peer.asked_at
        told = {
            "epoch": encoded.epoch,
            "unit": encoded.number,
            "bytes": encoded.size,
            "digest": None if encoded.digest is None else str(encoded.digest),
        }
        slot = encoded.slot
        self._slots.hold(slot, peer)
        peer.reads[slot.number] = slot
        if not peer.is_local:
            peer.tell(told, now)
            return peer.append_body(memoryview(slot.map)[: encoded.size])
        closed = [number for number, one in peer.mapped.items() if not one.is_open]
        for number in closed:
            del peer.mapped[number]
        is_new = slot.number not in peer.mapped
        peer.mapped[slot.number] = slot
        placed = {"slot": slot.number, "new": is_new, "closed": closed}
        peer.tell({**told, **placed}, now, fd=slot.fd if is_new else None)

    def _tell_last(self, peer: Peer, message: dict[str, Any], now: float) -> None:
        """Ends an epoch for a taker."""
        assert self._epoch is not None and peer.taker is not None
        peer.tell(message, now)
        self._ended[peer.taker] = self._epoch.number
        peer.in_epoch, peer.wants = None, 0

    # Bounds

    def _check_waits(self, now: float) -> None:
        self._tell_waiting(now)
        epoch = self._epoch
        if epoch is None or not self._terms.equal or self._failure is not None:
            return
        connected = {peer.taker.consumer for peer in self._peers if peer.taker}
        absent = [number for number in epoch.delaying() if number not in connected]
        if not absent:
            self._delayed_since = None
        elif self._delayed_since is None:
            self._delayed_since = now
        elif now > self._delayed_since + self._terms.timeout:
            names = ", ".join(map(str, absent))
            error = f"consumers that have not connected in {self._terms.timeout:g} s: {names}"
            remedy = "with equal shares, all consumers must iterate; or give a longer `timeout`"
            self._fail(ResourceError(error, remedy=remedy))

    def _end(self, error: EuphratesError) -> None:
        """Tells all consumers why the split has ended."""
        self._stop_producer()
        for peer in list(self._peers):
            self._reject(peer, error)
        self.abandon()
        self._slots.close()
