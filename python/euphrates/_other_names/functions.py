"""What other libraries call functions that this package has under other names, or does without."""

from __future__ import annotations

_CASE = '"case when n > 1 then 1 else 0 end"'
_CLUSTER = "eu.Cluster.processes(2), or flow.go(cluster=…) for one flow"
_QUERY = 'eu.query("rows.csv"), eu.query("@rows") or eu.query({"n": [1, 2]})'
_SCAN = 'eu.scan("rows.csv")'
_FUNCTIONS = {
    "Client": _CLUSTER,
    "LocalCluster": _CLUSTER,
    "F": 'eu.col("a"), eu.call("upper", eu.col("a")), or SQL in a text',
    "SparkSession": "eu.query(…) or eu.sql(…): there is no session",
    "agg": 'rows.group_by().agg(n="count()")',
    "all": '"*"',
    "asc": '"price" in .sort(…)',
    "avg": 'eu.col("n").mean()',
    "coalesce": 'eu.call("coalesce", eu.col("a"), 0)',
    "concat": "rows.union(other)",
    "connect": "eu.query(…) or eu.sql(…): there is no connection",
    "desc": '"price desc" in .sort(…)',
    "element": '"list_transform(items, x -> x + 1)"',
    "expr": '"price * 2", SQL in a text, wherever an expression is expected',
    "init": "nothing: flows run in this process; eu.Cluster has others",
    "len": '"count()"',
    "load": _QUERY,
    "max": 'eu.col("n").max()',
    "mean": 'eu.col("n").mean()',
    "min": 'eu.col("n").min()',
    "open": _QUERY,
    "processes": _CLUSTER,
    "range": 'eu.generate("integers", rows=10)',
    "source": _QUERY,
    "struct": '"struct(a, b)"',
    "sum": 'eu.col("n").sum()',
    "table": _QUERY,
    "to_date": 'eu.col("a").cast("date")',
    "to_datetime": 'eu.col("a").cast("timestamp")',
    "when": _CASE,
}
"""What to write for functions of other libraries."""


def function(name: str) -> str | None:
    """What to write for a function that other libraries have, if this package does it otherwise."""
    if name == "read_delta":
        return 'eu.scan_delta("sales")'
    if name in ("read_json", "read_parquet", "scan_parquet", "scan_ndjson", "read_ipc"):
        return f'eu.scan("rows.{name.partition("_")[2].replace("ipc", "arrow")}")'
    if name.startswith(("read_", "scan_")):
        return _SCAN
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name.lower().startswith(("from_", "dataframe", "lazyframe")):
        return "eu.query(rows): a dict of lists, a list of dicts, or a frame of pandas or Polars"
    return None
