"""What other libraries call the methods of what runs a flow, and of what a run returns: placed
modules, clusters, reports and tables.
"""

from __future__ import annotations

_CHAIN = "flow.chain(a, b, eu.collect()), then flow.go()"
_PROCESSES = "eu.Cluster.processes(2)"
_RUN = "flow.go(cluster=cluster)"
_AT = 'eu.Cluster.at("10.0.0.1:4400", token_file="token")'
_WORKERS = "[worker.name for worker in cluster.workers]"
PLACED = {
    "attach": "flow.attach(a, b)",
    "chain": "flow.chain(a, b)",
    "collect": _CHAIN,
    "connect": "a >> b",
    "go": "flow.go()",
    "name": ".id",
    "next": "a >> b",
    "pipe": "a >> b",
    "run": "flow.go()",
    "start": "flow.start()",
    "then": "a >> b",
    "to": "a >> b",
}
"""Of a placed module. Methods of queries have an answer of their own."""
CLUSTERS = {
    "cancel": "running.cancel(), of what flow.start(cluster=cluster) returns",
    "compute": _RUN,
    "connect": _AT,
    "create": _PROCESSES,
    "disconnect": ".close()",
    "execute": _RUN,
    "get_workers": _WORKERS,
    "go": _RUN,
    "init": _PROCESSES,
    "local": _PROCESSES,
    "map": 'eu.map(function) in a flow, and flow.go(cluster="processes:2")',
    "new": _PROCESSES,
    "nodes": _WORKERS,
    "open": _AT,
    "run": _RUN,
    "scale": "eu.Cluster.processes(4): a cluster has the number of workers that it was opened with",
    "shutdown": ".close()",
    "size": "len(cluster.workers)",
    "start": _PROCESSES,
    "status": ".workers, or .ps() for what runs on them",
    "stop": ".close()",
    "submit": "flow.start(cluster=cluster)",
    "terminate": ".close()",
    "threads": "flow.go(cores=4): one process runs a flow on all cores",
    "workers_count": "len(cluster.workers)",
}
"""Of a cluster."""
_COLLECTED = ".collected()"
REPORTS = {
    "arrow": ".collected().to_pyarrow()",
    "collect": _COLLECTED,
    "columns": ".collected().column_names",
    "data": _COLLECTED,
    "df": ".collected().to_pandas()",
    "duration": ".seconds",
    "elapsed": ".seconds",
    "fetchall": ".collected().to_pylist()",
    "num_rows": ".collected().num_rows",
    "output": _COLLECTED,
    "pl": ".collected().to_polars()",
    "print": "print(report)",
    "result": _COLLECTED,
    "results": _COLLECTED,
    "rows": ".collected().to_pylist()",
    "schema": ".collected().schema",
    "show": "print(report)",
    "stats": ".modules",
    "summary": "print(report)",
    "table": _COLLECTED,
    "time": ".seconds",
    "to_arrow": ".collected().to_pyarrow()",
    "to_dict": ".collected().to_pydict()",
    "to_dicts": ".collected().to_pylist()",
    "to_list": ".collected().to_pylist()",
    "to_pandas": ".collected().to_pandas()",
    "to_polars": ".collected().to_polars()",
    "to_pyarrow": ".collected().to_pyarrow()",
    "to_pydict": ".collected().to_pydict()",
    "to_pylist": ".collected().to_pylist()",
    "wait": "flow.start(), and .wait() of what it returns: a report is of a flow that has ended",
}
"""Of a report."""
TABLES = {
    "arrow": ".to_pyarrow()",
    "collect": "nothing: a table is what .collect() returns",
    "columns": ".column_names, or .to_pydict() for the values",
    "column": '.to_pydict()["a"]',
    "df": ".to_pandas()",
    "dtypes": ".schema",
    "fetchall": ".to_pylist()",
    "height": ".num_rows",
    "iter_rows": ".to_pylist()",
    "iterrows": ".to_pylist()",
    "names": ".column_names",
    "pl": ".to_polars()",
    "rows": ".to_pylist()",
    "shape": "(table.num_rows, len(table.column_names))",
    "show": "print(table.to_polars()), or .to_pandas() or .to_pylist()",
    "slice": "eu.query(table).limit(5, offset=2)",
    "to_arrow": ".to_pyarrow()",
    "to_df": ".to_pandas()",
    "to_dict": ".to_pydict(), or .to_pylist() for a dict of each row",
    "to_dicts": ".to_pylist()",
    "to_list": ".to_pylist()",
    "to_numpy": ".to_pandas().to_numpy()",
    "to_records": ".to_pylist()",
    "values": ".to_pydict()",
    "width": "len(table.column_names)",
}
"""Of a table, which a run has collected."""
RUNS = {"placed": PLACED, "cluster": CLUSTERS, "report": REPORTS, "table": TABLES}
_WRITES = ("to_", "write_", "sink_", "save")


def of_rows(kind: str, name: str) -> str | None:
    """What to write for a method of rows, which is one of a query here."""
    from ..queries import Query
    from .names import METHODS

    writes = name.startswith(_WRITES)
    if not writes and not hasattr(Query, name) and name not in METHODS:
        return None
    if kind == "placed":
        return f"a >> eu.{'save' if writes else 'filter'}(…), or eu.query(…) for methods of rows"
    table = "table" if kind == "table" else "report.collected()"
    if writes:
        return f'eu.query({table}).save("rows.parquet")'
    return f"eu.query({table}), which has methods like .sort and .filter"
