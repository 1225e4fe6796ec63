"""Sorts on workers into a collection that they write together, and reads it back in order.

The first argument selects the cluster: `embedded`, `processes:4`, `at:HOST:PORT` and the token's
file, or `join:HOST:PORT`, that file and the number of workers: `09_on_workers.py join:node0:4400
token 3`.
"""

import os
import sys
import tempfile

import euphrates as eu

temporary = tempfile.TemporaryDirectory()  # removed when the program ends
os.environ["EUPHRATES_HOME"] = temporary.name  # with other machines, use a shared folder

flow = eu.Flow("sort on workers")
flow.chain(eu.generate("lineitem", scale=0.02), eu.sort(["l_shipdate"]), eu.write("lineitem"))

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    where, *rest = sys.argv[1:] or ["processes:4"]
    kind, _, address = where.partition(":")
    if kind == "at":
        cluster = eu.Cluster.at(address, token_file=rest[0])
    elif kind == "join":
        cluster = eu.Cluster.join(address, workers=int(rest[1]), token_file=rest[0])
    else:
        cluster = where
    print(flow.go(cluster=cluster))

    look = eu.Flow("look")
    look.chain(eu.read("lineitem", columns=["l_shipdate"], order=True), eu.collect())
    dates = look.go(cluster=cluster).collected().to_pydict()["l_shipdate"]
    assert dates == sorted(dates)
    print(f"{len(dates)} rows, from {dates[0]} to {dates[-1]}")
