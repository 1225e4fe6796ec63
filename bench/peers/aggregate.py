"""Groups lineitem of TPC-H with Euphrates and with what people use today, in turns.

    .venv/bin/python bench/peers/aggregate.py --scale 1
    .venv/bin/python bench/peers/aggregate.py --scale 1 --rounds 5 --keep
    .venv/bin/python bench/peers/aggregate.py --which "by order" "pricing summary"

Every engine gets as many threads as there are cores, reads the same Parquet file, and writes what
it computes to Parquet, uncompressed; what each has written is compared with what DuckDB has. All
are timed inside their process, imports left out. With `--keep`, raw results go to
`bench/results/<date>-aggregate.json`.
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

import duckdb
from sort import DUCKDB, RESULTS, THREADS, fresh, in_turns, run

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "tests"))
from aggregations import TPCH, sql, wrong

SCRIPTS = {
    "Euphrates": """
import euphrates as eu
start = time.perf_counter()
flow = eu.Flow("aggregate")
source, target = eu.scan(lineitem, columns=columns), eu.save(target, overwrite=True)
flow.chain(source, eu.aggregate(by, values=values), target)
flow.go(cores=threads, home=scratch, memory=memory or None)
""",
    "DuckDB": DUCKDB
    + """
con.execute(f"CREATE VIEW t AS FROM '{lineitem}'")
con.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION uncompressed)")
""",
    "Polars": """
import os
os.environ["POLARS_MAX_THREADS"] = str(threads)
import polars
start = time.perf_counter()
grouped = polars.SQLContext(t=polars.scan_parquet(lineitem)).execute(query)
grouped.sink_parquet(target, compression="uncompressed", engine="streaming")
""",
    "DataFusion": """
import datafusion
config = datafusion.SessionConfig().with_target_partitions(threads)
runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_os()
if memory: runtime = runtime.with_fair_spill_pool(int(memory * 0.8))
ctx = datafusion.SessionContext(config, runtime)
start = time.perf_counter()
ctx.register_parquet("t", lineitem)
ctx.sql(f"COPY ({query}) TO '{target}' "
        "STORED AS PARQUET OPTIONS ('format.compression' 'uncompressed')").collect()
""",
}


def table(work: Path, scale: float) -> Path:
    path = work / f"lineitem-{scale:g}.parquet"
    if not path.exists():
        make = (
            "import euphrates as eu\n"
            f"flow = eu.Flow('make')\n"
            f"flow.chain(eu.generate('lineitem', scale={scale}), eu.save({str(path)!r}))\n"
            f"flow.go(home={str(work / 'home')!r})"
        )
        made = run([sys.executable, "-c", make])
        if "failed" in made:
            raise SystemExit(made["failed"])
    return path


def columns_of(lineitem: Path, which: str) -> list[str]:
    """The columns that are needed: the others read them off the query."""
    by, computed = TPCH[which]
    text = " ".join([*by, *computed.values()])
    names = [row[0] for row in duckdb.sql(f"describe from '{lineitem}'").fetchall()]
    return [name for name in names if name in text]


def once(name: str, which: str, lineitem: Path, options: argparse.Namespace) -> dict:
    work, (by, computed) = options.work, TPCH[which]
    scratch = work / "scratch"
    scratch.mkdir(exist_ok=True)
    target = fresh(work / f"grouped-{name}.parquet")
    values = {
        "threads": THREADS,
        "memory": options.memory,
        "lineitem": str(lineitem),
        "columns": columns_of(lineitem, which),
        "by": by,
        "values": computed,
        "query": sql(by, computed),
        "target": str(target),
        "scratch": str(scratch),
    }
    head = "import time\n" + "".join(f"{key} = {value!r}\n" for key, value in values.items())
    tail = "\nprint(f'seconds={time.perf_counter() - start}')"
    result = run([sys.executable, "-c", head + SCRIPTS[name] + tail])
    if "failed" not in result:
        # In a process of its own: a child's peak begins with the memory of whoever starts it.
        check = "import sys; sys.path.insert(0, sys.argv[1]); import aggregate; aggregate.check()"
        words = [Path(__file__).parent, target, which, lineitem, work]
        checked = run([sys.executable, "-c", check, *map(str, words)])
        result |= {"failed": checked["failed"]} if "failed" in checked else {}
    fresh(target)
    shutil.rmtree(scratch, ignore_errors=True)
    return result


def check() -> None:
    """Fails with what is wrong with a result, if anything is."""
    target, which, lineitem, work = sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5])
    by, computed = TPCH[which]
    wanted = work / f"wanted-{lineitem.stem}-{which.replace(' ', '-')}.parquet"
    con = duckdb.connect()
    if not wanted.exists():
        query = sql(by, computed, f"'{lineitem}'")
        con.execute(f"copy ({query}) to '{wanted}' (format parquet)")
    con.execute(f"create view found as from '{target}'; create view wanted as from '{wanted}'")
    # DataFusion rounds means of decimals to four digits more.
    raise SystemExit(wrong(con, by, computed, nearly=1e-5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=0, help="bytes that each may use")
    parser.add_argument("--only", nargs="*", default=list(SCRIPTS))
    parser.add_argument("--which", nargs="*", default=list(TPCH))
    parser.add_argument("--work", type=Path, default=Path("/tmp/euphrates-bench"))
    parser.add_argument("--keep", action="store_true", help="keep the raw result")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    lineitem = table(options.work, options.scale)
    everything = {}
    for which in options.which:
        print(f"{which}:", flush=True)

        def runner(name: str, which: str = which):
            return lambda: once(name, which, lineitem, options)

        results = in_turns(options.rounds, {name: runner(name) for name in options.only})
        everything[which] = results
        medians = {}
        for name, runs in results.items():
            good = [one["seconds"] for one in runs if "failed" not in one]
            medians[name] = statistics.median(good) if good else None
        own = medians.get("Euphrates")
        for name, seconds in medians.items():
            if own and seconds and name != "Euphrates":
                print(f"  {name} takes {seconds / own:.2f} times as long", flush=True)
        if options.keep:
            keep(everything, options.scale)


def keep(results: dict, scale: float) -> None:
    day = datetime.date.today().isoformat()
    where = {"cores": THREADS, "machine": platform.machine(), "kernel": platform.release()}
    raw = {"date": day, **where, "scale": scale, "results": results}
    (RESULTS / f"{day}-aggregate.json").write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
