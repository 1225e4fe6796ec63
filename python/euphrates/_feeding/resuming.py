"""States of consumers: which units of an epoch they have consumed, as values for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import UsageError
from .units import UnitSet

_VERSION = 1


def state_of(epoch: int, consumed: UnitSet) -> dict[str, Any]:
    ranges = [[first, end, str(digest)] for first, end, digest in consumed.ranges()]
    return {"version": _VERSION, "epoch": epoch, "units": ranges}


def merged(states: Iterable[Any]) -> tuple[int, UnitSet]:
    """The epoch and the units of the states of one step."""
    epochs = set()
    ranges: list[tuple[int, int, int]] = []
    for state in states:
        try:
            if state["version"] != _VERSION:
                raise ValueError
            epochs.add(int(state["epoch"]))
            ranges += [(int(first), int(end), int(digest)) for first, end, digest in state["units"]]
        except (KeyError, TypeError, ValueError):
            raise UsageError(
                "a state that `state_dict` of this version has not made",
                remedy="give what consumers returned, one state or a list of them",
            ) from None
    if len(epochs) > 1:
        raise UsageError(
            f"states of several epochs: {', '.join(map(str, sorted(epochs)))}",
            remedy="give the states of all consumers at the same step",
        )
    ranges.sort()
    for (first, end, _), (following, _, _) in zip(ranges, [*ranges[1:], (1 << 63, 0, 0)]):
        if not 0 <= first < end or following < end:
            raise UsageError(
                f"unit {following if first < end else first} is in two of the states",
                remedy="give the state of each consumer once, all of the same step",
            )
    return (epochs.pop() if epochs else 0), UnitSet(ranges)
