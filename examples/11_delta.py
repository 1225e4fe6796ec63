"""Writes a Delta table in two parts, sorts it in place, and counts its rows by a query.

Needs `pip install 'euphrates[delta]'`.
"""

import tempfile
from pathlib import Path

import euphrates as eu

temporary = tempfile.TemporaryDirectory()  # removed when the program ends
table = Path(temporary.name) / "lineitem"

rows = eu.generate("lineitem", scale=0.01)
rows.filter("l_shipdate < date '1995-01-01'").save_delta(table, partition_by=["l_shipmode"])
rows.filter("l_shipdate >= date '1995-01-01'").save_delta(table, mode="append")
eu.sort_delta(table, "l_shipdate")  # filters on the date now skip most of each file

by_mode = eu.scan_delta(table).group_by("l_shipmode").agg(n="count()").sort("n desc")
flow = by_mode.then(eu.collect()).flow

if __name__ == "__main__":
    print(eu.scan_delta(table, version=0).group_by().agg(n="count()").to_pylist())
    print(flow.go().collected().to_pylist())
