"""Random expressions over one table, evaluated by flows and by DuckDB."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

import euphrates as eu

from . import canonical, tables, values
from .columns import normal
from .context import Context, WrongAnswerError
from .oracles import connection

COLUMNS = {
    "i": pa.int64(),
    "j": pa.int32(),
    "u": pa.uint8(),
    "x": pa.float64(),
    "y": pa.float32(),
    "m": pa.decimal128(18, 3),
    "s": pa.string(),
    "a": pa.string(),
    "b": pa.bool_(),
    "t": pa.date32(),
    "w": pa.timestamp("us"),
}
ASCII = ["", "a", "A", "abc", "aBc", " x ", "a%b_", "twelve bytes!", "1", "-7", "ab,ab"]
NEAR = 4 * 10**8
"""Seconds around 2023, within the range of all calendars."""
FAILS = (duckdb.OutOfRangeException, duckdb.ConversionException, duckdb.InvalidInputException)


def computing(context: Context) -> None:
    """A filter, or some computed columns."""
    table = context.table(_table(context.data, tables.row_count(context.data, 500)))
    if set(table.column_names) != {*COLUMNS, tables.ROW}:
        return
    if context.luck.random() < 0.5:
        return _filter(context, table)
    return _project(context, table)


def _table(luck: random.Random, rows: int) -> pa.Table:
    made = {}
    for name, kind in COLUMNS.items():
        pool = _pool(luck, name, kind)
        raw = [None if luck.random() < 0.15 else luck.choice(pool) for _ in range(rows)]
        made[name] = values.of_raw(raw, kind)
    made[tables.ROW] = pa.array(range(rows), pa.int64())
    return tables.in_pieces(luck, pa.table(made))


def _pool(luck: random.Random, name: str, kind: pa.DataType) -> list[Any]:
    if name == "a":
        return ASCII
    if name == "t":
        return [19_000 + luck.randrange(-4000, 4000) for _ in range(20)]
    if name == "w":
        now = 1_700_000_000
        return [(now + luck.randrange(-NEAR, NEAR)) * 10**6 + luck.randrange(10**6) for _ in "1234"]
    pool = values.edges(luck, kind, 10)
    if name == "s":
        # DuckDB ends patterns and search strings at a zero byte.
        return [one for one in pool if "\0" not in one]
    return pool if luck.random() < 0.3 else luck.sample(pool, min(len(pool), 8))


def _filter(context: Context, table: pa.Table) -> None:
    text, theirs = _Maker(context.luck).make("bool", 3)
    context.tell(f"filter {text}\nDuckDB: {theirs}")
    query = f"select {tables.ROW} from t where {theirs} order by {tables.ROW}"
    wanted = _asked(table, query)
    module = eu.filter(text)
    found = _told(context, table, [module, eu.project([tables.ROW])], wanted, text)
    if found is not None and wanted is not None:
        rows = sorted(canonical.rows(found))
        wrong = canonical.different_rows(rows, canonical.rows(wanted), ordered=True)
        if wrong:
            raise WrongAnswerError(f"{wrong}; of {_shown(table, rows, canonical.rows(wanted))}")


def _shown(table: pa.Table, found: list[Any], wanted: list[Any]) -> list[Any]:
    """The surplus or missing rows."""
    different = sorted(set(found) ^ set(wanted))[:2]
    rows = canonical.rows(table)
    return [dict(zip(table.column_names, rows[row])) for (row,) in different]


def _project(context: Context, table: pa.Table) -> None:
    maker = _Maker(context.luck)
    kinds = [context.luck.choice(list(_MAKES)) for _ in range(context.luck.randrange(1, 4))]
    made = [maker.make(kind, 3) for kind in kinds]
    texts = [f"{text} as e{at}" for at, (text, _) in enumerate(made)]
    theirs = ", ".join(f"{text} as e{at}" for at, (_, text) in enumerate(made))
    context.tell(f"project {texts}\nDuckDB: {theirs}")
    wanted = _asked(table, f"select {tables.ROW}, {theirs} from t order by {tables.ROW}")
    modules = [eu.project([tables.ROW, *texts])]
    found = _told(context, table, modules, wanted, " ".join(texts))
    if found is not None and wanted is not None:
        sides = [_comparable(found), _comparable(wanted)]
        rows = [sorted(side, key=lambda row: row[0]) for side in sides]
        wrong = canonical.different_rows(*rows, ordered=True)
        if wrong:
            raise WrongAnswerError(wrong)


def _comparable(table: pa.Table) -> list[tuple[Any, ...]]:
    """Values independent of their width: the result type is documented, and differs from
    DuckDB's.
    """
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_floating(kind):
            column = column.cast(pa.float64())
        if pa.types.is_temporal(kind):
            columns.append(canonical.column(column))
            continue
        held = normal(column)
        columns.append(canonical.column(held, loose=True))
    return list(zip(*columns))


def _asked(table: pa.Table, query: str) -> pa.Table | None:
    """DuckDB's result; None if it fails."""
    con = connection()
    con.register("t", table)
    try:
        return con.sql(query).to_arrow_table()
    except FAILS:
        return None


