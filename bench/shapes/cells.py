"""What is measured: tasks on tables, which differ from the base of their class in one factor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from bench.shapes.tables import ORDERS, SUFFIXES, Column, Format, Order, Table

MILLION = 1_000_000
BASE_ROWS = 4 * MILLION
BUILD_ROWS = MILLION
CONVERTED_ROWS = MILLION
TABLE_BYTES_MAX = 4_000_000_000
"""With output and scratch, a cell then takes less than 12 GB of disk."""


@dataclass(frozen=True)
class Sort:
    by: tuple[tuple[str, bool], ...]
    """Columns, and whether each is descending; nulls are last."""
    limit: int = 0
    name: str = "sort"


@dataclass(frozen=True)
class Group:
    keys: tuple[str, ...]
    values: tuple[tuple[str, str, str], ...]
    """Names, functions and columns."""
    name: str = "group"


@dataclass(frozen=True)
class Join:
    on: tuple[str, ...]
    how: str = "inner"
    name: str = "join"


@dataclass(frozen=True)
class Scan:
    columns: tuple[str, ...] = ()
    """All if empty."""
    where: str = ""
    part: float = 0.0
    """The part of the rows that is kept, if not 0: `k0` numbers the rows."""
    name: str = "scan"


Task = Sort | Group | Join | Scan
TARGETS = {"sort": 1.0, "group": 0.9, "join": 1.0, "scan": 0.9}
"""The classes, and the ratio that each is to reach."""


@dataclass(frozen=True)
class Cell:
    name: str
    task: Task
    tables: tuple[Table, ...]
    output: Format = "parquet"

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables)

    def scaled(self, factor: float) -> Cell:
        return replace(self, tables=tuple(table.scaled(factor) for table in self.tables))

    def job(self) -> dict[str, Any]:
        """The task as data, for processes."""
        inputs = [
            {"columns": [[column.name, column.kind] for column in table.columns],
             "file": table.file, "format": table.format}
            for table in self.tables
        ]  # fmt: skip
        task = {**dataclasses.asdict(self.task), "task": self.task.name}
        if task.get("part"):
            task["where"] = f"k0 < {max(1, round(task['part'] * self.tables[0].rows))}"
        return {**task, "inputs": inputs, "format": self.output}


# Columns

INTEGERS = [f"{sign}int{width}" for width in (8, 16, 32, 64) for sign in ("", "u")]
NUMBERS = ["decimal18", "decimal38", "float32", "float64", "date", "timestamp", "bool"]
STRINGS = ["short", "word", "long", "prefix", "url", "email", "uuid", "hex32", "id10"]
BINARIES = ["binary", "bytes10", "fixed16"]
KEY_KINDS = [*INTEGERS, *NUMBERS, *STRINGS, "dictionary", *BINARIES]
TEXT_KINDS = ["int16", "int32", "int48", "float64", "date", "word", "short", "url", "email", "uuid"]
"""Kinds whose values are the same after a way through CSV or JSON lines."""
FORMATS: list[Format] = list(SUFFIXES)  # type: ignore[arg-type]
WORDS = 1000

Kind = str | tuple[str, dict[str, Any]]
"""A kind, or one with other properties of the column."""
TEN: list[Kind] = [
    "int32",
    "int64",
    "float64",
    "decimal18",
    "date",
    "timestamp",
    "bool",
    "int16",
    "short",
    ("word", {"distinct": WORDS}),
]
AS_TEXT = {"int64": "int48", "decimal18": "float64"}
TEXT_TEN: list[Kind] = [AS_TEXT.get(kind, kind) if isinstance(kind, str) else kind for kind in TEN]
PAYLOADS: dict[str, list[Kind]] = {
    "none": [],
    "one int": ["int64"],
    "ten columns": TEN,
    "one long string": ["long"],
    "nested": ["list", "struct"],
}
FEW = ("word", {"distinct": WORDS})


def columns(prefix: str, kinds: list[Kind], **common: Any) -> tuple[Column, ...]:
    """Columns of these kinds, with numbered names."""
    made = []
    for at, kind in enumerate(kinds):
        name, own = (kind, {}) if isinstance(kind, str) else kind
        if name == "dictionary":
            own = {"distinct": WORDS} | own
        made.append(Column(f"{prefix}{at}", name, **{**common, **own}))
    return tuple(made)


def is_text(*formats: Format) -> bool:
    return any(format_ in ("csv", "json_lines") for format_ in formats)


def distribution(name: str) -> dict[str, Any]:
    """The values of a key: its whole range, a small one, or few of the whole range."""
    return {
        "full range": {},
        "small range": {"distinct": 10_000, "dense": True},
        "few values": {"distinct": 100},
    }[name]


DISTRIBUTIONS = ["full range", "small range", "few values"]


# Sort


def sort(
    name: str,
    keys: list[Kind],
    payload: list[Kind],
    rows: int = BASE_ROWS,
    order: Order = "random",
    formats: tuple[Format, Format] = ("parquet", "parquet"),
    descending: tuple[bool, ...] = (),
    limit: int = 0,
    **common: Any,
) -> Cell:
    """A sort by all keys; `common` are properties of the key columns."""
    key = columns("k", keys, **common)
    names = tuple(column.name for column in key)
    by = tuple(zip(names, descending or [False] * len(names)))
    table = Table((*key, *columns("p", payload)), rows, order, names, formats[0])
    return Cell(f"sort/{name}", Sort(by, limit), (table,), formats[1])


MIXED = ["int64", "word", "float64", "date", "decimal18"]
DIRECTIONS = {"descending": (True,), "up, down": (False, True), "down, up": (True, False)}


def sorts() -> Iterator[Cell]:
    one = PAYLOADS["one int"]
    for kind in KEY_KINDS:
        yield sort(f"key type/{kind}", [kind], one)
    for kind in ("word", "url"):
        yield sort(f"key type/{kind}, few values", [kind], one, distinct=100)
    for count in range(2, 6):
        few: list[Kind] = [(kind, {"distinct": 100}) for kind in MIXED[: count - 1]]
        yield sort(f"keys/{count} mixed", [*few, MIXED[count - 1]], one)
    yield sort("keys/3 strings", [FEW, FEW, "short"], one)
    for name, descending in DIRECTIONS.items():
        first: list[Kind] = [("int32", {"distinct": 100})] if len(descending) > 1 else []
        yield sort(f"direction/{name}", [*first, "int64"], one, descending=descending)
    yield sort("direction/string descending", ["short"], one, descending=(True,))
    for kind in ("int64", "short"):
        for nulls in (0.1, 0.9):
            yield sort(f"nulls/{kind} {nulls:.0%}", [kind], one, nulls=nulls)
    for kind in ("int32", "int64", "float64", "short"):
        for values in DISTRIBUTIONS[1:]:
            yield sort(f"values/{kind} {values}", [kind], one, **distribution(values))
    yield sort("values/int64 skewed", ["int64"], one, distinct=MILLION, draw="skewed")
    for payload, kinds in PAYLOADS.items():
        yield sort(f"payload/{payload}", ["int64"], kinds)
    for order in ORDERS:
        yield sort(f"input order/{order}", ["int64"], one, order=order)
    for order in ORDERS[1:]:
        yield sort(f"input order/string {order}", ["short"], one, order=order)
    for pair in [*((format_, format_) for format_ in FORMATS), ("csv", "parquet")]:
        arrow = "->".join(pair)
        yield sort(f"format/{arrow}", ["int48"], ["int32", "float64", FEW], formats=pair)
    for limit in (1, 10, 1000, 100_000):
        yield sort(f"top k/{limit}", ["int64"], TEN, limit=limit)
    yield sort("top k/string 100", ["short"], TEN, limit=100)
    for rows in (10**4, 10**5, MILLION, BASE_ROWS, 10 * MILLION, 40 * MILLION):
        yield sort(f"rows/int64 {rows}", ["int64"], one, rows)
        if rows <= 10 * MILLION:
            yield sort(f"rows/short {rows}", ["short"], one, rows)


# Group

SMALL: Kind = ("int64", {"distinct": 1000, "dense": True})
VALUES: list[Kind] = [
    SMALL,
    "float64",
    "decimal18",
    ("word", {"distinct": WORDS}),
    ("int32", {"distinct": 10_000}),
]
FUNCTIONS: dict[str, list[tuple[str, str]]] = {
    "sum": [("sum", "v0")],
    "sum of floats": [("sum", "v1")],
    "sum of decimals": [("sum", "v2")],
    "average": [("avg", "v0")],
    "min": [("min", "v1")],
    "max": [("max", "v1")],
    "min, max strings": [("min", "v3"), ("max", "v3")],
    "count": [("count", "")],
    "distinct": [("count distinct", "v4")],
    "distinct strings": [("count distinct", "v3")],
    "mixture": [
        ("sum", "v0"), ("avg", "v1"), ("min", "v1"), ("max", "v4"), ("count", ""), ("sum", "v2")
    ],
    "all": [
        ("sum", "v0"), ("avg", "v1"), ("min", "v3"), ("max", "v2"), ("count", "v3"),
        ("count distinct", "v4"),
    ],
}  # fmt: skip


def group(
    name: str,
    keys: list[Kind],
    functions: list[tuple[str, str]] = FUNCTIONS["sum"],
    rows: int = BASE_ROWS,
    order: Order = "random",
    formats: tuple[Format, Format] = ("parquet", "parquet"),
    **common: Any,
) -> Cell:
    key = columns("k", keys, **common)
    names = tuple(column.name for column in key)
    used = {column for _, column in functions}
    table = Table(
        (*key, *(value for value in columns("v", VALUES) if value.name in used)),
        rows, order, names, formats[0],
    )  # fmt: skip
    values = tuple((f"a{at}", *what) for at, what in enumerate(functions))
    return Cell(f"group/{name}", Group(names, values), (table,), formats[1])


def groups() -> Iterator[Cell]:
    for kind in ("int64", "short"):
        for count in (1, 4, 100, 10_000, MILLION):
            yield group(f"groups/{kind} {count}", [kind], distinct=count)
        yield group(f"groups/{kind} every row", [kind], draw="unique")
    for kind in KEY_KINDS:
        if kind != "dictionary":
            yield group(f"key type/{kind}", [kind], distinct=10_000)
    yield group("key type/dictionary", ["dictionary"])
    for count in range(2, 7):
        kinds: list[Kind] = ["int32", "word", "date", "int64", "bool", "decimal18"]
        yield group(f"keys/{count}", kinds[:count], distinct=6 if count > 2 else 100)
    for functions, what in FUNCTIONS.items():
        for count in (100, 100_000):
            yield group(f"functions/{functions}, {count}", ["int64"], what, distinct=count)
    for draw_kind in ("int64", "short"):
        skewed: dict[str, Any] = {"distinct": MILLION, "draw": "skewed"}
        yield group(f"input/{draw_kind} skewed", [draw_kind], **skewed)
        yield group(f"input/{draw_kind} sorted", [draw_kind], order="sorted", distinct=MILLION)
    yield group("input/nulls 10%", ["int64"], distinct=10_000, nulls=0.1)
    yield group("input/nulls 90%", ["short"], distinct=10_000, nulls=0.9)
    for format_ in FORMATS[1:]:
        yield group(f"format/{format_}", ["word"], distinct=10_000, formats=(format_, format_))
    for rows in (10**4, 10**5, MILLION, 10 * MILLION, 40 * MILLION):
        yield group(f"rows/{rows}", ["int64"], rows=rows, distinct=10_000)


# Join


def join(
    name: str,
    kinds: list[Kind],
    build: int = BUILD_ROWS,
    rows: int = BASE_ROWS,
    rate: float = 1.0,
    how: str = "inner",
    each: int = 1,
    payloads: tuple[list[Kind], list[Kind]] = (["int64"], ["int64"]),
    formats: tuple[Format, Format] = ("parquet", "parquet"),
    **left_key: Any,
) -> Cell:
    """A join of two tables; `each` is the number of rows of the right with one key.

    The further keys have two values on both sides, so that each of them halves the matches.
    """
    first, *rest = kinds
    distinct = max(1, build // each)
    more = columns("j", rest, distinct=2)
    given = {"distinct": max(1, round(distinct / rate)), **left_key}
    left = columns("k", [first], **given)
    right = columns("k", [first], distinct=distinct, draw="unique" if each == 1 else "any")
    tables = (
        Table((*left, *more, *columns("p", payloads[0])), rows, format=formats[0]),
        Table((*right, *more, *columns("q", payloads[1])), build, format=formats[0], seed=2),
    )
    on = tuple(column.name for column in (*left, *more))
    return Cell(f"join/{name}", Join(on, how), tables, formats[1])


JOIN_KINDS = ["int32", "uint32", "int64", "uint64", "float64", "decimal18", "decimal38",
              "timestamp", *STRINGS, *BINARIES]  # fmt: skip
HOWS = ["inner", "left", "right", "full", "semi", "anti"]


def joins() -> Iterator[Cell]:
    for kind in ("int64", "short"):
        for build in (10, 1000, MILLION, BASE_ROWS):
            yield join(f"build side/{kind} {build}", [kind], build)
    for kind in JOIN_KINDS:
        yield join(f"key type/{kind}", [kind])
    for kind in ("int16", "date"):
        yield join(f"key type/{kind}", [kind], 10_000)
    for more in (["word"], ["int32", "date"]):
        yield join(f"keys/{1 + len(more)}", ["int64", *more])
    for rate in (0.01, 0.1, 0.5):
        yield join(f"match rate/int64 {rate}", ["int64"], rate=rate)
        yield join(f"match rate/short {rate}", ["short"], rate=rate)
    yield join("multiplicity/1:1", ["int64"], BASE_ROWS, draw="unique")
    yield join("multiplicity/1:4", ["int64"], MILLION, MILLION, each=4)
    yield join("multiplicity/4:4", ["int64"], MILLION, MILLION, each=4)
    yield join("multiplicity/16:4", ["int64"], 100_000, 400_000, each=4)
    for build in (1000, MILLION):
        yield join(f"skew/left, {build}", ["int64"], build, draw="skewed")
    payloads: dict[str, tuple[list[Kind], list[Kind]]] = {
        "wide left": (TEN, ["int64"]),
        "wide right": (["int64"], TEN),
        "both wide": (TEN, TEN),
        "long string right": (["int64"], ["long"]),
        "none": ([], []),
    }
    for name, pair in payloads.items():
        yield join(f"payload/{name}", ["int64"], payloads=pair)
    for how in HOWS:
        yield join(f"kind/{how}", ["int64"], rate=0.5, how=how)
        yield join(f"kind/{how}, large build", ["int64"], BASE_ROWS, MILLION, 0.5, how)
    yield join("nulls/10%", ["int64"], nulls=0.1)
    text: tuple[list[Kind], list[Kind]] = (["int48"], ["int48"])
    for format_ in FORMATS[1:]:
        yield join(f"format/{format_}", ["int48"], formats=(format_, format_), payloads=text)
    for rows in (10**4, 10**5, MILLION, 10 * MILLION):
        yield join(f"rows/{rows}", ["int64"], rows // 4, rows)


# Scan


def filtered(name: str, part: float, kind: str, order: Order, rows: int = BASE_ROWS) -> Cell:
    """Keeps a part of the rows."""
    key = Column("k0", kind, draw="unique", dense=True)
    table = Table((key, *columns("p", TEN)), rows, order, ("k0",))
    return Cell(f"scan/{name}", Scan(part=part), (table,))


def converted(name: str, source: Format, target: Format, rows: int = CONVERTED_ROWS) -> Cell:
    kinds = TEXT_TEN if is_text(source, target) else TEN
    return Cell(f"scan/{name}", Scan(), (Table(columns("p", kinds), rows, format=source),), target)


def scans() -> Iterator[Cell]:
    for order in ("random", "sorted"):
        for part in (1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0):
            yield filtered(f"filter {order}/{part:g}", part, "int64", order)
    text = Table((Column("k0", "word", 100), *columns("p", TEN)), BASE_ROWS)
    yield Cell("scan/filter string/1/26", Scan(where="k0 < 'b'"), (text,))
    wide = Table(columns("p", [SMALL] * 100), MILLION // 2)
    yield Cell("scan/projection/1 of 100", Scan(("p50",)), (wide,))
    yield Cell("scan/projection/10 of 100", Scan(tuple(f"p{at}0" for at in range(1, 10))), (wide,))
    yield Cell("scan/projection/all of 100", Scan(), (wide,))
    for source in FORMATS:
        for target in FORMATS:
            yield converted(f"{source} to/{target}", source, target)
    copied: dict[str, list[Kind]] = {"nested": PAYLOADS["nested"], "long strings": ["long"] * 3}
    for name, kinds in copied.items():
        table = Table(columns("p", kinds), CONVERTED_ROWS)
        yield Cell(f"scan/copy/{name}", Scan(), (table,))
    for rows in (10**4, 10**5, MILLION, 10 * MILLION):
        yield converted(f"rows/{rows}", "parquet", "parquet", rows)
