"""Which consumer gets which unit of one pass over a stream: it decides, and does no I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

ROUNDS_AHEAD = 2
"""The units that a consumer of equal shares may be ahead of the slowest."""
_NEWEST_WEIGHT = 0.5
"""The weight of the last unit in the mean time that a taker needs for one."""


class Taker(NamedTuple):
    """One connection's place: a consumer, and which of its loader's workers takes for it."""

    consumer: int
    worker: int = 0


@dataclass
class _Pace:
    """What a taker holds, and how long it needs for a unit."""

    held: dict[int, float] = field(default_factory=dict)
    """Units that it has not acknowledged, with the times in seconds at which it got them."""
    asked: int = 0
    """Units that it has asked for and not received."""
    mean_seconds: float | None = None
    finished_at: float = 0.0
    declined_until: float | None = None


class Epoch:
    """One pass over a stream of numbered units.

    A unit is bound when a consumer asks for it, so a slow consumer takes fewer. Units of a taker
    that is lost return to the front. With `equal`, every consumer gets the same number of units:
    the stream offers whole rounds of a unit for each, and nobody is more than `ROUNDS_AHEAD` ahead.
    """

    def __init__(self, number: int, consumers: int, *, equal: bool) -> None:
        self.number = number
        self.taken = [0] * consumers
        self.stream_ended = False
        self._equal = equal
        self._paces: dict[Taker, _Pace] = {}
        self._asking: deque[Taker] = deque()
        self._ready: deque[int] = deque()
        self._offered = 0
        self._units_max: int | None = None
        """With `equal`, the units after which every consumer ends, since one has left."""

    # Facts

    def joined(self, taker: Taker) -> None:
        self._paces.setdefault(taker, _Pace())

    def offered(self, unit: int) -> None:
        self._ready.append(unit)
        self._offered += 1

    def ended(self) -> None:
        self.stream_ended = True

    def asked(self, taker: Taker) -> None:
        self._paces[taker].asked += 1
        self._asking.append(taker)

    def acknowledged(self, taker: Taker, unit: int, now: float) -> float | None:
        """The seconds that the taker needed for the unit, if it held the unit."""
        pace = self._paces.get(taker)
        began = None if pace is None else pace.held.pop(unit, None)
        if pace is None or began is None:
            return None
        seconds = now - max(began, pace.finished_at)
        before = seconds if pace.mean_seconds is None else pace.mean_seconds
        pace.mean_seconds = before + _NEWEST_WEIGHT * (seconds - before)
        pace.finished_at = now
        return seconds

    def lost(self, taker: Taker) -> list[int]:
        """Forgets a taker without a farewell, and returns the units that go to others."""
        pace = self._paces.pop(taker, _Pace())
        self._forget_requests(taker)
        units = sorted(pace.held)
        self._ready = deque(sorted([*units, *self._ready]))
        return units

    def left(self, taker: Taker) -> list[int]:
        """A taker wants no more, and returns the units that go to others: with `equal`, none,
        because the others end after as many units as it has taken.
        """
        if not self._equal:
            return self.lost(taker)
        if self._paces.pop(taker, None) is None:
            return []
        self._forget_requests(taker)
        taken = self.taken[taker.consumer]
        self._units_max = taken if self._units_max is None else min(self._units_max, taken)
        return []

    # Decisions

    def assignments(self, now: float) -> list[tuple[Taker, int | None]]:
        """Who gets which unit now; no unit says that the epoch has ended for the taker."""
        made: list[tuple[Taker, int | None]] = []
        ended: set[Taker] = set()
        for taker in list(self._asking):
            unit = _WAITS if taker in ended else self._next_for(taker, now)
            if unit == _WAITS:
                continue
            made.append((taker, unit))
            if unit is None:
                ended.add(taker)
                self._forget_requests(taker)
                continue
            self._asking.remove(taker)
            self._ready.remove(unit)
            pace = self._paces[taker]
            pace.asked -= 1
            pace.held[unit], pace.declined_until = now, None
            self.taken[taker.consumer] += 1
        return made

    def is_over(self) -> bool:
        """Whether nobody will get a unit of it any more, not even one that has been given out."""
        return self.stream_ended and not self._ready and not self._units_held()

    def delaying(self) -> list[int]:
        """With `equal`, the consumers for which those wait that ask for a unit."""
        if not self._equal or not self._asking:
            return []
        least = min(self.taken)
        ahead = all(self.taken[one.consumer] >= least + ROUNDS_AHEAD for one in self._asking)
        return [number for number, n in enumerate(self.taken) if n == least] if ahead else []

    def _next_for(self, taker: Taker, now: float) -> int | None:
        if self._equal:
            return self._next_of_equal(taker.consumer)
        if not self._ready:
            others = any(pace.held for one, pace in self._paces.items() if one != taker)
            return None if self.stream_ended and not others else _WAITS
        return _WAITS if self._declines(taker, now) else self._ready[0]

    def _next_of_equal(self, consumer: int) -> int | None:
        taken = self.taken[consumer]
        if self._units_max is not None and taken >= self._units_max:
            return None
        if self._offered >= len(self.taken) * (taken + 1):
            return self._ready[0] if taken < min(self.taken) + ROUNDS_AHEAD else _WAITS
        return None if self.stream_ended else _WAITS

    def _declines(self, taker: Taker, now: float) -> bool:
        """Whether the others would finish all units that are left before this taker finished one.

        It then waits, at most as long as it needs for a unit: another may have become slow.
        """
        pace = self._paces[taker]
        if not self.stream_ended or pace.mean_seconds is None:
            return False
        if pace.declined_until is not None and now >= pace.declined_until:
            return False
        finished = 0
        for other, its in self._paces.items():
            if other != taker and its.mean_seconds and (its.held or its.asked):
                busy = max(its.held.values(), default=now) + its.mean_seconds - now
                left = pace.mean_seconds - (max(busy, 0.0) if its.held else 0.0)
                finished += max(0, int(left / its.mean_seconds))
        if finished < len(self._ready):
            return False
        if pace.declined_until is None:
            pace.declined_until = now + pace.mean_seconds
        return True

    def _forget_requests(self, taker: Taker) -> None:
        self._asking = deque(one for one in self._asking if one != taker)
        if taker in self._paces:
            self._paces[taker].asked = 0

    def _units_held(self) -> bool:
        return any(pace.held for pace in self._paces.values())


_WAITS = -1
"""In place of a unit: the taker waits."""
