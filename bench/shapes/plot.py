"""The ratios as a heat map: a row for each factor, a box for each variant.

.venv/bin/python -m bench.shapes.plot bench/results/2026-11-30-shapes.json
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from bench.shapes.cells import TARGETS

BOXES = 10
"""Boxes of a row; more variants continue in the next row."""
WIDTH, HEIGHT, LABEL = 1.45, 0.42, 2.1
"""Inches of a box, and of the names in front."""
MARGIN = 0.08
LETTERS_MAX = 26
RATIO_SHOWN_MAX = 4.0
WRONG = "#8250df"
LEGEND = (
    "blue: Euphrates is faster; red: slower; violet: it failed or its result differs; "
    "grey: no other result; frame: the worst of a class"
)

Row = tuple[str, list[dict[str, Any]]]


def rows(results: list[dict[str, Any]]) -> list[tuple[str, list[Row]]]:
    """The classes; each has rows of a factor's name and results."""
    classes = []
    for name in TARGETS:
        factors: dict[str, list[dict[str, Any]]] = {}
        for one in results:
            task, factor, _ = one["cell"].split("/", 2)
            if task == name:
                factors.setdefault(factor, []).append(one)
        made = [
            (factor if at == 0 else "", some[at : at + BOXES])
            for factor, some in factors.items()
            for at in range(0, len(some), BOXES)
        ]
        if made:
            classes.append((name, made))
    return classes


def draw(results: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import Normalize

    classes = rows(results)
    lines = sum(len(some) + 1.3 for _, some in classes) + 1
    width = LABEL + (BOXES + MARGIN) * WIDTH
    figure = plt.figure(figsize=(width, lines * HEIGHT))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-LABEL / WIDTH, BOXES + MARGIN), ylim=(lines, 0))
    axes.axis("off")
    span = math.log2(RATIO_SHOWN_MAX)
    colours, scale = plt.get_cmap("RdBu"), Normalize(-span, span)
    title = "Seconds of the fastest other engine over those of Euphrates"
    axes.text(-LABEL / WIDTH + MARGIN, 0.5, title, fontsize=12, va="center")
    axes.text(BOXES, 0.5, LEGEND, fontsize=8, va="center", ha="right")
    y = 1.2
    for name, some in classes:
        axes.text(-LABEL / WIDTH + MARGIN, y + 0.5, heading(name, some), fontsize=10,
                  weight="bold", va="center")  # fmt: skip
        y += 1
        worst = least(some)
        for factor, boxes in some:
            axes.text(-MARGIN, y + 0.5, factor, fontsize=8, ha="right", va="center")
            for x, one in enumerate(boxes):
                box(axes, x, y, one, colours, scale, one is worst)
            y += 1
        y += 0.3
    figure.savefig(path, dpi=120)
    plt.close(figure)


def least(some: list[Row]) -> dict[str, Any] | None:
    known = [one for _, boxes in some for one in boxes if one["ratio"]]
    return min(known, key=lambda one: one["ratio"]) if known else None


def heading(name: str, some: list[Row]) -> str:
    known = [one["ratio"] for _, boxes in some for one in boxes if one["ratio"]]
    if not known or (worst := least(some)) is None:
        return name
    mean = math.exp(sum(map(math.log, known)) / len(known))
    where = worst["cell"].split("/", 1)[1]
    return f"{name}: mean {mean:.2f}, target {TARGETS[name]}, worst {worst['ratio']:.2f} ({where})"


def box(
    axes: Any, x: float, y: float, one: dict[str, Any], colours: Any, scale: Any, is_worst: bool
) -> None:
    """A cell: its colour is the logarithm of the ratio, violet if ours failed or was wrong."""
    from matplotlib.patches import Rectangle

    ratio = one["ratio"]
    ours = one["engines"].get("Euphrates", {})
    is_wrong = "failed" in ours or bool(ours.get("differs"))
    colour = WRONG if is_wrong else colours(scale(math.log2(ratio))) if ratio else "#d0d7de"
    line = {"edgecolor": "black", "linewidth": 2} if is_worst else {"edgecolor": "white"}
    rectangle = Rectangle((x + 0.01, y + 0.03), 0.98, 0.94, facecolor=colour, **line)
    axes.add_patch(rectangle.set(zorder=3 if is_worst else 2) and rectangle)
    variant = one["cell"].split("/", 2)[2]
    shown = variant if len(variant) <= LETTERS_MAX else f"{variant[: LETTERS_MAX - 1]}…"
    number = "wrong" if is_wrong else f"{ratio:.2f}" if ratio else "no peer"
    is_dark = is_wrong or (ratio and abs(math.log2(ratio)) > 1.2)
    text = {"color": "white" if is_dark else "black", "ha": "center", "va": "center", "zorder": 4}
    axes.text(x + 0.5, y + 0.32, shown, fontsize=6, **text)
    axes.text(x + 0.5, y + 0.69, number, fontsize=8, **text)


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        draw(json.loads(path.read_text())["results"], path.with_suffix(".png"))


if __name__ == "__main__":
    main()
