"""What other libraries call the methods of queries, groups, expressions and flows; an error for
such a name says what to write.
"""

from __future__ import annotations

from .runs import RUNS, of_rows

_CASE = '"case when n > 1 then 1 else 0 end"'
_OF_GROUPS = ".sql, .window, or eu.partition(…, together=True) before a function"
_OWN = ("filter", "select", "sort", "join", "group_by", "limit", "union", "window", "with_columns")
_SAVE = '.save("rows.parquet")'
METHODS = {
    "add_column": '.with_columns(total="a + b")',
    "agg": '.group_by().agg(n="count()")',
    "aggregate": '.group_by().agg(n="count()")',
    "alias": "nothing: tables get their names in eu.sql(…, name=rows)",
    "anti_join": '.join(other, "id", how="anti")',
    "append": ".union(other)",
    "apply": ".then(eu.map(function))",
    "approx_n_unique": '.group_by().agg(n="approx_distinct(a)")',
    "arrow": ".to_pyarrow()",
    "assign": '.with_columns(total="a + b")',
    "astype": '.with_columns(a="cast(a as double)")',
    "bottom_k": '.top(5, by="price asc")',
    "cache": ".materialize()",
    "cast": '.with_columns(a="cast(a as double)")',
    "clone": "nothing: a query does not change",
    "coalesce": "nothing: work is divided while the flow runs",
    "collect_schema": ".schema",
    "compute": ".collect()",
    "concat": ".union(other)",
    "copy": "nothing: a query does not change",
    "corr": '.group_by().agg(r="corr(a, b)")',
    "count": '.group_by().agg(n="count()")',
    "create_view": 'eu.sql("select … from rows"), which finds variables',
    "createOrReplaceTempView": 'eu.sql("select … from rows"), which finds variables',
    "createTempView": 'eu.sql("select … from rows"), which finds variables',
    "cross": '.sql("select * from self cross join t", t=other)',
    "crossJoin": '.sql("select * from self cross join t", t=other)',
    "cumsum": '.sql("select *, sum(n) over (order by day) as total from self")',
    "describe": ".summarize()",
    "df": ".to_pandas()",
    "diff": '.sql("select *, n - lag(n) over (order by day) as change from self")',
    "drop_columns": '.drop("a")',
    "drop_duplicates": '.distinct(), or .latest("id", by="day") for a row of each key',
    "drop_na": '.filter("a is not null")',
    "drop_nulls": '.filter("a is not null")',
    "dropDuplicates": '.distinct(), or .latest("id", by="day") for a row of each key',
    "dropna": '.filter("a is not null")',
    "dtypes": ".schema",
    "empty": ".limit(1).collect().num_rows == 0",
    "equals": '.sql("select * from self except all select * from t", t=other)',
    "except_": '.sql("select * from self except select * from t", t=other)',
    "exceptAll": '.sql("select * from self except all select * from t", t=other)',
    "execute": '.collect(), or .save("rows.parquet")',
    "explode": '.sql("select *, unnest(items) as item from self")',
    "extend": ".union(other)",
    "fetch": ".limit(5)",
    "fetch_arrow_table": ".to_pyarrow()",
    "fetchall": ".to_pylist()",
    "fetchdf": ".to_pandas()",
    "fetchmany": "for row in rows.iter_rows()",
    "fetchnumpy": ".iter_batches(batch_size=None)",
    "fetchone": ".limit(1).to_pylist()",
    "fill_null": '.with_columns(a="coalesce(a, 0)")',
    "fillna": '.with_columns(a="coalesce(a, 0)")',
    "first": ".limit(1)",
    "flat_map": ".then(eu.map(function))",
    "foreach": "for row in rows.iter_rows()",
    "foreachPartition": "for batch in rows",
    "get_column": '.select("a").to_pydict()["a"]',
    "glimpse": ".summarize()",
    "go": '.collect(), .save("rows.parquet"), or .flow.go() of a flow with a sink',
    "group_by_dynamic": '.with_columns(hour="date_trunc(\'hour\', time)").group_by("hour")',
    "groupby": '.group_by("a")',
    "groupBy": '.group_by("a")',
    "head": ".limit(5)",
    "height": '.group_by().agg(n="count()")',
    "hist": ".to_pandas().hist()",
    "iloc": ".limit(5, offset=2)",
    "info": ".summarize()",
    "insert_into": '.save("sales/", mode="append")',
    "intersect": '.sql("select * from self intersect select * from t", t=other)',
    "is_empty": ".limit(1).collect().num_rows == 0",
    "isEmpty": ".limit(1).collect().num_rows == 0",
    "isna": '.with_columns(missing="a is null")',
    "isnull": '.with_columns(missing="a is null")',
    "item": ".to_pylist()[0]",
    "items": "for column, values in rows.to_pydict().items()",
    "iter_columns": ".to_pydict()",
    "iterrows": "for row in rows.iter_rows()",
    "itertuples": "for row in rows.iter_rows()",
    "join_where": '.sql("select * from self s join t on s.a < t.b", t=other)',
    "lazy": "what follows: a query runs at .collect(), .save() and the like",
    "len": '.group_by().agg(n="count()")',
    "loc": '.filter("id = 3").select("a", "b")',
    "map": ".then(eu.map(function))",
    "map_batches": ".then(eu.map(function))",
    "map_groups": 'eu.partition("a", together=True), and a function behind it: .then(…)',
    "map_rows": ".then(eu.map(function))",
    "mapInArrow": ".then(eu.map(function))",
    "mapInPandas": ".then(eu.map(function))",
    "max": '.group_by().agg(max="max(a)")',
    "mean": '.group_by().agg(mean="avg(a)")',
    "median": '.group_by().agg(median="median(a)")',
    "melt": '.unpivot(["a", "b"])',
    "merge": '.join(other, "id")',
    "min": '.group_by().agg(min="min(a)")',
    "mutate": '.with_columns(total="a + b")',
    "n_unique": '.group_by().agg(n="count(distinct a)")',
    "names": ".columns",
    "nlargest": '.top(5, by="price")',
    "notnull": '.with_columns(known="a is not null")',
    "nsmallest": '.top(5, by="price asc")',
    "null_count": ".summarize()",
    "num_rows": '.group_by().agg(n="count()")',
    "nunique": '.group_by().agg(n="count(distinct a)")',
    "order": '.sort("price desc")',
    "order_by": '.sort("price desc")',
    "orderBy": '.sort("price desc")',
    "orderby": '.sort("price desc")',
    "over": '.window("city", total="sum(n)")',
    "persist": ".materialize()",
    "pipe": "function(rows)",
    "pivot_table": '.pivot("city", ["Ur", "Kish"], by="day", total="sum(n)")',
    "pl": ".to_polars()",
    "plot": ".to_pandas().plot()",
    "printSchema": "print(rows.schema)",
    "project": '.select("a", "b")',
    "quantile": '.group_by().agg(q="approx_percentile_cont(a, 0.5)")',
    "query": '.filter("price > 3"), or .sql("select … from self")',
    "random_shuffle": ".shuffle(seed=1)",
    "rdd": "for batch in rows",
    "rename_columns": '.rename({"old": "new"})',
    "repartition": "nothing: work is divided while the flow runs",
    "replace": '.with_columns(a="case when a = 1 then 2 else a end")',
    "resample": '.with_columns(hour="date_trunc(\'hour\', time)").group_by("hour")',
    "reset_index": "nothing: rows have no index",
    "reverse": '.sort("day desc"): rows without a sort have no order',
    "rolling": '.sql("select *, avg(n) over (order by day rows 6 preceding) as mean from self")',
    "row": ".limit(1).to_pylist()[0]",
    "row_number": '.sql("select *, row_number() over (order by day) as n from self")',
    "rows": ".to_pylist()",
    "run": '.collect(), or .save("rows.parquet")',
    "sample": ".then(eu.sample(fraction=0.1))",
    "select_columns": '.select("a", "b")',
    "select_dtypes": '.select("a", "b"); .schema has the types',
    "select_seq": '.select("a", "b")',
    "selectExpr": '.select("a", "b * 2 as c")',
    "semi_join": '.join(other, "id", how="semi")',
    "set_alias": "nothing: tables get their names in eu.sql(…, name=rows)",
    "set_index": "nothing: rows have no index",
    "shape": '.columns, and .group_by().agg(n="count()")',
    "show": "print(rows.limit(10).to_polars()), or .to_pandas() or .to_pylist()",
    "size": '.group_by().agg(n="count()")',
    "slice": ".limit(5, offset=2)",
    "sort_index": "nothing: rows have no index",
    "sort_values": '.sort("price desc")',
    "split_at_indices": ".split(2), or .limit(5) and .limit(5, offset=5)",
    "std": '.group_by().agg(std="stddev(a)")',
    "streaming_split": ".split(2)",
    "subtract": '.sql("select * from self except select * from t", t=other)',
    "sum": '.group_by().agg(sum="sum(a)")',
    "summary": ".summarize()",
    "tail": '.sort("day desc").limit(5)',
    "take": ".limit(5)",
    "take_all": ".to_pylist()",
    "take_batch": ".limit(20)",
    "to_arrow": ".to_pyarrow()",
    "to_arrow_table": ".to_pyarrow()",
    "to_df": ".to_pandas()",
    "to_dict": ".to_pydict(), or .to_pylist() for a dict of each row",
    "to_dicts": ".to_pylist()",
    "to_frame": ".to_pandas()",
    "to_list": ".to_pylist()",
    "to_numpy": ".iter_batches(batch_size=None), whose batches are dicts of arrays",
    "to_records": ".to_pylist()",
    "to_table": ".to_pyarrow()",
    "to_torch": ".iter_torch_batches()",
    "toDF": '.rename({"old": "new"})',
    "toLocalIterator": "for row in rows.iter_rows()",
    "top_k": '.top(5, by="price")',
    "toPandas": ".to_pandas()",
    "train_test_split": '.filter("hash(id) % 10 < 8"), and the contrary',
    "transpose": ".to_pandas().T",
    "union_all": ".union(other)",
    "unionAll": ".union(other)",
    "unionByName": ".union(other), whose columns have the same order",
    "unique": '.distinct(), or .latest("id", by="day") for a row of each key',
    "unnest": '.sql("select *, unnest(items) as item from self")',
    "unpersist": "nothing: what .materialize() keeps is freed with the query",
    "update": '.with_columns(a="coalesce(b, a)")',
    "value_counts": '.group_by("a").agg(n="count()").sort("n desc")',
    "values": ".to_pydict()",
    "var": '.group_by().agg(var="var_samp(a)")',
    "vstack": ".union(other)",
    "where": '.filter("price > 3")',
    "width": "len(rows.columns)",
    "with_column": '.with_columns(total="a + b")',
    "with_row_count": '.sql("select *, row_number() over (order by day) as n from self")',
    "with_row_index": '.sql("select *, row_number() over (order by day) as n from self")',
    "withColumn": '.with_columns(total="a + b")',
    "withColumnRenamed": '.rename({"old": "new"})',
    "withColumns": '.with_columns(total="a + b")',
    "write": _SAVE,
    "zip": '.join(other, "id")',
}
"""Methods of a query."""
GROUPED = {
    name: f'.agg({name}="{call}")'
    for name, call in {
        "all": "array_agg(x)",
        "any_value": "any_value(x)",
        "avg": "avg(x)",
        "collect_list": "array_agg(x)",
        "count": "count()",
        "first": "first(x)",
        "last": "last(x)",
        "len": "count()",
        "max": "max(x)",
        "mean": "avg(x)",
        "median": "median(x)",
        "min": "min(x)",
        "n_unique": "count(distinct x)",
        "nunique": "count(distinct x)",
        "quantile": "approx_percentile_cont(x, 0.5)",
        "size": "count()",
        "std": "stddev(x)",
        "sum": "sum(x)",
        "var": "var_samp(x)",
    }.items()
} | {
    "aggregate": '.agg(total="sum(x)")',
    "apply": _OF_GROUPS,
    "applyInPandas": _OF_GROUPS,
    "cumsum": 'rows.window("city", order_by="day", total="sum(x)")',
    "filter": '.agg(n="count()").filter("n > 1")',
    "having": '.agg(n="count()").filter("n > 1")',
    "head": 'rows.top(5, by="day", per="city")',
    "map_groups": _OF_GROUPS,
    "pivot": 'rows.pivot("city", ["Ur", "Kish"], by="day", total="sum(n)")',
    "rank": 'rows.window("city", order_by="day", rank="rank()")',
    "tail": 'rows.top(5, by="day", per="city")',
    "transform": 'rows.window("city", total="sum(x)")',
}
"""Methods of grouped rows."""
EXPRESSIONS = {
    "apply": "rows.then(eu.map(function))",
    "asc": '"price" in .sort(…)',
    "astype": '.cast("double")',
    "contains": '.like("%part%"), or eu.call("regexp_like", eu.col("a"), "pattern")',
    "cum_sum": 'rows.window("city", order_by="day", total="sum(n)")',
    "desc": '"price desc" in .sort(…)',
    "diff": 'rows.window("city", order_by="day", before="lag(n)")',
    "fill_null": 'eu.call("coalesce", eu.col("a"), 0)',
    "fillna": 'eu.call("coalesce", eu.col("a"), 0)',
    "drop_nulls": 'rows.filter("a is not null")',
    "endswith": '.like("%end")',
    "eq": "== in place of the method; of the others !=, <, <=, > and >=",
    "explode": 'rows.sql("select *, unnest(items) as item from self")',
    "ilike": 'eu.call("lower", eu.col("a")).like("u%")',
    "is_between": ".between(low, high)",
    "is_not_in": '~eu.col("a").is_in([1, 2])',
    "isin": ".is_in([1, 2])",
    "isna": ".is_null()",
    "isNotNull": ".is_not_null()",
    "isNull": ".is_null()",
    "isnull": ".is_null()",
    "is_duplicated": 'rows.window("a", n="count()").filter("n > 1")',
    "is_nan": 'eu.call("isnan", eu.col("a"))',
    "is_not_nan": '~eu.call("isnan", eu.col("a"))',
    "is_unique": 'rows.window("a", n="count()").filter("n = 1")',
    "map_elements": "rows.then(eu.map(function))",
    "notna": ".is_not_null()",
    "notnull": ".is_not_null()",
    "otherwise": _CASE,
    "over": 'rows.window("city", total="sum(n)")',
    "rank": 'rows.window("city", order_by="day", rank="rank()")',
    "replace_strict": _CASE,
    "rolling_mean": 'rows.sql("select *, avg(a) over (order by day rows 6 preceding) from self")',
    "rlike": 'eu.call("regexp_like", eu.col("a"), "pattern")',
    "shift": 'rows.window("city", order_by="day", before="lag(n)")',
    "sort": 'rows.sort("price desc")',
    "startswith": '.like("start%")',
    "str": 'eu.call("upper", eu.col("a")), and other functions of SQL',
    "dt": 'eu.call("month", eu.col("a")), and other functions of SQL',
    "list": 'eu.call("list_sum", eu.col("a")), and other functions of SQL',
    "suffix": '.alias("a_new")',
    "prefix": '.alias("new_a")',
    "substr": 'eu.call("substr", eu.col("a"), 1, 3)',
    "then": _CASE,
    "unique": "rows.distinct()",
    "value_counts": 'rows.group_by("a").agg(n="count()")',
    "when": _CASE,
    "std": 'eu.call("stddev", eu.col("a"))',
} | {
    name: f'eu.call("{name}", eu.col("a"))'
    for name in (
        *("abs", "ceil", "exp", "first", "floor", "last", "length", "log", "lower", "median"),
        *("replace", "round", "sqrt", "trim", "upper", "variance"),
    )
}
"""Methods of an expression."""
_CHAIN = (
    'eu.query(…) for methods, or place modules: flow.chain(eu.scan("a.csv"), eu.filter("n > 3"))'
)
_COLLECTED = "flow.chain(…, eu.collect()), and flow.go().collected()"
FLOWS = {
    "add": ".place(module)",
    "add_edge": ".attach(a, b)",
    "add_module": ".place(module)",
    "add_node": ".place(module)",
    "add_task": ".place(module)",
    "cancel": ".start(), and .cancel() of what it returns",
    "collect": _COLLECTED,
    "compile": ".explain()",
    "compute": ".go()",
    "connect": ".attach(a, b)",
    "edges": ".explain(), or .to_json()",
    "execute": ".go()",
    "fetch": _COLLECTED,
    "graph": ".draw()",
    "link": ".attach(a, b)",
    "modules": ".explain(), or .to_json()",
    "nodes": ".explain(), or .to_json()",
    "parallelism": ".place(module, count=4)",
    "pipe": ".chain(a, b)",
    "plot": ".draw()",
    "progress": ".start(), and .progress() of what it returns",
    "register": ".place(module)",
    "render": ".draw()",
    "result": _COLLECTED,
    "run": ".go()",
    "show": ".draw(), or in a notebook eu.studio(flow)",
    "sink": 'flow.chain(…, eu.save("rows.parquet"))',
    "source": 'flow.chain(eu.scan("a.csv"), …)',
    "stats": "print(flow.go())",
    "stop": ".start(), and .cancel() of what it returns",
    "stream": ".chain(a, b)",
    "submit": ".start()",
    "to_yaml": ".to_json()",
    "validate": ".check()",
    "visualize": ".draw()",
    "wait": ".start(), and .wait() of what it returns",
}
"""Methods of a flow."""
_ENDINGS = {"feather": "arrow", "ipc": "arrow", "ndjson": "json"} | {
    name: name for name in ("csv", "json", "parquet")
}
_WRITES = ("to_", "write_", "sink_", "save_")
_TABLES = {
    "query": METHODS,
    "group": GROUPED,
    "expression": EXPRESSIONS,
    "flow": FLOWS,
    **RUNS,
}