def _told(
    context: Context, table: pa.Table, modules: list[Any], wanted: pa.Table | None, text: str
) -> pa.Table | None:
    """The flow's result. It may fail where DuckDB fails, and where it evaluates an operand
    eagerly.
    """
    lazy = any(word in text for word in ("case", "coalesce", " and ", " or ", "nullif"))
    try:
        return context.collected(eu.from_arrow(table), *modules)
    except eu.FlowError as error:
        computed = ("overflow", "Overflow", "too large", "out of range")
        if (wanted is None or lazy) and any(word in str(error) for word in computed):
            return None
        raise


class _Maker:
    """Generates expressions of a kind of value, in the dialects of flows and of DuckDB."""

    def __init__(self, luck: random.Random) -> None:
        self.luck = luck

    def make(self, kind: str, depth: int) -> tuple[str, str]:
        leaves, nodes = _MAKES[kind]
        if depth <= 0 or self.luck.random() < 0.2:
            ours = self.luck.choice(leaves)
            text = ours(self) if callable(ours) else ours
            return text, text
        form = self.luck.choice(nodes)
        if isinstance(form, tuple):
            ours, theirs = form
        else:
            ours = theirs = form
        filled = self._filled(ours, theirs, depth)
        return f"({filled[0]})", f"({filled[1]})"

    def _filled(self, ours: str, theirs: str, depth: int) -> tuple[str, str]:
        """Forms with each `{kind}` replaced; the same replacement in both dialects."""
        names = [part.split("}")[0] for part in ours.split("{")[1:]]
        for name in dict.fromkeys(names):
            one, other = self.make(name.rstrip("123"), depth - 1)
            ours, theirs = (
                ours.replace("{" + name + "}", one),
                theirs.replace("{" + name + "}", other),
            )
        return ours, theirs


def _whole(maker: _Maker) -> str:
    return str(maker.luck.choice([0, 1, 2, 3, 7, 100, 2**31, 2**53, 2**63 - 1]))


def _real(maker: _Maker) -> str:
    return maker.luck.choice(["0e0", "1.5e0", "1e10", "1e-17", "1e300"])


def _word(maker: _Maker) -> str:
    return (
        "'"
        + maker.luck.choice([word for word in values.WORDS if "\0" not in word][:20] + ASCII)[
            :20
        ].replace("'", "''")
        + "'"
    )


def _pattern(maker: _Maker) -> str:
    return maker.luck.choice(["'a%'", "'%b%'", "'_'", "'%'", "''", "'a_c'", "'%x%y%'"])


def _day(maker: _Maker) -> str:
    return maker.luck.choice(["date '2024-02-29'", "date '1969-12-31'", "date '2022-01-01'"])


def _moment(maker: _Maker) -> str:
    return maker.luck.choice(
        ["timestamp '2023-01-01 00:00:00'", "timestamp '2021-03-04 05:06:07.8'"]
    )


def _digits(maker: _Maker) -> str:
    return maker.luck.choice(["cast(1.5 as decimal(18, 3))", "cast(0 as decimal(18, 3))"])


