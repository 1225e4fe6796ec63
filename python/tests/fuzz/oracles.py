"""Expected results by DuckDB, Polars and pyarrow: orders, pairs, groups.

Where an oracle is known to differ from the documentation of this project, it is not used; a comment
says why.
"""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from . import canonical
from .columns import Column, Expected
from .tables import ROW


class DoesNotFitError(Exception):
    """The expected value overflows its type: the flow must fail too."""


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    """DuckDB on one thread: the processors are busy with the system under test."""
    return duckdb.connect(config={"threads": "1"})


def ranks(luck: random.Random, column: Column, descending: bool, nulls_first: bool) -> list[int]:
    """A rank for each row in sort order; equal values share one."""
    if column.norm is None:
        return _ranks_of_nested(column, descending, nulls_first)
    engines = [_ranks_of_duckdb, _ranks_of_polars]
    if not pa.types.is_floating(column.norm.type):
        # pyarrow puts NaN beside the nulls.
        engines.append(_ranks_of_pyarrow)
    return luck.choice(engines)(column.norm, descending, nulls_first)


def sort(luck: random.Random, table: Expected, by: list[dict[str, Any]], stable: bool) -> Expected:
    """The rows in order."""
    keys = [
        ranks(luck, table.columns[key["column"]], key["descending"], key["nulls_first"])
        for key in by
    ]
    whole = list(zip(*keys)) if keys else [()] * len(table)
    order = sorted(range(len(table)), key=lambda row: (whole[row], table.groups[row]))
    groups, last = [], None
    for row in order:
        this = (whole[row], table.groups[row]) if stable else (whole[row],)
        groups.append(len(groups) if this != last else groups[-1])
        last = this
    return table.take(order, groups)


def pairs(
    luck: random.Random,
    sides: tuple[Expected, Expected],
    keys: list[tuple[str, str]],
    where: str | None,
) -> list[tuple[int, int]]:
    """The matching rows of both sides; `where` refers to the columns `l.row_` and `r.row_`."""
    left = _equal_by_bits(sides[0].relation([one for one, _ in keys]))
    right = _equal_by_bits(sides[1].relation([other for _, other in keys], "other"))
    left = left.append_column("row_", sides[0].columns[ROW].norm)
    right = right.append_column("row_", sides[1].columns[ROW].norm)
    same = all(
        left.schema.field(f"k{at}") == right.schema.field(f"k{at}") for at in range(len(keys))
    )
    if same and where is None and luck.random() < 0.3:
        names = [f"k{at}" for at in range(len(keys))]
        joined = pl.DataFrame(left).join(pl.DataFrame(right), on=names, nulls_equal=False)
        return list(joined.select("place", "other").iter_rows())
    con = connection()
    con.register("l", left)
    con.register("r", right)
    equal = " and ".join(f"l.k{at} = r.k{at}" for at in range(len(keys)))
    more = f" and ({where})" if where else ""
    return con.sql(f"select place, other from l join r on {equal}{more}").fetchall()


def _equal_by_bits(table: pa.Table) -> pa.Table:
    """Bits in place of floats, with one pattern for all equal values: Polars joins NaN with NaN,
    except where each side has a single row.
    """
    for at, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            bits = pa.array(canonical.column(column, loose=True), pa.uint64())
            table = table.set_column(at, table.schema.field(at).name, bits)
    return table


def groups(table: Expected, by: list[str], asked: list[tuple[str, str | None]]) -> dict[Any, Any]:
    """Aggregates by group key."""
    names = list(dict.fromkeys([*by, *(of for _, of in asked if of is not None)]))
    con = connection()
    con.register("t", table.relation(names))
    place = {name: f"k{at}" for at, name in enumerate(names)}
    chosen = [place[name] for name in by]
    for function, of in asked:
        chosen += _in_sql(function, place.get(of or ""))
    grouped = f" group by {', '.join(place[name] for name in by)}" if by else ""
    text = ", ".join(f"{what} as c{at}" for at, what in enumerate(chosen))
    try:
        found = con.sql(f"select {text} from t{grouped}").to_arrow_table()
    except (duckdb.OutOfRangeException, duckdb.ConversionException) as error:
        raise DoesNotFitError(str(error)) from error
    rows = canonical.rows(found, loose=True)
    return {row[: len(by)]: row[len(by) :] for row in rows}


FACTS = 5
"""SQL values for each aggregate of a group."""