def method(kind: str, name: str) -> str | None:
    """What to write for a method that objects of other libraries have, by the kind of object."""
    instead = _TABLES[kind].get(name)
    if instead is None and kind == "query" and name.startswith(_WRITES):
        word = name.partition("_")[2]
        if word in ("delta", "iceberg"):
            return f'.save_{word}("sales")'
        ending = _ENDINGS.get(word)
        return f'.save("rows.{ending}")' if ending else f".to_pandas() and its {name}, or {_SAVE}"
    if instead is None and kind == "flow" and name.startswith(_WRITES):
        return f'{_COLLECTED}, or flow.chain(…, eu.save("rows.parquet"))'
    if instead is None and kind in RUNS and kind != "cluster":
        return of_rows(kind, name)
    is_of_rows = kind == "flow" and (name in METHODS or name in _OWN)
    return _CHAIN if instead is None and is_of_rows else instead


def remedy(instead: str) -> str:
    """The remedy that an entry is."""
    _, is_needless, reason = instead.partition("nothing: ")
    return f"leave it out: {reason}" if is_needless else f"write {instead}"


def function_of_sql(kind: str, name: str) -> str | None:
    """What to write for a name that is a function of SQL."""
    from .. import _euphrates

    functions = _euphrates.sql_functions()
    if kind == "expression" and name in [*functions["scalar"], *functions["aggregate"]]:
        return f'eu.call("{name}", eu.col("a"))'
    if kind == "query" and name in functions["aggregate"]:
        return f'.sql("select {name}(a) as value from self"), or .group_by(…).agg(…)'
    if kind == "query" and name in functions["window"]:
        return f'.window("city", order_by="day", value="{name}()")'
    return None


def anything(kind: str, name: str) -> str | None:
    """The ways to compute something that no method does."""
    if kind == "query":
        return (
            f'write eu.col("{name}") for a column, SQL, .sql("select … from self"), a function, '
            ".then(eu.map(function)), or .to_pandas() for its methods"
        )
    if kind == "expression":
        return 'write eu.call("lower", eu.col("a")) for a function of SQL, or SQL in a text'
    if kind == "group":
        from ..queries import Query

        values = '.agg(total="sum(a)")'
        return f"write {values}.{name}" if hasattr(Query, name) else f"write {values}"
    return None
