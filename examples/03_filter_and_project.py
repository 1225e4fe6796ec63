"""Selects rows and computes columns, by SQL expressions."""

import euphrates as eu

flow = eu.Flow("filter")
flow.chain(
    eu.generate("lineitem", scale=0.01),
    eu.filter("l_quantity > 30 and l_shipmode in ('AIR', 'RAIL')"),
    eu.project(["l_orderkey", "l_extendedprice * (1 - l_discount) as price"]),
    eu.sort(["price desc"]),
    eu.limit(5),
    eu.collect(),
)

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    print(flow.explain())
    for row in flow.go().collected().to_pylist():
        print(row)
