"""Joins lineitem and orders of TPC-H with Euphrates and with what people use today, in turns.

    .venv/bin/python bench/peers/join.py --scale 1
    .venv/bin/python bench/peers/join.py --scale 10 --rounds 5 --keep

Every engine gets as many threads as there are cores, reads the same columns of the same Parquet
files, and writes the joined rows to Parquet, uncompressed. All are timed inside their process,
imports left out. With `--keep`, raw results go to `bench/results/<date>-join.json`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shutil
import statistics
import sys
from pathlib import Path

from sort import DUCKDB, RESULTS, THREADS, fresh, in_turns, run

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
flow.attach(join, flow.place(eu.save(target, overwrite=True)))
flow.go(cores=threads, home=scratch, memory=memory or None)
""",
    "DuckDB": DUCKDB
    + """
con.execute(f"COPY (SELECT {columns} FROM '{lineitem}' JOIN '{orders}' ON l_orderkey = o_orderkey) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION uncompressed)")
""",
    "Polars": """
import os
os.environ["POLARS_MAX_THREADS"] = str(threads)
import polars
start = time.perf_counter()
one, other = polars.scan_parquet(lineitem).select(left), polars.scan_parquet(orders).select(right)
joined = one.join(other, left_on="l_orderkey", right_on="o_orderkey", maintain_order="none")
joined.sink_parquet(target, compression="uncompressed", engine="streaming")
""",
    "DataFusion": """
import datafusion
config = datafusion.SessionConfig().with_target_partitions(threads)
runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_os()
if memory: runtime = runtime.with_fair_spill_pool(int(memory * 0.8))
ctx = datafusion.SessionContext(config, runtime)
start = time.perf_counter()
ctx.register_parquet("l", lineitem)
ctx.register_parquet("o", orders)
ctx.sql(f"COPY (SELECT {columns} FROM l JOIN o ON l_orderkey = o_orderkey) TO '{target}' "
        "STORED AS PARQUET OPTIONS ('format.compression' 'uncompressed')").collect()
""",
}


def tables(work: Path, scale: float) -> dict[str, Path]:
    paths = {name: work / f"{name}-{scale:g}.parquet" for name in ("lineitem", "orders")}
    for name, path in paths.items():
        if not path.exists():
            make = (
                "import euphrates as eu\n"
                f"flow = eu.Flow('make')\n"
                f"flow.chain(eu.generate({name!r}, scale={scale}), eu.save({str(path)!r}))\n"
                f"flow.go(home={str(work / 'home')!r})"
            )
            made = run([sys.executable, "-c", make])
            if "failed" in made:
                raise SystemExit(made["failed"])
    return paths


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
    head = "import time\n" + "".join(f"{key} = {value!r}\n" for key, value in values.items())
    tail = "\nprint(f'seconds={time.perf_counter() - start}')"
    result = run([sys.executable, "-c", head + SCRIPTS[name] + tail])
    fresh(work / f"joined-{name}.parquet")
    shutil.rmtree(scratch, ignore_errors=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=0, help="bytes that each may use")
    parser.add_argument("--only", nargs="*", default=list(SCRIPTS))
    parser.add_argument("--work", type=Path, default=Path("/tmp/euphrates-bench"))
    parser.add_argument("--keep", action="store_true", help="keep the raw result")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    paths = tables(options.work, options.scale)

    def runner(name: str):
        return lambda: once(name, options.work, paths, options.memory)

    results = in_turns(options.rounds, {name: runner(name) for name in options.only})
    medians = {}
    for name, runs in results.items():
        good = [one["seconds"] for one in runs if "failed" not in one]
        peak = max(one["peak_bytes"] for one in runs) / 1e6
        medians[name] = statistics.median(good) if good else None
        told = f"{medians[name]:.2f} s" if good else "failed"
        print(f"{name}: {told}, at most {peak:.0f} MB")
    own = medians.get("Euphrates")
    peers = [seconds for name, seconds in medians.items() if name != "Euphrates" and seconds]
    if own and peers:
        print(f"the fastest of the others takes {min(peers) / own:.2f} times as long")
    if options.keep:
        day = datetime.date.today().isoformat()
        where = {"cores": THREADS, "machine": platform.machine(), "kernel": platform.release()}
        raw = {"date": day, **where, "scale": options.scale, "results": results}
        (RESULTS / f"{day}-join.json").write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
