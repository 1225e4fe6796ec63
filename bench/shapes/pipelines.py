"""Compares flows of two to five modules with their stages one by one, and with DuckDB.

    .venv/bin/python -m bench.shapes.pipelines --repeats 3

A pipeline reads a table of sales, and one of cities where it joins, with a quarter of the table's
bytes as its memory. Three things are measured in turns, a process for each run: the whole pipeline
as one flow; its stages, each a flow that reads the file of the one before; and DuckDB with the same
query, threads and memory limit. Also each pipeline, and a sort, a join and an aggregate, on
`Cluster.processes(2)` with one thread each against two threads of one process.

Targets: a pipeline takes at most 1.15 times as long as its stages together, and less than DuckDB;
two processes take at most 1.15 times as long as one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
SEED = 2026
ROWS = 10_000_000
CITIES = 1000
THREADS = 2

Stage = tuple[str, dict[str, Any]]

FILTER: Stage = ("filter", {"condition": "price < 50"})
SORT: Stage = ("sort", {"by": ["customer", "price desc"]})
JOIN: Stage = ("join", {"on": ["city"]})
GROUP: Stage = ("aggregate", {"by": ["customer"], "values": {"paid": "sum(price)"}})
BY_REGION: Stage = ("aggregate", {"by": ["region"], "values": {"paid": "sum(price)"}})
TOP: Stage = ("sort", {"by": ["paid desc", "customer"]})

PIPELINES: dict[str, list[Stage]] = {
    "sort": [SORT],
    "join": [JOIN],
    "aggregate": [GROUP],
    "filter, sort": [FILTER, SORT],
    "join, sort": [JOIN, SORT],
    "aggregate, sort": [GROUP, TOP],
    "join, aggregate": [JOIN, BY_REGION],
    "join, aggregate by customer, sort": [JOIN, GROUP, TOP],
    "filter, join, aggregate, sort": [FILTER, JOIN, GROUP, TOP],
    "filter, join, sort, aggregate, sort": [FILTER, JOIN, SORT, GROUP, TOP],
}
"""Stages by name of the pipeline; the first three are single modules."""

QUERIES = {
    "filter": "select * from ({0}) where price < 50",
    "sort": "select * from ({0}) order by {by}",
    "join": "select * from ({0}) join '{cities}' using (city)",
    "aggregate": "select {by}, {values} from ({0}) group by {by}",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--job", help="runs one job, in a process of its own")
    options = parser.parse_args()
    if options.job:
        run(json.loads(options.job))
        return
    output = options.output or RESULTS / f"{datetime.date.today()}-pipelines.json"
    with tempfile.TemporaryDirectory(dir=os.environ.get("SHAPES_WORK")) as work:
        measured = measure_all(Path(work), options.rows, options.repeats)
    output.write_text(json.dumps(finite(measured), indent=1) + "\n")


def finite(value: Any) -> Any:
    """The same without infinite numbers, which JSON lacks: `None` where an engine failed."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [finite(one) for one in value]
    return None if value == float("inf") else value


