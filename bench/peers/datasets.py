"""Writes a folder of files by the values of a column, with Euphrates and other engines, in turns.

    .venv/bin/python bench/peers/datasets.py --scale 2
    .venv/bin/python bench/peers/datasets.py --scale 2 --memory 268435456 --partitions 1000 10000
    .venv/bin/python bench/peers/datasets.py --scale 10 --memory 805306368 --limit 1073741824 \\
        --partitions 1000 --file-bytes 4194304

Every engine gets one thread per core, reads the same Parquet file (`lineitem`, with a column of as
many values as there are partitions), and writes Parquet with zstd; DuckDB counts and adds up what
each has written. All are timed inside their process, without imports, until their call returns.
`--memory` is what Euphrates and DuckDB are told; Polars takes no such option. With `--limit`, the
kernel ends a process that holds more (a memory cgroup, version 1; needs root). `--file-bytes` is
the size of files for Euphrates, of which the largest is reported. With `--keep`, raw results go to
`bench/results/<date>-datasets.json`, those with a budget of memory to
`<date>-datasets-memory.json`, those with a limit to `<date>-datasets-limit.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
from sort import DUCKDB, POLARS, THREADS, in_turns, run
from tpch import PIECE_BYTES, arguments, keep, medians, table, timed

SCRIPTS = {
    "Euphrates": """
import euphrates as eu
start = time.perf_counter()
eu.query(source).save(target, partition_by=["p"], partitions_max=100_000, cores=threads,
                      home=scratch, memory=memory or None, file_bytes=file_bytes)
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


@contextlib.contextmanager
def limited(bytes_max: int | None) -> Iterator[str]:
    """A script's first lines, with which its process is ended if it holds more bytes."""
    if bytes_max is None:
        yield ""
        return
    group = Path(f"/sys/fs/cgroup/memory/euphrates-datasets-{os.getpid()}")
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(bytes_max))
        procs = str(group / "cgroup.procs")
        yield f"import os\nopen({procs!r}, 'w').write(str(os.getpid()))\n"
    finally:
        for _ in range(100):
            # The kernel may still be taking leave of the process.
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


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
        "file_bytes": options.file_bytes,
    }
    with limited(options.limit) as head:
        result = timed(head + SCRIPTS[name], values)
    shutil.rmtree(scratch, ignore_errors=True)
    if "failed" not in result:
        sizes = [it.stat().st_size for it in target.rglob("*.parquet")]
        result["files"], result["file_bytes"] = len(sizes), sum(sizes)
        result["largest_bytes"] = max(sizes)
        if digest(f"{target}/**/*.parquet") != wanted:
            result["failed"] = "other rows than in the source"
    shutil.rmtree(target, ignore_errors=True)
    return result


def main() -> None:
    parser = arguments(__doc__.split("\n\n")[0], list(SCRIPTS))
    parser.add_argument("--partitions", nargs="*", type=int, default=[10, 1000])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--file-bytes", type=int)
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
        limit = f", limit {options.limit}" if options.limit else ""
        everything[f"{partitions} partitions, memory {options.memory}{limit}"] = results
        took = medians(results)
        own = took.pop("Euphrates", None)
        for name, seconds in took.items():
            if own and seconds:
                print(f"  {name} takes {seconds / own:.2f} times as long", flush=True)
        path.unlink()
        if options.keep:
            name = "datasets-limit" if options.limit else "datasets-memory"
            keep(name if options.memory else "datasets", everything, options.scale)


if __name__ == "__main__":
    main()
