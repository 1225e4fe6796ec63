"""Groups TPC-H's lineitem with Euphrates and with other engines, in turns.

    .venv/bin/python bench/peers/aggregate.py --scale 1
    .venv/bin/python bench/peers/aggregate.py --scale 1 --rounds 5 --keep
    .venv/bin/python bench/peers/aggregate.py --which "by order" "pricing summary"

Every engine gets one thread per core, reads the same Parquet file, and writes its result to
uncompressed Parquet; every result is compared with DuckDB's. All are timed inside their process,
without imports. With `--keep`, raw results go to `bench/results/<date>-aggregate.json`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import duckdb
from sort import DATAFUSION, DUCKDB, POLARS, THREADS, fresh, in_turns, run
from tpch import arguments, keep, medians, table, timed

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "tests" / "operators"))
from aggregations import TPCH, sql, wrong

SCRIPTS = {
    "Euphrates": """
import euphrates as eu
start = time.perf_counter()
flow = eu.Flow("aggregate")
source = eu.scan(lineitem, columns=columns)
target = eu.save(target, overwrite=True, compression="none")
flow.chain(source, eu.aggregate(by, values=values), target)
flow.go(cores=threads, home=scratch, memory=memory or None)
""",
    "DuckDB": DUCKDB
    + """
con.execute(f"CREATE VIEW t AS FROM '{lineitem}'")
con.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION uncompressed)")
""",
    "Polars": POLARS
    + """
grouped = polars.SQLContext(t=polars.scan_parquet(lineitem)).execute(query)
grouped.sink_parquet(target, compression="uncompressed", engine="streaming")
""",
    "DataFusion": DATAFUSION
    + """
ctx.register_parquet("t", lineitem)
ctx.sql(f"COPY ({query}) TO '{target}' "
        "STORED AS PARQUET OPTIONS ('format.compression' 'uncompressed')").collect()
""",
}


def columns_of(lineitem: Path, which: str) -> list[str]:
    """The required columns: the other engines derive them from the query."""
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
    result = timed(SCRIPTS[name], values)
    if "failed" not in result:
        # In a separate process: a child's peak memory starts with its parent's.
        check = "import sys; sys.path.insert(0, sys.argv[1]); import aggregate; aggregate.check()"
        words = [Path(__file__).parent, target, which, lineitem, work]
        checked = run([sys.executable, "-c", check, *map(str, words)])
        result |= {"failed": checked["failed"]} if "failed" in checked else {}
    fresh(target)
    shutil.rmtree(scratch, ignore_errors=True)
    return result


def check() -> None:
    """Fails with the difference of a result, if any."""
    target, which, lineitem, work = sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5])
    by, computed = TPCH[which]
    wanted = work / f"wanted-{lineitem.stem}-{which.replace(' ', '-')}.parquet"
    con = duckdb.connect()
    if not wanted.exists():
        query = sql(by, computed, f"'{lineitem}'")
        con.execute(f"copy ({query}) to '{wanted}' (format parquet)")
    con.execute(f"create view found as from '{target}'; create view wanted as from '{wanted}'")
    # DataFusion rounds means of decimals to four more digits.
    raise SystemExit(wrong(con, by, computed, nearly=1e-5))


def main() -> None:
    parser = arguments(__doc__.split("\n\n")[0], list(SCRIPTS))
    parser.add_argument("--which", nargs="*", default=list(TPCH))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    lineitem = table("lineitem", options.work, options.scale)
    everything = {}
    for which in options.which:
        print(f"{which}:", flush=True)

        def runner(name: str, which: str = which):
            return lambda: once(name, which, lineitem, options)

        results = in_turns(options.rounds, {name: runner(name) for name in options.only})
        everything[which] = results
        took = medians(results)
        own = took.get("Euphrates")
        for name, seconds in took.items():
            if own and seconds and name != "Euphrates":
                print(f"  {name} takes {seconds / own:.2f} times as long", flush=True)
        if options.keep:
            keep("aggregate", everything, options.scale)


if __name__ == "__main__":
    main()