def make_tables(work: Path, rows: int) -> int:
    """Writes the tables, and returns the bytes of the sales in memory."""
    draw = np.random.default_rng(SEED)
    names = pa.array([f"city {number:04}" for number in range(CITIES)])
    sales = pa.table(
        {
            "id": draw.permutation(rows),
            "customer": draw.integers(0, rows // 100, rows),
            "city": names.take(pa.array(draw.integers(0, CITIES, rows))),
            "price": np.round(draw.random(rows) * 100, 2),
            "note": pc.binary_join_element_wise(
                "note", pa.array(draw.integers(0, 1 << 30, rows)).cast(pa.string()), " "
            ),
        }
    )
    regions = pa.array([f"region {number % 20}" for number in range(CITIES)])
    pq.write_table(sales, work / "sales.parquet", compression="none", row_group_size=1 << 17)
    pq.write_table(pa.table({"city": names, "region": regions}), work / "cities.parquet")
    return int(sales.nbytes)


def measure_all(work: Path, rows: int, repeats: int) -> dict[str, Any]:
    bytes_ = make_tables(work, rows)
    results = []
    for name, stages in PIPELINES.items():
        took: dict[str, list[float]] = {}
        for _ in range(repeats):
            for kind, seconds in turns(work, stages, bytes_ // 4, bytes_ * 4):
                took.setdefault(kind, []).append(seconds)
        medians = {kind: statistics.median(some) for kind, some in took.items()}
        results.append({"pipeline": name, "seconds": medians, "runs": took, **ratios(medians)})
        print(f"{name:40} {told(results[-1])}", flush=True)
    return {
        "date": datetime.date.today().isoformat(),
        "cores": os.cpu_count(),
        "rows": rows,
        "bytes": bytes_,
        "memory": bytes_ // 4,
        "results": results,
    }


def turns(work: Path, stages: list[Stage], memory: int, roomy: int) -> Iterator[tuple[str, float]]:
    """Runs each kind once; `inf` where it fails. Processes get room for all data, like one."""
    job = {"work": str(work), "stages": stages, "memory": memory}
    yield "one flow", once(job | {"kind": "ours"})
    if len(stages) > 1:
        yield "stages", once_by_stage(job)
    yield "DuckDB", once(job | {"kind": "duckdb"})
    yield "embedded", once(job | {"kind": "ours", "memory": roomy})
    yield "processes", once(job | {"kind": "processes", "memory": roomy})


def once_by_stage(job: dict[str, Any]) -> float:
    work, seconds = Path(job["work"]), 0.0
    source = "sales.parquet"
    for number, stage in enumerate(job["stages"]):
        target = f"stage{number}.parquet"
        part = {"kind": "ours", "stages": [stage], "source": source, "target": target}
        seconds += once(job | part, keep=True)
        if number:
            (work / source).unlink()
        source = target
    (work / source).unlink()
    return seconds


def once(job: dict[str, Any], keep: bool = False) -> float:
    """The seconds of one run, without start and imports; `inf` if it fails."""
    command = [sys.executable, "-m", "bench.shapes.pipelines", "--job", json.dumps(job)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not keep:
        (Path(job["work"]) / "output.parquet").unlink(missing_ok=True)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1][:200], flush=True)
        return float("inf")
    return float(done.stdout)


def ratios(medians: dict[str, float]) -> dict[str, float]:
    """One flow over its stages, DuckDB over one flow, two processes over one."""
    found = {"duckdb": medians["DuckDB"] / medians["one flow"]}
    if "stages" in medians:
        found["flow_over_stages"] = medians["one flow"] / medians["stages"]
    return found | {"processes": medians["processes"] / medians["embedded"]}


def told(result: dict[str, Any]) -> str:
    seconds = ", ".join(f"{kind} {took:.2f}" for kind, took in result["seconds"].items())
    stages = result.get("flow_over_stages")
    against = f"; flow over stages {stages:.2f}" if stages else ""
    return f"{seconds}{against}; DuckDB {result['duckdb']:.2f}; processes {result['processes']:.2f}"


def run(job: dict[str, Any]) -> None:
    """Runs a job, and prints its seconds."""
    scratch = tempfile.mkdtemp(dir=job["work"])
    try:
        print(run_duckdb(job, scratch) if job["kind"] == "duckdb" else run_ours(job, scratch))
    finally:
        shutil.rmtree(scratch)


def run_ours(job: dict[str, Any], scratch: str) -> float:
    import euphrates as eu

    work = Path(job["work"])
    flow = eu.Flow("pipeline")
    last = flow.place(eu.scan(str(work / job.get("source", "sales.parquet"))))
    for name, options in job["stages"]:
        module = flow.place(getattr(eu, name)(*options.values()) if name != "aggregate" else
                            eu.aggregate(options["by"], values=options["values"]))  # fmt: skip
        if name == "join":
            flow.attach(last, module, input="left")
            flow.attach(flow.place(eu.scan(str(work / "cities.parquet"))), module, input="right")
        else:
            flow.attach(last, module)
        last = module
    target = work / job.get("target", "output.parquet")
    flow.attach(last, flow.place(eu.save(str(target), compression="none")))
    here: dict[str, Any] = {"cores": THREADS}
    if job["kind"] == "processes":
        here = {"cluster": eu.Cluster.processes(2), "cores": 2}
    began = time.perf_counter()
    flow.go(memory=job["memory"], home=scratch, progress=False, **here)
    return time.perf_counter() - began


def run_duckdb(job: dict[str, Any], scratch: str) -> float:
    import duckdb

    work = Path(job["work"])
    con = duckdb.connect()
    con.execute(f"SET threads={THREADS}; SET preserve_insertion_order=false")
    con.execute(f"SET memory_limit='{job['memory'] >> 20}MiB'; SET temp_directory='{scratch}'")
    sql = f"select * from '{work / 'sales.parquet'}'"
    for name, options in job["stages"]:
        values = ", ".join(f"{call} as {key}" for key, call in options.get("values", {}).items())
        by = ", ".join(options.get("by", []))
        sql = QUERIES[name].format(sql, by=by, values=values, cities=work / "cities.parquet")
    began = time.perf_counter()
    con.execute(
        f"COPY ({sql}) TO '{work / 'output.parquet'}' (FORMAT parquet, COMPRESSION 'uncompressed')"
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
