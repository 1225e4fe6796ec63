"""Random tables of edge values, and random expressions in Euphrates' SQL and in DuckDB's.

`case(seed)` is deterministic. Where the dialects differ by design (docs/expressions.md), an
expression is spelled for each: DuckDB's FLOAT is widened before any operation, and so are integers
before arithmetic.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import fractions
import math
import random
import re
import struct
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

ROWS = 24
NAN_NEGATIVE = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
EPOCH = datetime.date(1970, 1, 1)
DECIMALS = decimal.Context(prec=100)


@dataclasses.dataclass(frozen=True)
class Pair:
    """An expression in both dialects."""

    ours: str
    theirs: str

    def __str__(self) -> str:
        return self.ours


@dataclasses.dataclass(frozen=True)
class Case:
    """A table, and expressions over it."""

    seed: int
    table: pa.Table
    expressions: list[Pair]


@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    family: str
    data_type: pa.DataType
    values: list[Any]
    theirs: str


def integers(bits: int, signed: bool) -> list[int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return sorted({low, low + 1, 0, 1, 2, 3, 7, high - 1, high} | ({-1, -2} if signed else set()))


def decimals(digits: int, scale: int) -> list[decimal.Decimal]:
    most = 10**digits - 1
    unscaled = [0, 1, -1, 5, 10**scale, -(10**scale), 15 * 10**scale // 10, most, -most]
    return [decimal.Decimal(n).scaleb(-scale, DECIMALS) for n in unscaled if abs(n) <= most]


FLOATS = [0.0, -0.0, math.nan, NAN_NEGATIVE, math.inf, -math.inf, 1.0, -1.0, 0.5, 1.5, 2.0]
TEXTS = ["", "a", "A", "b", "aa", "ab%_", "böse", "𠮷野", "0", "12", "z" * 40, " a "]
DAYS = [-719_162, -1, 0, 1, 59, 10_957, 19_782, 106_751, 106_752, 200_000, 2_000_000]
EXTREME_DAYS = [-2_000_000, 90_000_000, -90_000_000]

COLUMNS = [
    *[Column(f"i{bits}", "number", getattr(pa, f"int{bits}")(), integers(bits, True), f"i{bits}")
      for bits in (8, 16, 32, 64)],
    *[Column(f"u{bits}", "number", getattr(pa, f"uint{bits}")(), integers(bits, False), f"u{bits}")
      for bits in (8, 16, 32, 64)],
    Column("f64", "number", pa.float64(), [*FLOATS, 1e20, 1e-17, 1e300, 0.1, 2.0**53], "f64"),
    Column("f32", "number", pa.float32(), [*FLOATS, 16777216.0, 2.0**127], "f32::DOUBLE"),
    Column("d5", "number", pa.decimal128(5, 2), decimals(5, 2), "d5"),
    Column("d18", "number", pa.decimal128(18, 0), decimals(18, 0), "d18"),
    Column("d38", "number", pa.decimal128(38, 10), decimals(28, 10), "d38"),
    Column("s", "text", pa.string(), TEXTS, "s"),
    Column("t", "text", pa.large_string(), TEXTS, "t"),
    Column("v", "text", pa.string_view(), TEXTS, "v"),
    Column("c", "text", pa.dictionary(pa.int32(), pa.string()), TEXTS[:5], "c"),
    Column("y", "truth", pa.bool_(), [True, False], "y"),
    Column("x", "bytes", pa.binary(), [b"", b"a", b"\xff", b"\x00\x01"], "x"),
    Column("day", "time", pa.date32(), [*DAYS, *EXTREME_DAYS], "day"),
    Column("ts", "time", pa.timestamp("s"), [d * 86_400 + 7 for d in DAYS], "ts"),
    Column("tm", "time", pa.timestamp("ms"), [d * 86_400_000 + 7 for d in DAYS], "tm"),
    Column("tu", "time", pa.timestamp("us"), [d * 86_400_000_000 for d in DAYS], "tu"),
    Column("tn", "time", pa.timestamp("ns"), [d * 86_400 * 10**9 for d in DAYS[1:7]], "tn"),
]  # fmt: skip


def case(seed: int, expressions: int = 6, rows: int = ROWS) -> Case:
    """The case of this seed."""
    rng = random.Random(seed)
    table = pa.table({column.name: values(rng, column, rows) for column in COLUMNS})
    maker = Maker(rng)
    return Case(
        seed, table, [maker.any(rng.choice([1, 2, 2, 3, 3, 4])) for _ in range(expressions)]
    )


def values(rng: random.Random, column: Column, rows: int) -> pa.Array:
    chosen = [rng.choice([*column.values, None]) for _ in range(rows)]
    if pa.types.is_date32(column.data_type):
        return pa.array(chosen, pa.int32()).cast(pa.date32())
    if pa.types.is_timestamp(column.data_type):
        return pa.array(chosen, pa.int64()).cast(column.data_type)
    if pa.types.is_dictionary(column.data_type):
        return pa.array(chosen, column.data_type.value_type).dictionary_encode()
    return pa.array(chosen, column.data_type)


class Maker:
    """Generates expressions, each of a family whose members are comparable."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.makers: dict[str, list[Callable[[int], Pair]]] = {
            "truth": [self.compared, self.compared, self.distinct, self.listed, self.listed,
                      self.between, self.null, self.joined, self.negated, self.like],
            "number": [self.reckoned, self.reckoned, self.negative, self.widened, self.length,
                       self.part],
            "text": [self.concatenated, self.cased, self.cut, self.replaced, self.spelled],
            "time": [],
            "bytes": [],
        }  # fmt: skip

    def any(self, depth: int) -> Pair:
        return self.make(
            self.rng.choice(["truth", "truth", "number", "number", "text", "time"]), depth
        )

    def make(self, family: str, depth: int) -> Pair:
        if depth <= 0 or self.rng.random() < 0.1:
            return self.leaf(family)
        makers = [*self.makers[family], self.chosen(family), self.chosen(family)]
        return self.rng.choice(makers)(depth - 1)

    def leaf(self, family: str) -> Pair:
        if self.rng.random() < 0.3 and family in ("number", "text", "truth"):
            return self.literal(family)
        return self.column(family)

    def column(self, family: str) -> Pair:
        column = self.rng.choice([column for column in COLUMNS if column.family == family])
        return Pair(column.name, column.theirs)

    def literal(self, family: str) -> Pair:
        numbers = ["0", "1", "-1", "2", "0.5", "1.00", "-0.0", "1e0", "0e0", "127", "300", "12.345"]
        texts = ["''", "'a'", "'A'", "'böse'", "'aa'", "'it''s'"]
        text = self.rng.choice(
            {"number": numbers, "text": texts, "truth": ["true", "false"]}[family]
        )
        return Pair(text, text)

    def both(self, form: str, **parts: Pair) -> Pair:
        ours = form.format(**{name: part.ours for name, part in parts.items()})
        return Pair(ours, form.format(**{name: part.theirs for name, part in parts.items()}))

    def family(self) -> str:
        return self.rng.choice(["number", "number", "number", "text", "time", "truth", "bytes"])

    def compared(self, depth: int) -> Pair:
        family = self.family()
        op = self.rng.choice(["=", "<>", "<", "<=", ">", ">="])
        return self.both(
            f"({{a}} {op} {{b}})", a=self.make(family, depth), b=self.make(family, depth)
        )

    def distinct(self, depth: int) -> Pair:
        family = self.family()
        no = self.rng.choice(["", "not "])
        a, b = self.make(family, depth), self.make(family, depth)
        return self.both(f"({{a}} is {no}distinct from {{b}})", a=a, b=b)

    def listed(self, depth: int) -> Pair:
        family = self.family()
        no = self.rng.choice(["", "not "])
        items = [
            self.leaf(family) if self.rng.random() < 0.7 else self.make(family, depth)
            for _ in range(self.rng.randint(1, 4))
        ]
        a, *items = doubles(family, [self.make(family, depth), *items])
        if self.rng.random() < 0.2:
            items.append(Pair("null", "null"))
        ours, theirs = (", ".join(getattr(i, side) for i in items) for side in ("ours", "theirs"))
        return Pair(f"({a.ours} {no}in ({ours}))", f"({a.theirs} {no}in ({theirs}))")

    def between(self, depth: int) -> Pair:
        family = self.rng.choice(["number", "text", "time"])
        no = self.rng.choice(["", "not "])
        a, b, c = doubles(family, [self.make(family, depth) for _ in range(3)])
        return self.both(f"({{a}} {no}between {{b}} and {{c}})", a=a, b=b, c=c)

    def null(self, depth: int) -> Pair:
        no = self.rng.choice(["", "not "])
        return self.both(f"({{a}} is {no}null)", a=self.make(self.family(), depth))

    def joined(self, depth: int) -> Pair:
        op = self.rng.choice(["and", "or"])
        return self.both(
            f"({{a}} {op} {{b}})", a=self.make("truth", depth), b=self.make("truth", depth)
        )

    def negated(self, depth: int) -> Pair:
        return self.both("(not {a})", a=self.make("truth", depth))

    def like(self, depth: int) -> Pair:
        pattern = self.rng.choice(["'a%'", "'%s%'", "'_'", "'%'", "''", "'__'"])
        no = self.rng.choice(["", "not "])
        return self.both(f"({{a}} {no}like {pattern})", a=self.make("text", depth))

    def chosen(self, family: str) -> Callable[[int], Pair]:
        """CASE and similar, over members of the family."""

        def make(depth: int) -> Pair:
            a, b, c = (self.make(family, depth) for _ in range(3))
            forms = ["coalesce({a}, {b}, {c})", "nullif({a}, {b})"]
            forms.append("case when {p} then {a} when {q} then {b} else {c} end")
            forms.append("case when {p} then {a} end")
            forms.append("case {k} when {l} then {a} else {b} end")
            if family != "truth":
                forms += ["greatest({a}, {b}, {c})", "least({a}, {b})"]
            other = self.family()
            parts = {"a": a, "b": b, "c": c, "k": self.leaf(other), "l": self.leaf(other)}
            parts |= {"p": self.make("truth", depth - 1), "q": self.make("truth", depth - 1)}
            return self.both(self.rng.choice(forms), **parts)

        return make

    def reckoned(self, depth: int) -> Pair:
        """Small numbers, whose types do not matter, and large ones that may overflow."""
        exact = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "d5", "d18"]
        a = self.rng.choice(exact) if self.rng.random() < 0.7 else "f64"
        b = self.rng.choice([*exact, "f64", "1", "2", "0.5", "3"])
        # DuckDB rounds values beyond 38 digits where results of a CASE are unified; Euphrates does
        # not.
        op = self.rng.choice(["+", "-", "%"] if "d18" in (a, b) else ["+", "-", "*", "%"])
        if op == "%":
            b = self.rng.choice(["3", "7", "2"])
        ours = f"({a} {op} {b})"
        wide = {**{name: f"{name}::BIGINT" for name in exact if name[0] in "iu"}}
        return Pair(ours, f"({wide.get(a, a)} {op} {wide.get(b, b)})")

    def negative(self, depth: int) -> Pair:
        return self.both("(- {a})", a=self.column("number"))

    def widened(self, depth: int) -> Pair:
        return self.both("cast({a} as double)", a=self.make("number", depth))

    def length(self, depth: int) -> Pair:
        return self.both("length({a})", a=self.make("text", depth))

    def part(self, depth: int) -> Pair:
        part = self.rng.choice(["year", "month", "day", "hour", "doy", "quarter", "isodow"])
        return self.both(f"extract({part} from {{a}})", a=self.make("time", depth))

    def concatenated(self, depth: int) -> Pair:
        return self.both("({a} || {b})", a=self.make("text", depth), b=self.make("text", depth))

    def cased(self, depth: int) -> Pair:
        function = self.rng.choice(["upper", "lower", "trim", "reverse"])
        return self.both(f"{function}({{a}})", a=self.make("text", depth))

    def cut(self, depth: int) -> Pair:
        return self.both(f"substr({{a}}, 1, {self.rng.randint(0, 3)})", a=self.make("text", depth))

    def replaced(self, depth: int) -> Pair:
        return self.both("replace({a}, 'a', 'xy')", a=self.make("text", depth))

    def spelled(self, depth: int) -> Pair:
        column = self.rng.choice(["i8", "i64", "u64", "d5", "d18"])
        return Pair(f"cast({column} as varchar)", f"cast({column} as varchar)")


