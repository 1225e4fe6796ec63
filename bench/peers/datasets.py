"""Writes a folder of files by the values of a column, with Euphrates and other engines, in turns.

    .venv/bin/python bench/peers/datasets.py --scale 2
    .venv/bin/python bench/peers/datasets.py --scale 2 --memory 268435456 --partitions 1000 10000

Every engine gets one thread per core, reads the same Parquet file (`lineitem`, with a column of as
many values as there are partitions), and writes Parquet with zstd; DuckDB counts and adds up what
each has written. All are timed inside their process, without imports, until their call returns.
With `--keep`, raw results go to `bench/results/<date>-datasets.json`, those with a limit of memory
to `<date>-datasets-memory.json`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import duckdb
from sort import DUCKDB, POLARS, THREADS, in_turns, run
from tpch import PIECE_BYTES, arguments, keep, medians, table, timed

SCRIPTS = {
    "Euphrates": """
import euphrates as eu
start = time.perf_counter()
eu.query(source).save(target, partition_by=["p"], partitions_max=100_000, cores=threads,
                      home=scratch, memory=memory or None)
""",
    "DuckDB": DUCKDB
    + """
con.execute(f"COPY (FROM '{source}') TO '{target}' "
            "(FORMAT parquet, COMPRESSION zstd, PARTITION_BY (p))")
""",
    "Polars": POLARS
    + """
by = polars.PartitionBy(target, key="p", include_key=False)
polars.scan_parquet(source).sink_parquet(by, compression="zstd", mkdir=True, engine="streaming")
""",
}


def source(work: Path, scale: float, partitions: int) -> Path:
    """The rows to write, made on first use, and read into the page cache."""
    whole = table("lineitem", work, scale)
    path = work / f"lineitem-{scale:g}-{partitions}.parquet"
    if not path.exists():
        make = (
            "import euphrates as eu\n"
            f"rows = eu.query({str(whole)!r})\n"
            f"rows = rows.with_columns(p='(l_orderkey * 7 + l_linenumber) % {partitions}')\n"
            f"rows.save({str(path)!r}, compression='none', home={str(work / 'home')!r})"
        )
        made = run([sys.executable, "-c", make])
        if "failed" in made:
            raise SystemExit(made["failed"])
    with path.open("rb") as file:
        while file.read(PIECE_BYTES):
            pass
    return path


def digest(files: str) -> tuple[object, ...]:
    """Depends on all rows, and on the folder that each is in."""
    query = (
        "select count(*), sum(l_orderkey), sum(l_extendedprice), sum(p * l_partkey) "
        f"from read_parquet('{files}', hive_partitioning=true)"
    )
    return duckdb.sql(query).fetchall()[0]


def once(name: str, path: Path, wanted: tuple[object, ...], options: argparse.Namespace) -> dict:
    scratch, target = options.work / "scratch", options.work / f"dataset-{name}"
    shutil.rmtree(target, ignore_errors=True)
    scratch.mkdir(exist_ok=True)
    values = {
        "threads": THREADS,
        "memory": options.memory,
        "source": str(path),
        "target": str(target),
        "scratch": str(scratch),
    }
    result = timed(SCRIPTS[name], values)
    shutil.rmtree(scratch, ignore_errors=True)
    if "failed" not in result:
        files = list(target.rglob("*.parquet"))
        result["files"], result["file_bytes"] = len(files), sum(it.stat().st_size for it in files)
        if digest(f"{target}/**/*.parquet") != wanted:
            result["failed"] = "other rows than in the source"
    shutil.rmtree(target, ignore_errors=True)
    return result


def main() -> None:
    parser = arguments(__doc__.split("\n\n")[0], list(SCRIPTS))
    parser.add_argument("--partitions", nargs="*", type=int, default=[10, 1000])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    everything = {}
    for partitions in options.partitions:
        print(f"{partitions} partitions:", flush=True)
        path = source(options.work, options.scale, partitions)
        wanted = digest(str(path))

        def runner(name: str, path: Path = path, wanted: tuple[object, ...] = wanted):
            return lambda: once(name, path, wanted, options)

        results = in_turns(options.rounds, {name: runner(name) for name in options.only})
        everything[f"{partitions} partitions, memory {options.memory}"] = results
        took = medians(results)
        own = took.pop("Euphrates", None)
        for name, seconds in took.items():
            if own and seconds:
                print(f"  {name} takes {seconds / own:.2f} times as long", flush=True)
        path.unlink()
        if options.keep:
            keep("datasets-memory" if options.memory else "datasets", everything, options.scale)


if __name__ == "__main__":
    main()
