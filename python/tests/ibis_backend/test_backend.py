"""Expressions of Ibis, whose results DuckDB's must equal."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest
from ibis import _

from euphrates.ibis_backend import Backend

ORDERS = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "city": ["Ur", "Uruk", None, "Ur", "Kish", "Uruk", "Ur", "Eridu"],
        "price": pa.array([5, 3, 7, None, 1, 9, 2, 4], pa.int64()),
        "weight": [0.5, None, -2.25, 4.0, 1.5, 8.0, 0.0, 3.5],
        "paid": [True, False, None, True, True, False, False, None],
        "day": pa.array([dt.date(2026, month, 28) for month in range(1, 9)], pa.date32()),
        "at": pa.array(
            [dt.datetime(2026, month, 2, 3, 4, 5, 678901) for month in range(1, 9)],
            pa.timestamp("us"),
        ),
        "cost": pa.array([Decimal(n) / 4 for n in range(8)], pa.decimal128(12, 2)),
        "small": pa.array([1, 2, 3, 4, 5, 6, 7, None], pa.int16()),
        "place": [{"x": n, "Y": f"p{n}"} for n in range(8)],
    }
)
CITIES = pa.table({"name": ["Ur", "Uruk", "Nippur"], "founded": pa.array([-3800, -4000, -5000])})

Expression = Callable[[Any, Any], Any]
EXPRESSIONS: dict[str, Expression] = {
    # Rows and columns
    "all": lambda o, c: o.drop("place"),
    "filter": lambda o, c: o.filter(_.price > 2, _.city != "Ur").select("id"),
    "filter_or": lambda o, c: o.filter((_.price > 8) | _.paid).select("id"),
    "mutate": lambda o, c: o.select("id", twice=_.price * 2, plus=_.weight + 1),
    "rename": lambda o, c: o.select("id", "price").rename(cost="price"),
    "struct_field": lambda o, c: o.select("id", x=_.place.x, y=_.place["Y"]),
    "distinct": lambda o, c: o.select("city").distinct(),
    "union": lambda o, c: o.select(n="city").union(c.select(n="name")),
    "union_distinct": lambda o, c: o.select(n="city").union(c.select(n="name"), distinct=True),
    "intersect": lambda o, c: o.select(n="city").intersect(c.select(n="name")),
    "difference": lambda o, c: o.select(n="city").difference(c.select(n="name")),
    "drop_null": lambda o, c: o.select("id", "price", "city").drop_null(),
    "fill_null": lambda o, c: o.select("id", "price", "city").fill_null({"price": 0}),
    "values": lambda o, c: ibis.memtable({"a": [1, 2], "b": ["x", None]}),
    "scalar": lambda o, c: ibis.literal(3) + 4,
    # Lists and maps
    "list_map": lambda o, c: o.select("id", l=ibis.array([_.id, _.price]).map(lambda x: x + 1)),
    "list_map_index": lambda o, c: o.select(
        "id", l=ibis.array([_.id, _.price]).map(lambda x, i: x + i)
    ),
    "list_filter": lambda o, c: o.select("id", l=ibis.array([_.id, 5]).filter(lambda x: x > 3)),
    "list_slice": lambda o, c: o.select(
        "id", a=ibis.array([_.id, 5, 6])[1:], b=ibis.array([_.id, 5, 6])[:-1]
    ),
    "list_range": lambda o, c: o.mutate(l=ibis.range(o.id, 9, 2)).select("id", "l"),
    "map_get": lambda o, c: o.select("id", v=ibis.map(["a", "b"], [1, 2]).get("b")),
    "quantiles": lambda o, c: o.aggregate(q=_.weight.quantile(0.25), m=_.day.quantile(0.5)),
    # Numbers
    "true_division": lambda o, c: o.select("id", half=_.price / 2),
    "floor_division": lambda o, c: o.select("id", half=_.price // 2),
    "modulo": lambda o, c: o.select("id", rest=_.price % 3),
    "power": lambda o, c: o.select("id", p=_.weight**2),
    "round": lambda o, c: o.select("id", r=_.weight.round(1), c=_.weight.ceil()),
    "sign": lambda o, c: o.select("id", s=_.weight.sign(), a=_.weight.abs(), n=-_.price),
    "bits": lambda o, c: o.select("id", x=_.price ^ 5, n=~_.price, a=_.price & 3, o=_.price | 8),
    "sqrt": lambda o, c: o.select("id", r=_.price.sqrt(), e=_.price.exp(), l=(_.price + 1).ln()),
    "clip": lambda o, c: o.select("id", c=_.price.clip(2, 5)),
    "cast": lambda o, c: o.select("id", s=_.price.cast("string"), f=_.price.cast("float64")),
    "try_cast": lambda o, c: o.select("id", n=_.city.try_cast("int64")),
    "decimals": lambda o, c: o.select("id", c=_.cost + _.cost, s=_.cost - 1),
    "constants": lambda o, c: o.select("id", p=_.weight * ibis.pi),
    # Conditions
    "cases": lambda o, c: o.select("id", k=ibis.cases((_.price > 4, "high"), else_="low")),
    "case_of_value": lambda o, c: o.select("id", k=_.city.cases(("Ur", 1), ("Kish", 2), else_=0)),
    "ifelse": lambda o, c: o.select("id", k=_.paid.ifelse(_.price, -1)),
    "coalesce": lambda o, c: o.select("id", k=ibis.coalesce(_.price, _.id, 7)),
    "nullif": lambda o, c: o.select("id", k=_.price.nullif(3)),
    "greatest": lambda o, c: o.filter(_.price.notnull()).select(g=ibis.greatest("price", "id")),
    "between": lambda o, c: o.filter(_.price.between(2, 5)).select("id"),
    "isin": lambda o, c: o.filter(_.city.isin(["Ur", "Kish"])).select("id"),
    "isnull": lambda o, c: o.select("id", n=_.city.isnull(), p=_.paid.notnull()),
    "identical_to": lambda o, c: o.select("id", n=_.city.identical_to(ibis.null("string"))),
    "isin_of_a_table": lambda o, c: o.filter(_.city.isin(c.name)).select("id"),
    "notin_of_a_table": lambda o, c: o.filter(_.city.notin(c.name)).select("id"),
    "find_in_set": lambda o, c: o.filter(_.city.notnull()).select(
        "id", f=_.city.find_in_set(["Uruk", "Ur"])
    ),
    # Texts
    "upper": lambda o, c: o.select("id", u=_.city.upper(), n=_.city.length()),
    "like": lambda o, c: o.filter(_.city.like("U%")).select("id"),
    "contains": lambda o, c: o.select("id", k=_.city.contains("r"), s=_.city.startswith("U")),
    "substring": lambda o, c: o.select("id", s=_.city[1:3], l=_.city.left(2), r=_.city.right(1)),
    "replace": lambda o, c: o.select("id", s=_.city.replace("U", "u"), r=_.city.reverse()),
    "strip": lambda o, c: o.select("id", s=(" " + _.city + " ").strip()),
    "re_search": lambda o, c: o.select("id", s=_.city.re_search("^U.*k$")),
    "re_extract": lambda o, c: o.filter(_.city == "Uruk").select(
        "id", w=_.city.re_extract("r(u)(k)", 0), k=_.city.re_extract("r(u)(k)", 2)
    ),
    "re_replace": lambda o, c: o.select("id", s=_.city.re_replace("[aeiou]", "-")),
    "find": lambda o, c: o.select("id", s=_.city.find("r")),
    # Times
    "parts": lambda o, c: o.select(
        "id", y=_.at.year(), m=_.at.month(), h=_.at.hour(), s=_.at.second(), q=_.day.quarter()
    ),
    "parts_of_a_second": lambda o, c: o.select("id", a=_.at.millisecond(), b=_.at.microsecond()),
    "epoch": lambda o, c: o.select(
        "id", e=_.at.truncate("s").epoch_seconds(), d=_.day.epoch_seconds()
    ),
    "weeks": lambda o, c: o.select(
        "id", w=_.at.week_of_year(), d=_.at.day_of_week.index(), n=_.day.day_of_week.full_name()
    ),
    "truncate": lambda o, c: o.select("id", t=_.at.truncate("h"), d=_.at.date()),
    "bucket": lambda o, c: o.select("id", t=_.at.bucket(minutes=7)),
    "add_interval": lambda o, c: o.select("id", t=_.at + ibis.interval(days=3)),
    "date_literals": lambda o, c: o.filter(_.day > ibis.date("2026-03-01")).select("id"),
    "far_date": lambda o, c: o.filter(_.day < ibis.date("9999-01-02")).select("id"),
    "strftime": lambda o, c: o.select("id", s=_.at.strftime("%Y-%m-%d")),
    # Groups
    "aggregate": lambda o, c: o.agg(n=_.count(), s=_.price.sum(), m=_.weight.mean()),
    "group_by": lambda o, c: o.group_by("city").agg(lo=_.price.min(), hi=_.price.max()),
    "group_by_expression": lambda o, c: o.group_by(k=_.price % 2).agg(n=_.count()),
    "having": lambda o, c: o.group_by("city").having(_.count() > 1).agg(s=_.price.sum()),
    "nunique": lambda o, c: o.agg(n=_.city.nunique(), p=_.price.count()),
    "spread": lambda o, c: o.agg(v=_.price.var(), s=_.weight.std(), p=_.weight.var(how="pop")),
    "any_and_all": lambda o, c: o.group_by("city").agg(a=_.paid.any(), b=_.paid.all()),
    "aggregate_where": lambda o, c: o.agg(
        s=_.price.sum(where=_.paid), n=_.count(where=_.price > 2)
    ),
    "sum_of_small": lambda o, c: o.agg(s=_.small.sum(), m=_.small.max()),
    "sum_of_decimals": lambda o, c: o.agg(s=_.cost.sum()),
    "value_counts": lambda o, c: o.city.value_counts(),
    "column": lambda o, c: o.order_by("id").price,
    "reduction": lambda o, c: o.price.sum(),
    # Joins
    "inner_join": lambda o, c: o.join(c, o.city == c.name).select("id", "founded"),
    "left_join": lambda o, c: o.left_join(c, o.city == c.name).select("id", "founded"),
    "outer_join": lambda o, c: o.outer_join(c, o.city == c.name).select("id", "name"),
    "semi_join": lambda o, c: o.semi_join(c, o.city == c.name).select("id"),
    "anti_join": lambda o, c: o.anti_join(c, o.city == c.name).select("id"),
    "cross_join": lambda o, c: o.cross_join(c).select("id", "name"),
    "self_join": lambda o, c: o.join(o.view(), "city").select("id", "id_right"),
    "unequal_join": lambda o, c: o.join(c, [o.city == c.name, o.price > 2]).select("id", "name"),
    # Windows
    "row_number": lambda o, c: o.select("id", r=ibis.row_number().over(order_by="id")),
    "rank": lambda o, c: o.select(
        "id", r=_.price.rank().over(ibis.window(group_by="city", order_by="price"))
    ),
    "lag": lambda o, c: o.select("id", p=_.price.lag().over(order_by="id")),
    "running_sum": lambda o, c: o.select("id", s=_.price.cumsum(order_by="id")),
    "share": lambda o, c: o.group_by("city").mutate(s=_.price.sum()).select("id", "s"),
    "sliding_mean": lambda o, c: o.select(
        "id", m=_.price.mean().over(ibis.window(preceding=1, following=1, order_by="id"))
    ),
    "any_of_a_window": lambda o, c: o.select("id", a=_.paid.any().over(group_by="city")),
    "qualify": lambda o, c: o.filter(
        ibis.row_number().over(group_by="city", order_by="id") == 0
    ).select("id"),
}
ORDERED: dict[str, Expression] = {
    "ascending": lambda o, c: o.order_by("price", "id").select("id"),
    "descending": lambda o, c: o.order_by(ibis.desc("price"), "id").select("id"),
    "nulls_first": lambda o, c: o.order_by(ibis.asc("price", nulls_first=True)).select("id"),
    "nulls_first_descending": lambda o, c: o.order_by(
        ibis.desc("price", nulls_first=True), "id"
    ).select("id"),
    "limit": lambda o, c: o.order_by("id").limit(3, offset=2).select("id"),
    "head": lambda o, c: o.order_by(ibis.desc("id")).head(2).select("id"),
    "topk": lambda o, c: o.group_by("city").agg(n=_.count()).order_by(ibis.desc("n"), "city"),
}


@pytest.fixture(scope="module")
def con() -> Any:
    return Backend().connect({"orders": ORDERS, "cities": CITIES})


@pytest.fixture(scope="module")
def duck() -> Any:
    native = duckdb.connect()
    native.register("orders", ORDERS)
    native.register("cities", CITIES)
    return ibis.duckdb.from_connection(native)


def rows(con: Any, expression: Expression) -> list[tuple[Any, ...]]:
    table = con.to_pyarrow(expression(con.table("orders"), con.table("cities")))
    if isinstance(table, pa.Scalar):
        return [(plain(table.as_py()),)]
    columns = table.columns if isinstance(table, pa.Table) else [table]
    return [tuple(map(plain, row)) for row in zip(*(column.to_pylist() for column in columns))]


def plain(value: Any) -> Any:
    """A value that is the same where results may differ in their last bits."""
    if isinstance(value, float | Decimal):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    return value


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression_has_the_rows_of_duckdb(name: str, con: Any, duck: Any) -> None:
    expression = EXPRESSIONS[name]
    found = rows(con, expression)
    assert found
    assert sorted(found, key=repr) == sorted(rows(duck, expression), key=repr)


@pytest.mark.parametrize("name", ORDERED)
def test_expression_has_the_order_of_duckdb(name: str, con: Any, duck: Any) -> None:
    expression = ORDERED[name]
    assert rows(con, expression) == rows(duck, expression)


def test_types_are_those_of_the_expression(con: Any) -> None:
    orders = con.table("orders")
    expression = orders.select(
        n=orders.small + 1, s=orders.price.sum().over(), t=orders.at, d=orders.at.date()
    )
    assert con.to_pyarrow(expression).schema.types == expression.schema().to_pyarrow().types
    assert str(con.execute(expression)["t"].dtype).startswith("datetime64")
