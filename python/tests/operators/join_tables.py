"""Input tables for tests of joins, and the result that DuckDB gives."""

from __future__ import annotations

import functools
import random
from typing import Any

import duckdb
import pyarrow as pa

import euphrates as eu

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
ROWS = 3000


def joined(
    left: pa.Table,
    right: pa.Table,
    on: list[Any],
    *,
    count: int | None = None,
    go: dict[str, Any] | None = None,
    report: list[eu.Report] | None = None,
    **options: Any,
) -> pa.Table:
    flow = eu.Flow("join")
    ways = flow.place(eu.from_arrow(left)), flow.place(eu.from_arrow(right))
    join = flow.place(eu.join(on, **options), count=count)
    flow.attach(ways[0], join, input="left")
    flow.attach(ways[1], join, input="right")
    out = flow.place(eu.collect())
    flow.attach(join, out)
    outcome = flow.go(**(go or {}))
    if report is not None:
        report.append(outcome)
    return pa.table(outcome.collected())


def expected(
    left: pa.Table, right: pa.Table, on: list[str], how: str, where: str | None = None
) -> pa.Table:
    con = duckdb.connect()
    con.register("l", left)
    con.register("r", right)
    equal = " and ".join(f"l.{key} = r.{key}" for key in on)
    match = equal + (f" and ({where})" if where else "")
    if how in ("semi", "anti"):
        no = "not " if how == "anti" else ""
        return con.sql(
            f"select * from l where {no}exists (select 1 from r where {match})"
        ).to_arrow_table()
    key = {"right": "r.{0}", "full": "coalesce(l.{0}, r.{0}) as {0}"}.get(how, "l.{0}")
    columns = [key.format(name) if name in on else f"l.{name}" for name in left.column_names]
    columns += [f"r.{name}" for name in right.column_names if name not in on]
    return con.sql(f"select {', '.join(columns)} from l {how} join r on {match}").to_arrow_table()


def check_same(found: pa.Table, wanted: pa.Table) -> None:
    """Compares bags of rows."""
    assert found.column_names == wanted.column_names
    assert found.num_rows == wanted.num_rows
    con = duckdb.connect()
    con.register("found", found)
    con.register("wanted", wanted)
    for one, other in [("found", "wanted"), ("wanted", "found")]:
        extra = con.sql(f"select * from {one} except all select * from {other} limit 5")
        assert extra.fetchall() == [], f"rows of {one} that {other} has not"


@functools.cache
def tables(seed: int, rows: int = ROWS, keys: int = 700) -> tuple[pa.Table, pa.Table]:
    """Two tables with duplicate, null and unmatched keys."""
    luck = random.Random(seed)

    def column(make: Any, count: int) -> list[Any]:
        return [None if luck.random() < 0.05 else make() for _ in range(count)]

    def text() -> str:
        return "x" * luck.randrange(30) + str(luck.randrange(100))

    def side(name: str, count: int, low: int) -> pa.Table:
        return pa.table(
            {
                "k": pa.array(column(lambda: luck.randrange(low, low + keys), count), pa.int64()),
                "m": pa.array(column(lambda: luck.randrange(3), count), pa.int32()),
                "t": pa.array(column(lambda: f"key {luck.randrange(keys // 4)}", count)),
                f"{name}_row": pa.array(range(count), pa.int64()),
                f"{name}_text": pa.array(column(text, count)),
                f"{name}_value": pa.array(column(luck.random, count)),
                f"{name}_list": pa.array(column(lambda: [luck.randrange(9)], count)),
                f"{name}_word": pa.array(column(text, count)).dictionary_encode(),
            }
        )

    return side("a", rows, 0), side("b", rows // 2, keys // 3)


def spill_tables(keys: list[int], rows: int) -> tuple[pa.Table, pa.Table]:
    """A left table of many rows with random keys of these, and a wide right table."""
    luck = random.Random(7)
    left = pa.table({"k": [luck.choice(keys) for _ in range(rows)], "a": range(rows)})
    pad = ["".join(luck.choices("abcdefgh", k=80)) for _ in range(999)]
    right = {"k": keys, "b": range(len(keys)), "pad": [pad[n % 999] for n in range(len(keys))]}
    return left, pa.table(right)
