"""Joins TPC-H's lineitem and orders with Euphrates and with other engines, in turns.

    .venv/bin/python bench/peers/join.py --scale 1
    .venv/bin/python bench/peers/join.py --scale 10 --rounds 5 --keep
    .venv/bin/python bench/peers/join.py --scale 10 --memory 180000000

Every engine gets one thread per core, reads the same columns of the same Parquet files, and writes
the joined rows to uncompressed Parquet. All are timed inside their process, without imports.
`--memory` is the memory limit of each; Polars has no such option. With `--keep`, raw results go to
`bench/results/<date>-join.json`, or `-join-memory.json`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sort import DATAFUSION, DUCKDB, POLARS, THREADS, fresh, in_turns
from tpch import arguments, keep, medians, table, timed

LEFT = ["l_orderkey", "l_partkey", "l_quantity", "l_extendedprice", "l_discount", "l_shipdate"]
RIGHT = ["o_orderkey", "o_custkey", "o_totalprice", "o_orderdate", "o_orderpriority"]

SCRIPTS = {
    "Euphrates": """
import euphrates as eu
start = time.perf_counter()
flow = eu.Flow("join")
join = flow.place(eu.join([{"left": "l_orderkey", "right": "o_orderkey"}]))
flow.attach(flow.place(eu.scan(lineitem, columns=left)), join, input="left")
flow.attach(flow.place(eu.scan(orders, columns=right)), join, input="right")
flow.attach(join, flow.place(eu.save(target, overwrite=True, compression="none")))
flow.go(cores=threads, home=scratch, memory=memory or None)
""",
    "DuckDB": DUCKDB
    + """
con.execute(f"COPY (SELECT {columns} FROM '{lineitem}' JOIN '{orders}' ON l_orderkey = o_orderkey) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION uncompressed)")
""",
    "Polars": POLARS
    + """
one, other = polars.scan_parquet(lineitem).select(left), polars.scan_parquet(orders).select(right)
joined = one.join(other, left_on="l_orderkey", right_on="o_orderkey", maintain_order="none")
joined.sink_parquet(target, compression="uncompressed", engine="streaming")
""",
    "DataFusion": DATAFUSION
    + """
ctx.register_parquet("l", lineitem)
ctx.register_parquet("o", orders)
ctx.sql(f"COPY (SELECT {columns} FROM l JOIN o ON l_orderkey = o_orderkey) TO '{target}' "
        "STORED AS PARQUET OPTIONS ('format.compression' 'uncompressed')").collect()
""",
}


def once(name: str, work: Path, paths: dict[str, Path], memory: int) -> dict:
    scratch = work / "scratch"
    scratch.mkdir(exist_ok=True)
    values = {
        "threads": THREADS,
        "memory": memory,
        "lineitem": str(paths["lineitem"]),
        "orders": str(paths["orders"]),
        "left": LEFT,
        "right": RIGHT,
        "columns": ", ".join(LEFT + RIGHT[1:]),
        "target": str(fresh(work / f"joined-{name}.parquet")),
        "scratch": str(scratch),
    }
    result = timed(SCRIPTS[name], values)
    fresh(work / f"joined-{name}.parquet")
    shutil.rmtree(scratch, ignore_errors=True)
    return result


def main() -> None:
    options = arguments(__doc__.split("\n\n")[0], list(SCRIPTS)).parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    names = ("lineitem", "orders")
    paths = {name: table(name, options.work, options.scale) for name in names}

    def runner(name: str):
        return lambda: once(name, options.work, paths, options.memory)

    results = in_turns(options.rounds, {name: runner(name) for name in options.only})
    took = medians(results)
    for name, seconds in took.items():
        peak = max(one["peak_bytes"] for one in results[name]) / 1e6
        told = f"{seconds:.2f} s" if seconds else "failed"
        print(f"{name}: {told}, at most {peak:.0f} MB")
    own = took.get("Euphrates")
    peers = [seconds for name, seconds in took.items() if name != "Euphrates" and seconds]
    if own and peers:
        print(f"the fastest of the others takes {min(peers) / own:.2f} times as long")
    if options.keep:
        keep("join-memory" if options.memory else "join", results, options.scale)


if __name__ == "__main__":
    main()
