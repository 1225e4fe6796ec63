"""Window functions over random rows, whose values DuckDB's must equal.

`EUPHRATES_SEEDS=100:140` runs other seeds than the ordinary ones, as for random queries.
"""

from __future__ import annotations

import math
import os
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu
from test_sql import rows

SEEDS = range(*map(int, os.environ.get("EUPHRATES_SEEDS", "0:40").split(":")))


def table(random: random.Random) -> pa.Table:
    """Rows with few values in each column, and nulls."""
    count = random.choice([1, 2, 30, 300])

    def column(values: list[Any]) -> list[Any]:
        return [None if random.random() < 0.15 else random.choice(values) for _ in range(count)]

    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "g": pa.array(column([1, 2, 3]), pa.int32()),
            "t": pa.array(column(["a", "b", "é", ""]), pa.string()),
            "k": pa.array(column([*range(-5, 20)]), pa.int16()),
            "f": pa.array(column([0.5, -1.5, 2.25, 7.0]), pa.float64()),
            "x": pa.array(column([*range(-100, 100)]), pa.int32()),
        }
    )


def frame(random: random.Random, order: str) -> str:
    """A frame that the order allows; none, most often."""
    units = random.choice(["", "", "rows", "groups", "range"])
    if not units or not order:
        return ""
    if units == "rows" and not order.startswith("id"):
        return ""  # which rows these are would be open
    can_count = units != "range" or order.split()[0] in ("k", "id", "x")
    has_one = "," not in order
    offset = str(random.randint(0, 4))
    bounds = ["unbounded preceding", "current row", "unbounded following"]
    if can_count and (has_one or units != "range"):
        bounds[1:1] = [f"{offset} preceding"]
        bounds[3:3] = [f"{random.randint(0, 4)} following"]
    start = random.randrange(len(bounds) - 1)
    end = random.randrange(max(start, 1), len(bounds))
    return f"{units} between {bounds[start]} and {bounds[end]}"


def query(random: random.Random) -> str:
    """Some window functions of a row, with the row's number to order by."""
    items = []
    for number in range(3):
        # Equal rows have equal values: functions of a row's place need an order of all rows.
        value = random.choice(["x", "f", "t", "k"])
        number_value = random.choice(["x", "f", "k"])
        by_place = random.random() < 0.4
        order = random.choice(["id", "id desc"] if by_place else ["k", "x desc", "f, k", "t", ""])
        if order and random.random() < 0.3:
            order += " nulls first"
        places = ["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()"]
        places += [f"ntile({random.randint(1, 5)})", f"lag({value}, {random.randint(0, 3)})"]
        places += [f"lead({value})", f"first_value({value})", f"last_value({value} ignore nulls)"]
        places += [f"nth_value({value}, 2)"]
        sums = [f"sum({number_value})", f"avg({number_value})", f"min({value})", "count(*)"]
        sums += [f"max({value})", f"count({value})"]
        sums += [f"stddev_pop({number_value})", f"median({number_value})", "bit_xor(x)"]
        sums += [f"quantile_disc({value}, 0.3)", f"quantile_cont({number_value}, 0.9)"]
        sums += [f"count(distinct {value})", f"sum(distinct {number_value})", "covar_pop(x, k)"]
        sums += [f"var_samp({number_value})", f"max({value}, 2)", "count(*) filter (where x > 0)"]
        sums += [f"count(distinct {value}) filter (where k > 3)", "entropy(k)"]
        places += [f"array_agg({value})", "string_agg(t, '-')", f"any_value({value})"]
        places += [f"arg_min({value}, id)", f"first({value})", "array_agg(x) filter (where k > 5)"]
        ranks = ["rank()", "dense_rank()"] if order else []
        function = random.choice([*places, *sums] if by_place else [*sums, *ranks])
        parts = random.choice(["", "partition by g", "partition by g, t", "partition by f"])
        ordered = f"order by {order}" if order else ""
        window = f"{parts} {ordered} {frame(random, order)}"
        items.append(f"{function} over ({window}) as v{number}")
    return f"select id, {', '.join(items)} from t order by id"


def alike(ours: Any, theirs: Any) -> bool:
    """Whether values are equal, and numbers but for their last digits."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-4, abs_tol=1e-4) or ours == theirs
    return bool(ours == theirs)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_windows_have_the_values_of_duckdb(seed: int) -> None:
    chosen = random.Random(seed)
    t = table(chosen)
    connection = duckdb.connect()
    connection.register("t", t)
    for _ in range(6):
        text = query(chosen)
        theirs = connection.sql(text).to_arrow_table()
        ours = eu.sql(text, t=t).to_pyarrow()
        assert alike(rows(ours, True), rows(theirs, True)), text


def test_window_is_spilled_and_spread_over_workers() -> None:
    numbers = eu.generate("integers", rows=200_000).select("n", g="n % 1000")
    ranked = numbers.sql(
        "select g, n, row_number() over (partition by g order by n desc) as r from self"
    )
    best = ranked.filter("r <= 2").sort("g", "r")
    expected = [{"g": 0, "n": 199_000, "r": 1}, {"g": 0, "n": 198_000, "r": 2}]
    for options in ({"memory": "48MiB"}, {"workers": 3}):
        found = best.to_pylist(**options)
        assert len(found) == 2000
        assert found[:2] == expected


def test_partition_beyond_memory_is_named() -> None:
    numbers = eu.generate("integers", rows=4_000_000)
    query = "select sum(s) as s from (select sum(n) over (order by n) as s from self) t"
    with pytest.raises(eu.ResourceError, match="a window's partition"):
        numbers.sql(query).collect(memory="48MiB")
