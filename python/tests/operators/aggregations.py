"""Ten groupings of TPC-H's lineitem and checks of their results, for tests and for
`bench/peers/aggregate.py`.
"""

from __future__ import annotations

from typing import Any

PRICES = {
    "quantity": "sum(l_quantity)",
    "base": "sum(l_extendedprice)",
    "revenue": "sum(l_extendedprice * (1 - l_discount))",
    "discount": "avg(l_discount)",
    "rows": "count()",
}
DATES = {
    "low": "min(l_shipdate)",
    "high": "max(l_receiptdate)",
    "modes": "count(distinct l_shipmode)",
}
TPCH: dict[str, tuple[list[str], dict[str, str]]] = {
    "pricing summary": (["l_returnflag", "l_linestatus"], PRICES),
    "by order": (["l_orderkey"], {"rows": "count()", "quantity": "sum(l_quantity)"}),
    "by part and supplier": (["l_partkey", "l_suppkey"], {"price": "max(l_extendedprice)"}),
    "by day": (["l_shipdate"], {"mean": "avg(l_quantity)", "orders": "count(distinct l_orderkey)"}),
    "by mode": (["l_shipmode", "l_shipinstruct"], {"rows": "count()", **DATES}),
    "by comment": (["l_comment"], {"n": "count(l_comment)", "high": "max(l_orderkey)"}),
    "all": ([], {**PRICES, **DATES}),
    "different": ([], {"n": "count(distinct l_partkey)", "c": "count(distinct l_comment)"}),
    "text": (["l_linenumber"], {"low": "min(l_comment)", "high": "max(l_shipmode)"}),
    "by supplier": (["l_suppkey"], {"days": "count(distinct l_shipdate)", "tax": "avg(l_tax)"}),
}


def sql(by: list[str], values: dict[str, str], table: str = "t") -> str:
    """The same grouping in SQL."""
    chosen = [f'{what.replace("count()", "count(*)")} as "{name}"' for name, what in values.items()]
    grouped = f" group by {', '.join(by)}" if by else ""
    return f"select {', '.join([*by, *chosen])} from {table}{grouped}"


def wrong(con: Any, by: list[str], values: dict[str, str], nearly: float = 1e-9) -> str | None:
    """The first difference of the table `found` from `wanted`, or None; sums and means are compared
    approximately.
    """

    def same(name: str, what: str) -> str:
        if what.startswith(("sum", "avg")):
            one, other = f"f.{name}::double", f"w.{name}::double"
            return f"abs({one} - {other}) <= {nearly} * greatest(1, abs({other}))"
        return f"f.{name} is not distinct from w.{name}"

    rows = [
        con.sql(f"select count(*) from {name}").fetchall()[0][0] for name in ("found", "wanted")
    ]
    if rows[0] != rows[1]:
        return f"{rows[0]} rows instead of {rows[1]}"
    met = [f"f.{name} is not distinct from w.{name}" for name in by]
    met += [same(name, what) for name, what in values.items()]
    query = f"select count(*) from found f join wanted w on {' and '.join(met)}"
    equal = con.sql(query).fetchall()[0][0]
    return None if equal == rows[1] else f"{rows[1] - equal} of {rows[1]} rows differ"
