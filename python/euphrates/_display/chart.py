"""A small chart of throughput over time, as self-contained SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from .numbers import bytes_text

_WIDTH, _HEIGHT = 640, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 110, 26, 24
_COLOURS = ("#4269d0", "#3ca951", "#efb118", "#a463f2", "#97bbf5", "#9c6b4e", "#6cc5b0", "#ff8ab7")
_SLOW_COLOUR = "#d7301f"
_NAMED_MAX = 8
"""The number of lines labelled beside the chart."""


def chart(
    title: str,
    seconds: Sequence[float],
    series: Mapping[str, Sequence[float]],
    slow: Sequence[tuple[str, float, float]],
) -> str:
    """Lines of bytes per second. Slow episodes are red, on a red background."""
    end = seconds[-1] if seconds else 0.0
    shown = {name: _smooth(values) for name, values in series.items()}
    top = _round_up(max((max(values, default=0.0) for values in shown.values()), default=0.0))
    if end <= 0 or top <= 0:
        return ""

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(second, end) / end

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" role="img" style="max-width:100%;display:block;margin:8px 0" '
        'font-family="ui-sans-serif,system-ui,sans-serif" font-size="11">',
        f"<title>{html.escape(title)}: bytes per second over time</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 15, title, weight="bold"),
    ]
    for _, begin, until in slow:
        wide = max(x(until) - x(begin), 1)
        parts.append(
            f'<rect x="{x(begin):.1f}" y="{_TOP}" width="{wide:.1f}" '
            f'height="{_HEIGHT - _TOP - _BOTTOM}" fill="{_SLOW_COLOUR}" opacity="0.08"/>'
        )
    for part in (0.0, 0.5, 1.0):
        parts.append(_rule(_LEFT, y(top * part), _WIDTH - _RIGHT))
        parts.append(_text(_LEFT - 6, y(top * part) + 4, f"{bytes_text(top * part)}/s", "end"))
    for second in _ticks(end):
        parts.append(_text(x(second), _HEIGHT - 8, f"{second:g} s", "middle"))
    middles = [(a + b) / 2 for a, b in zip([0.0, *seconds], seconds)]
    places = _apart([y(values[-1]) for values in list(shown.values())[:_NAMED_MAX]])
    for number, (name, values) in enumerate(shown.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [(x(second), y(value)) for second, value in zip(middles, values)]
        parts.append(_line(points, colour, 1.5))
        for component, begin, until in slow:
            if component == name:
                inside = [
                    point for second, point in zip(middles, points) if begin <= second <= until
                ]
                parts.append(_line(inside, _SLOW_COLOUR, 2.5))
        if number < _NAMED_MAX:
            weight = "bold" if any(component == name for component, _, _ in slow) else "normal"
            place = (_WIDTH - _RIGHT + 6, places[number] + 4)
            parts.append(_text(*place, name[:18], weight=weight, fill=colour))
    if len(shown) > _NAMED_MAX:
        more = f"and {len(shown) - _NAMED_MAX} more"
        parts.append(_text(_WIDTH - _RIGHT + 6, _HEIGHT - 8, more))
    return "".join(parts) + "</svg>"


def _smooth(values: Sequence[float]) -> list[float]:
    """Moving averages: batches arrive in steps, and the chart shows the trend."""
    reach = 1 if len(values) < 100 else 2
    near = [values[max(0, at - reach) : at + reach + 1] for at in range(len(values))]
    return [sum(some) / len(some) for some in near]


def _round_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 5, 7.5, 10, …"""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(next(step * power for step in (1, 1.5, 2, 3, 5, 7.5, 10) if step * power >= value))


def _ticks(end: float) -> list[float]:
    power = 10.0 ** math.floor(math.log10(end))
    step = next(part * power for part in (0.1, 0.2, 0.5, 1, 2) if end / (part * power) <= 8)
    return [round(step * number, 6) for number in range(int(end / step) + 1)]


def _apart(places: list[float]) -> list[float]:
    """Heights of labels, moved so that they do not overlap."""
    moved = list(places)
    last = -math.inf
    for at in sorted(range(len(places)), key=lambda at: places[at]):
        moved[at] = last = max(places[at], last + 13)
    beyond = max(0.0, last - (_HEIGHT - _BOTTOM))
    return [place - beyond for place in moved]


def _line(points: list[tuple[float, float]], colour: str, width: float) -> str:
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _rule(begin: float, height: float, end: float) -> str:
    return f'<path d="M{begin} {height:.1f}H{end}" stroke="#ddd" stroke-width="1"/>'


def _text(
    x: float, y: float, text: str, anchor: str = "start", weight: str = "normal", fill: str = "#444"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{fill}">{html.escape(text)}</text>'
    )
