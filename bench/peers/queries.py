"""The queries of TPC-H in SQL, with Euphrates and with other engines, in turns.

    .venv/bin/python bench/peers/queries.py --scale 1
    .venv/bin/python bench/peers/queries.py --scale 10 --memory 2000000000 --keep
    .venv/bin/python bench/peers/queries.py --which 12 17 --only Euphrates DuckDB

Every engine gets one thread per core, reads the same Parquet files, and writes its result to
Parquet; every result is compared with DuckDB's. All are timed inside their process, without
imports, from the text of the query on. With `--keep`, raw results go to
`bench/results/<date>-queries.json`.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
from sort import DATAFUSION, DUCKDB, POLARS, THREADS, fresh, in_turns
from tpch import arguments, keep, medians, table, timed

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "tests" / "sql"))
from test_sql import TPCH, queries, rows

REGISTER = "for name, path in tables.items(): "
SCRIPTS = {
    "Euphrates": """
import euphrates as eu
eu.query, eu.sql  # the package loads its parts on first use
import euphrates._user_code.query_tables, euphrates._user_code.query_sinks, json
start = time.perf_counter()
eu.sql(query, **tables).save(target, cores=threads, home=scratch, memory=memory or None)
""",
    "DuckDB": DUCKDB
    + REGISTER
    + """con.execute(f"CREATE VIEW {name} AS FROM '{path}'")
con.sql(query).write_parquet(target)
""",
    "Polars": POLARS
    + """
frames = {name: polars.scan_parquet(path) for name, path in tables.items()}
polars.SQLContext(frames).execute(query).sink_parquet(target, engine="streaming")
""",
    "DataFusion": DATAFUSION
    + REGISTER
    + """ctx.register_parquet(name, path)
ctx.sql(query).write_parquet(target)
""",
}


def once(name: str, query: str, tables: dict[str, str], options: argparse.Namespace) -> dict:
    scratch = options.work / "scratch"
    scratch.mkdir(exist_ok=True)
    target = options.work / f"query-{name}.parquet"
    shutil.rmtree(target, ignore_errors=True) if target.is_dir() else fresh(target)
    values = {
        "threads": THREADS,
        "memory": options.memory,
        "tables": tables,
        "query": query,
        "target": str(target),
        "scratch": str(scratch),
    }
    result = timed(SCRIPTS[name], values)
    shutil.rmtree(scratch, ignore_errors=True)
    return result


def differs(query: str, names: list[str], work: Path) -> list[str]:
    """The engines whose result is not DuckDB's."""
    is_ordered = "order by" in query.rsplit(")", 1)[-1]
    found = {
        name: rows(pq.read_table(path), is_ordered)
        for name in names
        if (path := work / f"query-{name}.parquet").exists()
    }
    wanted = found.get("DuckDB")
    return [name for name, result in found.items() if wanted is not None and result != wanted]


def compare(
    suite: str, texts: list[str], tables: dict[str, str], options: argparse.Namespace
) -> None:
    """Runs queries in turns, prints how fast the fastest other engine is, and keeps the results."""
    everything, ratios = {}, {}
    for which in options.which:
        query = texts[which - 1]
        print(f"query {which}: {' '.join(query.split())[:90]}", flush=True)

        def runner(name: str, query: str = query):
            return lambda: once(name, query, tables, options)

        results = in_turns(options.rounds, {name: runner(name) for name in options.only})
        for name in differs(query, options.only, options.work):
            print(f"  {name} has other rows than DuckDB", flush=True)
            results[name] = [one | {"failed": "other rows than DuckDB"} for one in results[name]]
        everything[which] = results
        took = medians(results)
        own = took.pop("Euphrates", None)
        best = min((seconds for seconds in took.values() if seconds), default=None)
        if own and best:
            ratios[which] = best / own
            print(f"  the fastest other engine takes {best / own:.2f} times as long", flush=True)
        if options.keep:
            keep(suite, everything, options.scale)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        worst = min(ratios, key=ratios.__getitem__)
        print(f"geometric mean {mean:.2f}, worst {ratios[worst]:.2f} (query {worst})")


def main() -> None:
    parser = arguments(__doc__.split("\n\n")[0], list(SCRIPTS))
    parser.add_argument("--which", nargs="*", type=int, default=list(range(1, 23)))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    tables = {name: str(table(name, options.work, options.scale)) for name in TPCH}
    compare("queries", queries("tpch.sql"), tables, options)


if __name__ == "__main__":
    main()
