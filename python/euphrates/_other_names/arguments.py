"""What other libraries call the arguments of methods, and the options of modules and runs."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Collection

_DISTINCT = '.distinct(), or .latest("id", by="day") for a row of each key'
_JOIN = 'on=[("id", "customer_id")], pairs of a left and a right name'
_TOTAL = 'the aggregate by its name: total="sum(n)"'
_PIVOT = '.pivot("city", ["Ur", "Kish"], by="day", total="sum(n)")'
_RUN = ("cluster", "cores", "home", "memory", "metrics", "progress", "resume", "scratch", "workers")
_WORKERS = dict.fromkeys(
    ("count", "n", "n_workers", "num_workers", "number", "processes"), "workers=2"
)
_TOKEN = {"token": 'token_file="token", the path of a file with the token'}
ARGUMENTS = {
    "Cluster.at": _TOKEN,
    "Cluster.join": _TOKEN,
    "eu.Flow": {one: f"flow.go({one}=…): it is an option of a run" for one in _RUN},
    "Cluster.processes": _WORKERS
    | dict.fromkeys(("cores", "threads", "threads_per_worker"), "flow.go(cluster=cluster, cores=2)")
    | dict.fromkeys(("memory", "memory_limit"), 'flow.go(cluster=cluster, memory="1GiB")'),
    "attach": {
        "port": 'output="out", or input="in"',
        "capacity": 'bytes_max="1MiB"',
        "maxsize": 'bytes_max="1MiB"',
        "size": 'bytes_max="1MiB"',
    },
    "cast": {"strict": 'SQL, "try_cast(a as int)", which gives null for what is no number'},
    "chain": {"count": "flow.place(module, count=4), and chain what it returns"},
    "distinct": dict.fromkeys(("columns", "keep", "on", "subset"), _DISTINCT),
    "drop": dict.fromkeys(("columns", "cols", "labels"), '.drop("a", "b")'),
    "draw": {"fmt": '.draw("svg")', "path": 'open("flow.svg", "w").write(flow.draw("svg"))'},
    "filter": dict.fromkeys(
        ("condition", "expr", "fn", "func", "function", "predicate"), '.filter("price > 3")'
    ),
    "group_by": dict.fromkeys(("by", "columns", "key", "keys"), '.group_by("a")'),
    "iter_batches": dict.fromkeys(("n", "rows", "size"), "batch_size=256")
    | dict.fromkeys(
        ("local_shuffle_buffer_size", "local_shuffle_seed"),
        ".shuffle(seed=1) before, which mixes all rows",
    ),
    "join": dict.fromkeys(("left_on", "right_on", "left_index", "right_index"), _JOIN)
    | dict.fromkeys(("lsuffix", "rsuffix", "suffixes", "right_suffix"), 'suffix="_right"')
    | dict.fromkeys(("join_type", "kind", "type"), 'how="left"')
    | dict.fromkeys(("by", "key", "keys", "using"), 'on="id"')
    | dict.fromkeys(("condition", "predicate"), 'on="id", and where="price > least"')
    | dict.fromkeys(
        ("join_nulls", "nulls_equal"),
        '.sql("select * from self s join t on s.id is not distinct from t.id", t=other)',
    ),
    "join_asof": dict.fromkeys(("left_on", "right_on"), 'on=("time", "day"), a left and right name')
    | dict.fromkeys(("by_left", "by_right", "left_by", "right_by"), 'by=[("id", "customer_id")]')
    | {
        "direction": 'strategy="backward" or "forward"',
        "tolerance": '.filter("t - t_right < 5") behind it',
    },
    "latest": dict.fromkeys(("on", "subset"), '.latest("id", by="day")'),
    "limit": dict.fromkeys(("count", "k", "length", "n", "num"), ".limit(5)"),
    "pivot": {
        "aggfunc": _TOTAL,
        "aggregate_function": _TOTAL,
        "columns": _PIVOT,
        "index": 'by="day"',
    },
    "place": dict.fromkeys(
        ("concurrency", "instances", "n", "num_workers", "parallelism", "replicas"), "count=4"
    )
    | {"name": 'id="first"', "label": 'id="first"'},
    "rename": dict.fromkeys(("columns", "index", "mapper", "mapping"), '.rename({"old": "new"})'),
    "sort": dict.fromkeys(("ascending", "reverse"), '.sort("price desc")')
    | dict.fromkeys(("by", "col", "columns", "cols", "key", "keys"), '.sort("price")')
    | dict.fromkeys(("na_position", "nulls_first", "nulls_last"), '.sort("price nulls first")'),
    "top": dict.fromkeys(("k", "n"), '.top(20, by="price")')
    | {"descending": 'by="price asc" for the smallest', "reverse": 'by="price asc"'},
    "union": {"other": ".union(other)", "distinct": ".union(other).distinct()"},
    "unpivot": dict.fromkeys(("on", "value_vars"), '.unpivot(["a", "b"])')
    | dict.fromkeys(("id_vars", "index"), '.select("id", "a", "b").unpivot(["a", "b"])')
    | {"var_name": 'name="name"', "variable_name": 'name="name"', "value_name": 'value="value"'},
}
"""What to write for the arguments of other libraries' methods, by the name of ours."""
EXAMPLES = {
    "col": 'eu.col("price"), or .select("city", "price") for several',
    "Cluster.join": 'eu.Cluster.join("10.0.0.1:4400", workers=8, token_file="token")',
    "eu.Cluster": "eu.Cluster.processes(2)",
    "eu.Flow": 'eu.Flow("cities")',
    "eu.Query": 'eu.query("rows.csv")',
    "eu.Var": 'eu.var("path", default="a.csv")',
    "open_striped": 'eu.open_striped("models/first", "wb")',
    "perturb": 'eu.perturb(module="scan_1", share=0.5)',
    "query": 'eu.query("rows.csv"), eu.query("@rows") or eu.query({"n": [1, 2]})',
    "scan_iceberg": 'eu.scan_iceberg("shop.sales", catalog={"type": "sql", "uri": "…"})',
    "sql": 'eu.sql("select * from t where n > 1", t={"n": [1, 2]})',
}
"""Calls of functions whose documentation has none that shows the arguments."""
_DIVIDED = "work is divided while the flow runs; `cores` of .collect() and .save() bounds it"
_NO_INDEX = "rows have no index"
NEEDLESS = {
    "as_index": _NO_INDEX,
    "axis": "a method is for rows or for columns",
    "chunksize": "every flow streams, and spills what does not fit",
    "coalesce": "a join has each key once",
    "copy": "a query does not change, and shares what it can",
    "dropna": "a null key is a group; .filter(…) leaves rows out",
    "engine": "every flow streams, and spills what does not fit",
    "errors": "a column that is missing is an error",
    "ignore_index": _NO_INDEX,
    "in_place": "a query does not change; assign the result",
    "index": _NO_INDEX,
    "index_col": _NO_INDEX,
    "indicator": 'how="anti" finds rows without a match',
    "inplace": "a query does not change; assign the result",
    "kind": "a sort keeps to scratch what does not fit",
    "level": _NO_INDEX,
    "low_memory": "`memory` of .collect() and .save() bounds it",
    "maintain_order": "rows have no order; a .sort(…) behind it makes one",
    "multithreaded": _DIVIDED,
    "named": "rows are dicts",
    "numPartitions": _DIVIDED,
    "num_partitions": _DIVIDED,
    "observed": "only groups that have rows are made",
    "override_num_blocks": _DIVIDED,
    "parallelism": _DIVIDED,
    "sort": "rows have no order; a .sort(…) behind it makes one",
    "streaming": "every flow streams, and spills what does not fit",
    "strict": "a column that is missing is an error",
    "validate": 'check it: .group_by("id").agg(n="count()").filter("n > 1")',
}
"""Arguments of other libraries that have no counterpart, and why."""
JOINS = {
    "outer": "full",
    "full_outer": "full",
    "fullouter": "full",
    "left_outer": "left",
    "leftouter": "left",
    "right_outer": "right",
    "rightouter": "right",
    "left_semi": "semi",
    "leftsemi": "semi",
    "left_anti": "anti",
    "leftanti": "anti",
}
"""What other libraries call the kinds of joins."""
_TYPES = 'types={"day": "date", "id": "int64"}'
_NUMBERS = """types={"a": "string"}, and "cast(replace(a, ',', '.') as double)" behind it"""
OPTIONS = {
    "all_varchar": 'types={"id": "string"}',
    "batch_format": "batch.to_pandas(), .to_polars() or .to_pydict() in the function",
    "batch_size": "rows_per_call",
    "column_names": "rows.rename({…}); `columns` are those to read",
    "comment_prefix": "comment",
    "compute": "flow.place(eu.map(…), count=4)",
    "cols": "columns",
    "ascending": 'by="price desc"',
    "delim": "delimiter",
    "descending": 'by="price desc"',
    "dtype": "types",
    "dtypes": "types",
    "decimal": _NUMBERS,
    "encoding_errors": "encoding",
    "error_bad_lines": 'on_error="skip"',
    "filesystem": "storage_options",
    "filters": '.filter("price > 3") behind it, which skips files and row groups',
    "fn_args": "arguments",
    "fn_constructor_args": "args",
    "fn_constructor_kwargs": "kwargs",
    "fn_kwargs": "arguments",
    "has_header": "header",
    "hive_partitioning": "hive",
    "hive_schema": "hive_types",
    "ignore_errors": 'on_error="skip"',
    "inferSchema": _TYPES,
    "infer_schema_length": _TYPES,
    "n_rows": ".limit(5) behind it",
    "na_values": "null_values",
    "names": "rows.rename({…}); `columns` are those to read",
    "new_columns": "rows.rename({…}); `columns` are those to read",
    "nrows": ".limit(5) behind it",
    "nullstr": "null_values",
    "num_gpus": 'flow.place(eu.map(…), workers=["gpu"])',
    "on_bad_lines": 'on_error="skip"',
    "output_schema": "schema",
    "parse_dates": _TYPES,
    "partitioning": "hive",
    "quote_char": "quote",
    "quotechar": "quote",
    "return_dtype": 'schema={"n": "int64"}',
    "row_limit": ".limit(5) behind it",
    "schema": "types",
    "schema_overrides": "types",
    "sep": "delimiter",
    "separator": "delimiter",
    "skip": "skip_rows",
    "skiprows": "skip_rows",
    "try_parse_dates": _TYPES,
    "usecols": "columns",
    # Of runs, and of what is written.
    "compression_level": "compression",
    "limit_memory": "memory",
    "max_memory": "memory",
    "memory_limit": "memory",
    "n_jobs": "cores",
    "num_cpus": "cores",
    "num_workers": "workers",
    "partition_cols": "partition_by",
    "row_group_size": "row_group_bytes",
    "temp_directory": "scratch",
    "threads": "cores",
    "thousands": _NUMBERS,
    "timeout": ".start(), and .wait(seconds) of what it returns",
    "verbose": "progress",
}
"""What other libraries call options of modules and of runs: an option, or what to write instead."""


def option(name: str, known: Collection[str]) -> str | None:
    """What to write for another library's option: one of the known options, or something else."""
    instead = OPTIONS.get(name)
    if instead is not None:
        word = instead.partition("=")[0]
        if word in known or not word.isidentifier():
            return f"write {instead}"
    return f"leave it out: {NEEDLESS[name]}" if name in NEEDLESS else None