_CONDITIONS = [
    f"{{{kind}1}} {sign} {{{kind}2}}"
    for kind in ("int", "real", "text", "date", "time", "dec", "small")
    for sign in ("=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from")
]
_ANY = ("int", "real", "text", "date", "time", "dec", "bool")
_CHOICES: Callable[[str], list[Any]] = lambda kind: [  # noqa: E731 - forms for each kind
    f"case when {{bool}} then {{{kind}1}} else {{{kind}2}} end",
    f"case when {{bool1}} then {{{kind}1}} when {{bool2}} then {{{kind}2}} end",
    f"case {{{kind}3}} when {{{kind}1}} then {{{kind}2}} else {{{kind}1}} end",
    f"coalesce({{{kind}1}}, {{{kind}2}})",
    f"nullif({{{kind}1}}, {{{kind}2}})",
    f"greatest({{{kind}1}}, {{{kind}2}})" if kind != "bool" else "not {bool}",
    f"least({{{kind}1}}, {{{kind}2}})" if kind != "bool" else "not {bool}",
]
_MAKES: dict[str, tuple[list[Any], list[Any]]] = {
    "bool": (
        ["b", "true", "false", "(i > 0)", "(s is null)"],
        [
            *_CONDITIONS,
            *(["{bool1} and {bool2}", "{bool1} or {bool2}", "not {bool}"] * 4),
            *(f"{{{kind}}} is null" for kind in _ANY),
            *(f"{{{kind}}} is not null" for kind in _ANY),
            *(f"{{{kind}1}} in ({{{kind}2}}, {{{kind}3}})" for kind in _ANY if kind != "bool"),
            *(f"{{{kind}1}} not in ({{{kind}2}}, {{{kind}3}})" for kind in ("int", "text", "real")),
            *(f"{{{kind}1}} between {{{kind}2}} and {{{kind}3}}" for kind in _ANY[:6]),
            *["{text} like {pattern}", "{text} not like {pattern}"],
            *["{bool} is true", "{bool} is not true", "{bool} is false", "b = {bool}"],
            *["{int} < {real}", "{real} = {int}", "{dec} < {real}", "{dec} >= {int}"],
            *["{date} < {time}", "{time} >= {date}", "{small} = {int}", "{real} > {narrow}"],
            *_CHOICES("bool"),
        ],
    ),
    "int": (
        ["i", "i", _whole, "cast(j as bigint)", "cast(u as bigint)", "r"],
        [
            *["{int1} + {int2}", "{int1} - {int2}", "{int1} * {int2}", "{int} % 7", "-{int}"],
            *["abs({int})", "cast({small} as bigint)", "cast({bool} as bigint)"],
            *["cast(length({text}) as bigint)", "cast(strpos({text}, 'a') as bigint)"],
            *[
                "cast(extract(year from {date}) as bigint)",
                "cast(extract(day from {time}) as bigint)",
            ],
            *_CHOICES("int"),
        ],
    ),
    "small": (["j", "u", "1", "200"], ["case when {bool} then j else u end"]),
    "narrow": (["y"], ["case when {bool} then y else cast(0 as real) end"]),
    "real": (
        ["x", "x", "cast(y as double)", _real],
        [
            *["{real1} + {real2}", "{real1} - {real2}", "{real1} * {real2}", "-{real}"],
            *["abs({real})", "cast({int} as double)", "cast({dec} as double)"],
            *["floor({real})", "ceil({real})"],
            *["{real} / 3e0", "sqrt(abs({real}))"],
            *_CHOICES("real"),
        ],
    ),
    "dec": (
        ["m", "m", _digits],
        [
            "case when {bool} then {dec1} else {dec2} end",
            "coalesce({dec1}, {dec2})",
            "greatest({dec1}, {dec2})",
            "nullif({dec1}, {dec2})",
        ],
    ),
    "pattern": ([_pattern], [_pattern] and ["'a' || {pattern}"]),
    "plain": (["a"], ["trim({plain})", "lower({plain})", "upper({plain})"]),
    "text": (
        ["s", "s", "a", _word],
        [
            *["{text1} || {text2}", "substr({text}, 2, 3)", "left({text}, 3)", "{plain}"],
            *["replace({text}, 'a', 'bb')", "cast({int} as varchar)", "cast({bool} as varchar)"],
            *["trim({text})", "concat({text1}, {text2})", "cast({date} as varchar)"],
            *_CHOICES("text"),
        ],
    ),
    "date": (["t", "t", _day], [*_CHOICES("date"), "cast({time} as date)"]),
    "time": (
        ["w", "w", _moment],
        [
            *_CHOICES("time"),
            *[
                "date_trunc('hour', {time})",
                "{time} + interval '1' day",
                "cast({date} as timestamp)",
            ],
            *["date_trunc('month', {time})", "{time} - interval '2' month"],
        ],
    ),
}


def nan(value: Any) -> bool:
    """Whether it is NaN."""
    return isinstance(value, float) and math.isnan(value)
