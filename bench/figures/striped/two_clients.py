"""What the comparisons of two clients of the same disks share: medians, and bars side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from figure import COLOURS
from striped import of

WAYS = ("read", "written")
STATES = ("equal", "slow")


def shares(
    results: dict[str, Any], base: str, client: str, least: float, called: str
) -> Iterator[tuple[str, bool]]:
    """The claims that one client reaches at least this share of the rates of another."""
    for way in WAYS:
        for state in STATES:
            part = of(results, way, client, state) / of(results, way, base, state)
            yield f"{way}, {state}: {part:.3f} of the {called} (at least {least})", part >= least


def draw_bars(axes: Any, results: dict[str, Any], labels: dict[str, str]) -> None:
    """Bars of two clients, by name, in a panel for each way; the second is the one compared."""
    colours = (COLOURS["shortest"], COLOURS["graduated"])
    for one, way in zip(axes, WAYS):
        for at, (client, label) in enumerate(labels.items()):
            heights = [of(results, way, client, state) for state in STATES]
            places = [place + (at - 0.5) * 0.35 for place in range(len(STATES))]
            one.bar(places, heights, width=0.33, color=colours[at], label=label)
            for place, height in zip(places, heights):
                one.text(place, height, f"{height:.2f}", ha="center", va="bottom", fontsize=8)
        one.set_xticks(range(len(STATES)), ["equal disks", "one at 1/4"])
        one.set_ylabel("file bytes per second, in disks")
        one.set_title(way, fontsize=9)
        one.margins(y=0.25)
    axes[0].legend(frameon=False, loc="upper right", ncols=2)