def doubles(family: str, parts: list[Pair]) -> list[Pair]:
    """DuckDB compares all operands in one type: floating point, if one operand is."""
    floating = any(re.search(r"f64|f32|double|e0", part.ours) for part in parts)
    if family != "number" or not floating:
        return parts
    return [Pair(*(f"cast({text} as double)" for text in (p.ours, p.theirs))) for p in parts]


def plain(array: pa.ChunkedArray) -> list[Any]:
    """Values comparable with those of another type."""
    data_type = array.type
    if pa.types.is_dictionary(data_type):
        return plain(array.cast(data_type.value_type))
    if pa.types.is_date32(data_type):
        days = array.cast(pa.int32()).to_pylist()
        return [None if day is None else ("time", day * 86_400 * 10**9) for day in days]
    if pa.types.is_timestamp(data_type):
        unit = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[data_type.unit]
        return [
            None if n is None else ("time", n * unit) for n in array.cast(pa.int64()).to_pylist()
        ]
    return [plain_value(value) for value in array.to_pylist()]


def plain_value(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and math.isinf(value):
        return value
    return fractions.Fraction(value)


def same(ours: Any, theirs: Any) -> bool:
    """Whether values are equal; doubles may differ in their last bits."""
    if ours == theirs:
        return True
    numbers = isinstance(ours, fractions.Fraction) and isinstance(theirs, fractions.Fraction)
    return numbers and abs(ours - theirs) <= max(abs(ours), abs(theirs)) * fractions.Fraction(
        1, 10**14
    )


class Oracle:
    """DuckDB with the table of one case."""

    def __init__(self, table: pa.Table) -> None:
        self.con = duckdb.connect()
        self.con.register("cases", table)

    def values(self, expressions: list[str]) -> list[list[Any]] | None:
        """The values of each expression; `None` if one is rejected."""
        items = ", ".join(f"{text} as x{number}" for number, text in enumerate(expressions))
        try:
            table = self.con.sql(f"select {items} from cases").to_arrow_table()
            return [plain(column) for column in table.columns]
        except (duckdb.Error, pa.ArrowException, OverflowError):
            return None

    def use(self, table: pa.Table) -> None:
        """Switches to another table."""
        self.con.unregister("cases")
        self.con.register("cases", table)
