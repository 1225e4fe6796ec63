"""Sorts a table as Parquet, and prints the first rows."""

import tempfile
from pathlib import Path

import euphrates as eu

temporary = tempfile.TemporaryDirectory()  # removed when the program ends
folder = Path(temporary.name)

make = eu.Flow("make")
make.chain(eu.generate("lineitem", scale=0.01), eu.save(folder / "lineitem.parquet"))
make.go()

flow = eu.Flow("sort")
flow.chain(
    eu.scan(folder / "*.parquet"),
    eu.sort(["l_shipdate", "l_orderkey desc"]),
    eu.save(folder / "sorted.parquet"),
)

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    print(flow.go())

    look = eu.Flow("look")
    look.chain(eu.scan(folder / "sorted.parquet", order=True), eu.limit(3), eu.collect())
    for row in look.go().collected().to_pylist():
        print(row["l_shipdate"], row["l_orderkey"])
