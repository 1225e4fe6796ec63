"""Windows: functions, partitions, orders and frames; aggregates: functions and kinds of groups."""

from __future__ import annotations

from collections.abc import Iterator

ROWS = [
    *("(1, 'a', 1, 10, '0.5', '2024-01-01')", "(2, 'a', 1, null, '1.5', '2024-01-02')"),
    *("(3, 'a', 2, 30, null, '2024-01-04')", "(4, 'b', null, 20, '-2.0', '2024-01-04')"),
    *("(5, 'b', 5, 20, '2.25', null)", "(6, null, 5, -5, '4.0', '2024-02-01')"),
    *("(7, null, 7, 0, '8.0', '2024-02-03')", "(8, 'c', 9, 7, '0.25', '2023-12-31')"),
]
TABLE = (
    "create table w as select cast(id as int) as id, cast(g as varchar) as g,\n"
    "  cast(k as int) as k, cast(x as int) as x, cast(f as double) as f, cast(d as date) as d\n"
    "from (values\n  " + ",\n  ".join(ROWS) + "\n) as given (id, g, k, x, f, d)"
)
PLACES = [
    *("row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)"),
    *("ntile(100)", "lag(x)", "lag(x, 2)", "lag(x, 1, -1)", "lead(x)", "lead(x, 3, 0)", "lag(g)"),
    *("lead(f)", "first_value(x)", "last_value(x)", "nth_value(x, 2)", "nth_value(x, 99)"),
    *("first_value(x ignore nulls)", "last_value(x ignore nulls)", "lag(x ignore nulls)"),
    *("lead(d)", "first_value(g)", "lag(x, 0)", "lead(x, 1, null)"),
]
AGGREGATES = [
    *("sum(x)", "count(*)", "count(x)", "avg(x)", "min(x)", "max(f)", "min(g)", "max(d)"),
    *("sum(f)", "avg(f)"),
    *("stddev(x)", "var_pop(f)", "median(x)", "quantile_disc(x, 0.25)", "count(distinct x)"),
    *("sum(distinct k)", "bit_or(id)", "max(x, 2)", "covar_pop(x, id)"),
    *("sum(x) filter (where k > 1)", "count(*) filter (where x is null)"),
]
TESTS = ["bool_and(x > 0)", "bool_or(x > 20)"]
OF_ORDER = ["array_agg(x)", "string_agg(g, '-')", "any_value(x)", "arg_max(g, id)", "product(k)"]
PARTS = ["", "partition by g", "partition by g, k", "partition by x is null", "partition by 1"]
ORDERS = [
    "",
    "order by id",
    "order by k",
    "order by k desc",
    "order by k nulls first",
    "order by g, id",
]
BOUNDS = [
    *("unbounded preceding", "2 preceding", "1 preceding", "current row", "1 following"),
    *("2 following", "unbounded following"),
]
ROW_FRAMES = [(one, other) for n, one in enumerate(BOUNDS[:-1]) for other in BOUNDS[max(n, 1) :]]
GROUP_FRAMES = [pair for n, pair in enumerate(ROW_FRAMES) if n % 3 == 0]


def query(function: str, window: str) -> str:
    return f"select id, {function} over ({window.strip()}) as c from w"


def windows() -> Iterator[str]:
    yield TABLE
    for function in PLACES:
        yield query(function, "order by id")
        yield query(function, "partition by g order by id desc")
    for function in ["rank()", "dense_rank()", "percent_rank()", "cume_dist()"]:
        for order in ORDERS[2:5]:
            yield query(function, order)
            yield query(function, f"partition by g {order}")
    for function in AGGREGATES:
        for parts in PARTS[:2]:
            for order in ORDERS[:3]:
                yield query(function, f"{parts} {order}")
    for function in TESTS:
        yield query(function, "partition by g order by id")
    for function in OF_ORDER:
        yield query(function, "partition by g order by id")
        yield query(function, "order by id rows between 2 preceding and 1 following")
    for parts in PARTS[2:]:
        for order in ORDERS:
            yield query("sum(x)", f"{parts} {order}")


def frames() -> Iterator[str]:
    yield TABLE
    for number, (start, end) in enumerate(ROW_FRAMES):
        function = AGGREGATES[number % 8]
        yield query(function, f"order by id rows between {start} and {end}")
        yield query("sum(x)", f"partition by g order by id rows between {start} and {end}")
    for number, (start, end) in enumerate(GROUP_FRAMES):
        for units in ["groups", "range"]:
            for order in ["k", "k desc", "x nulls first"]:
                function = AGGREGATES[(number * 3) % 8]
                yield query(function, f"order by {order} {units} between {start} and {end}")
    for function in ["first_value(x)", "last_value(x)", "nth_value(x, 2)"]:
        for start, end in ROW_FRAMES[::4]:
            yield query(function, f"order by id rows between {start} and {end}")
    for start, end in [("1 day", "1 day"), ("3 days", "0 days"), ("1 month", "0 days")]:
        bounds = f"between interval '{start}' preceding and interval '{end}' following"
        yield query("count(*)", f"order by d range {bounds}")
        yield query("sum(x)", f"partition by g order by d range {bounds}")
    for short in ["rows unbounded preceding", "rows 1 preceding", "range unbounded preceding"]:
        yield query("sum(x)", f"order by id {short}")


GROUPS = {
    "all": "",
    "none": "where false",
    "nulls": "where x is null",
    "one": "where id = 4",
    "some": "where x >= 0",
}
FUNCTIONS = [
    *("count(*)", "count({})", "sum({})", "avg({})", "min({})", "max({})", "count(distinct {})"),
    *("stddev({})", "variance({})", "var_pop({})", "stddev_pop({})", "min(distinct {})"),
]
COLUMNS = ["id", "k", "x", "f", "cast(x as bigint)", "cast(x as decimal(10, 2))", "cast(f as real)"]


def aggregates() -> Iterator[str]:
    yield TABLE
    for number, function in enumerate(FUNCTIONS):
        for condition in GROUPS.values():
            column = COLUMNS[number % 4]
            yield f"select {function.format(column)} as c from w {condition}".strip()
        for column in COLUMNS:
            value = function.format(column)
            yield f"select g, {value} as c from w group by g"
        yield f"select {function.format('x')} filter (where k > 1) as c from w"
        yield f"select g, {function.format('f')} filter (where x > 5) as c from w group by g"
        yield f"select k, {function.format('x')} as c from w group by k having count(*) > 1"
    for column in ["g", "d", "x > 0", "upper(g)", "d + 1"]:
        for function in ["count({})", "min({})", "max({})", "count(distinct {})"]:
            if (column, function) != ("x > 0", "min({})"):
                yield f"select k, {function.format(column)} as c from w group by k"
                yield f"select {function.format(column)} as c from w where id > 2"
    for test in ["x > 0", "x is null", "k > x", "g = 'a'", "f < 0 or f is null"]:
        yield f"select bool_and({test}) as a, bool_or({test}) as o from w"
        yield f"select g, bool_and({test}) as a, bool_or({test}) as o from w group by g"
        yield f"select count(*) filter (where {test}) as n from w"
        yield f"select sum(id) filter (where not ({test})) as s from w"