def _in_sql(function: str, of: str | None) -> list[str]:
    """The aggregate in SQL, and the tolerance of a float sum: its number of values, their
    magnitude, whether one is not finite, and the possible sums.
    """
    nothing = ["null"] * (FACTS - 1)
    if function == "count":
        return [f"count({of or '*'})", *nothing]
    if function == "count distinct":
        return [f"count(distinct {of})", *nothing]
    if function in ("min", "max"):
        return [f"{function}({of})", *nothing]
    wide = f"{of}::double"
    odd = f"sum(case when isfinite({wide}) then 0 else {wide} end)"
    near = [f"sum(abs({wide}))", f"count({of})", f"count(*) filter (not isfinite({wide}))", odd]
    exact = f"sum({of})" if function == "sum" else f"fsum({wide})"
    return [exact, *near]


def _ranks_of_duckdb(norm: pa.Array, descending: bool, nulls_first: bool) -> list[int]:
    con = connection()
    con.register("t", pa.table({"k": norm, "place": pa.array(range(len(norm)), pa.int64())}))
    way = f"{'desc' if descending else 'asc'} nulls {'first' if nulls_first else 'last'}"
    text = f"select dense_rank() over (order by k {way}) from t order by place"
    return [rank for (rank,) in con.sql(text).fetchall()]


def _ranks_of_polars(norm: pa.Array, descending: bool, nulls_first: bool) -> list[int]:
    series = pl.Series(norm)
    if series.dtype.is_float():
        # Signed zeros are equal there, but have two ranks.
        series = series + 0.0
    ranked = series.rank("dense", descending=descending)
    null = -1 if nulls_first else len(norm) + 1
    return [int(rank) for rank in ranked.fill_null(null)]


def _ranks_of_pyarrow(norm: pa.Array, descending: bool, nulls_first: bool) -> list[int]:
    if norm.type == pa.decimal128(38, 38):
        norm = norm.cast(pa.decimal256(76, 38))
    way = "descending" if descending else "ascending"
    place = "at_start" if nulls_first else "at_end"
    ranked = pc.rank(norm, sort_keys=way, null_placement=place, tiebreaker="dense")
    return [int(rank) for rank in ranked.to_pylist()]


def _ranks_of_nested(column: Column, descending: bool, nulls_first: bool) -> list[int]:
    """Ranks of lists and structs, which no oracle orders as documented: the first difference
    decides, and nested nulls sort like those of the column.
    """
    compare = functools.partial(_compare, column.kind, descending, nulls_first)
    order = sorted(column.raw, key=functools.cmp_to_key(compare))
    rank = 0
    by_value: dict[Any, int] = {}
    for at, value in enumerate(order):
        rank += at > 0 and compare(order[at - 1], value) != 0
        by_value[value] = rank
    return [by_value[value] for value in column.raw]


def _compare(kind: pa.DataType, descending: bool, nulls_first: bool, one: Any, other: Any) -> int:
    if one is None or other is None:
        both = (one is None) - (other is None)
        return -both if nulls_first else both
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    within = functools.partial(_within, descending, nulls_first)
    if pa.types.is_struct(kind):
        fields = [(kind.field(at).type, *pair) for at, pair in enumerate(zip(one, other))]
        return next((way for way in (within(*each) for each in fields) if way), 0)
    if pa.types.is_map(kind):
        entries = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        kind = pa.list_(entries)
    if pa.types.is_nested(kind):
        pairs = [(kind.value_type, *pair) for pair in zip(one, other)]
        first = next((way for way in (within(*each) for each in pairs) if way), 0)
        way = (len(one) > len(other)) - (len(one) < len(other))
        return first or (-way if descending else way)
    if pa.types.is_floating(kind):
        one, other = (_order_of_float(bits, kind) for bits in (one, other))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        one, other = one.encode(), other.encode()
    way = (one > other) - (one < other)
    return -way if descending else way


def _within(descending: bool, nulls_first: bool, kind: pa.DataType, one: Any, other: Any) -> int:
    return _compare(kind, descending, nulls_first, one, other)


def _order_of_float(bits: int, kind: pa.DataType) -> tuple[bool, float]:
    width = kind.bit_width // 8
    value = pa.array([bits], f"uint{8 * width}").view(kind)[0].as_py()
    return (True, 0.0) if math.isnan(value) else (False, float(value))
