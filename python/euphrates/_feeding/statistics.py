"""What each consumer of a split has taken, and how long it needed: names the slow one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class ConsumerStatistics:
    """What one consumer has acknowledged, in all epochs."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    busy_seconds: float = 0.0
    """The time for which it held the batches."""
    waiting_seconds: float = 0.0
    """The time for which it waited for batches."""
    connections: int = 0
    """Its open connections."""


def shown(consumers: list[dict[str, Any]]) -> str:
    """A table with a line for each consumer, and the slowest one."""
    lines = ["consumer   batches        rows          bytes   busy s   waiting s"]
    for number, one in enumerate(consumers):
        lines.append(
            f"{number:<8} {one['batches']:>9} {one['rows']:>11} {one['bytes']:>14}"
            f" {one['busy_seconds']:>8.2f} {one['waiting_seconds']:>11.2f}"
        )
    paces = [
        (one["busy_seconds"] / one["batches"], number)
        for number, one in enumerate(consumers)
        if one["batches"]
    ]
    if len(paces) > 1:
        seconds, slowest = max(paces)
        lines.append(f"slowest: consumer {slowest}, {seconds:.3f} s a batch")
    return "\n".join(lines)


def as_values(consumers: list[ConsumerStatistics]) -> list[dict[str, Any]]:
    return [asdict(one) for one in consumers]
