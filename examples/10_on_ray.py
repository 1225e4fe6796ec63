"""Sorts a file on the nodes of a Ray cluster, one worker per node, and writes a collection.

On a machine without a cluster, Ray starts one on this machine. On several machines the folder must
be shared, or `s3://…`.
"""

import os
import tempfile
from pathlib import Path

import euphrates as eu

temporary = tempfile.TemporaryDirectory()  # removed when the program ends
folder = Path(temporary.name)
os.environ["EUPHRATES_HOME"] = str(folder / "home")

make = eu.Flow("make")
make.chain(eu.generate("integers", rows=1_000_000), eu.save(folder / "numbers.parquet"))
make.go()

flow = eu.Flow("evens")
flow.chain(
    eu.scan(folder / "numbers.parquet"),
    eu.filter("n % 2 = 0"),
    eu.sort(["n desc"]),
    eu.write("evens"),
)

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    with eu.Cluster.ray() as cluster:
        print([worker.name for worker in cluster.workers])
        print(flow.go(cluster=cluster))
        look = eu.Flow("look")
        look.chain(eu.read("evens", order=True), eu.limit(3), eu.collect())
        print(look.go(cluster=cluster).collected().to_pydict())
