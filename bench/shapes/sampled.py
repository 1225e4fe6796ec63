"""Cells drawn from the cross product of all factors, so that combinations that nobody thought of
are measured, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.shapes import cells
from bench.shapes.cells import Cell, Kind
from bench.shapes.listed import listed
from bench.shapes.tables import ORDERS, Format

COUNTS = {"sort": 24, "group": 12, "join": 10, "scan": 6}
ROWS = [10_000, 100_000, cells.MILLION, cells.BASE_ROWS, 10 * cells.MILLION]
PAIRS_MAX = 40 * cells.MILLION
"""Rows that a join may give."""


class Sample:
    """Draws each factor, but only what the formats can hold."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.formats: tuple[Format, Format] = ("parquet", "parquet")

    def begin(self) -> None:
        weights = [6, 2, 2, 1, 1]
        source, target = self.chance.choices(cells.FORMATS, weights, k=2)
        self.formats = (source, target)

    def kinds(self, most: int) -> list[Kind]:
        known = cells.TEXT_KINDS if cells.is_text(*self.formats) else cells.KEY_KINDS
        return [*self.chance.choices(known, k=self.chance.randint(1, most))]

    def payload(self) -> list[Kind]:
        name = self.chance.choice(list(cells.PAYLOADS))
        if cells.is_text(*self.formats):
            return cells.TEXT_TEN if name in ("nested", "ten columns") else ["int48"]
        return cells.PAYLOADS[name]

    def sort(self, name: str) -> Cell:
        keys = self.kinds(5)
        descending = tuple(self.chance.choice([False, True]) for _ in keys)
        values = cells.distribution(self.chance.choice(cells.DISTRIBUTIONS))
        return cells.sort(
            name, keys, self.payload(), self.chance.choice(ROWS), self.chance.choice(ORDERS),
            self.formats, descending, self.chance.choice([0, 0, 0, 0, 100]),
            nulls=self.chance.choice([0, 0, 0.1, 0.9]), **values,
        )  # fmt: skip

    def group(self, name: str) -> Cell:
        functions = ["sum", "average", "min", "count", "distinct"]
        known = functions if cells.is_text(*self.formats) else list(cells.FUNCTIONS)
        keys = self.kinds(6)
        return cells.group(
            name, keys, cells.FUNCTIONS[self.chance.choice(known)], self.chance.choice(ROWS),
            self.chance.choice(["random", "random", "sorted"]), self.formats,
            distinct=max(2, round(self.chance.choice([4, 100, 10_000, 10**6]) ** (1 / len(keys)))),
            draw=self.chance.choice(["any", "any", "skewed"]),
            nulls=self.chance.choice([0, 0, 0.1]),
        )  # fmt: skip

    def join(self, name: str) -> Cell:
        known = cells.TEXT_KINDS if cells.is_text(*self.formats) else cells.JOIN_KINDS
        wide = [kind for kind in known if kind not in ("int16", "date")]
        keys: list[Kind] = [*self.chance.choices(wide, k=self.chance.randint(1, 3))]
        rows, each = self.chance.choice(ROWS[1:]), self.chance.choice([1, 1, 4])
        return cells.join(
            name, keys, self.chance.choice([10, 1000, 100_000, 10**6, rows]),
            min(rows, PAIRS_MAX // each),
            self.chance.choice([0.01, 0.1, 0.5, 1.0]), self.chance.choice(cells.HOWS), each,
            (self.payload(), self.payload()), self.formats, nulls=self.chance.choice([0, 0, 0.1]),
        )  # fmt: skip

    def scan(self, name: str) -> Cell:
        part, order = self.chance.choice([1e-6, 1e-3, 0.1, 1.0]), self.chance.choice(ORDERS)
        kind = self.chance.choice(["int32", "uint32", "int64", "uint64"])
        return cells.filtered(name, part, kind, order, self.chance.choice(ROWS))


def sampled(seed: int) -> Iterator[Cell]:
    sample = Sample(seed)
    for task, count in COUNTS.items():
        made = 0
        while made < count:
            sample.begin()
            cell: Cell = getattr(sample, task)(f"sampled/{made + 1}")
            if cell.bytes <= cells.TABLE_BYTES_MAX:
                made += 1
                yield cell


def all_cells(seed: int) -> list[Cell]:
    """Every cell, by class and factor."""
    every = [
        *listed(), *cells.sorts(), *cells.groups(), *cells.joins(), *cells.scans(),
        *sampled(seed),
    ]  # fmt: skip
    return sorted(every, key=lambda cell: list(cells.TARGETS).index(cell.task.name))
