"""What other libraries call the methods of a query, and the functions of the package: an error for
such a name says what to write.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Collection

_SAVE = '.save("rows.parquet")'
_SCAN = 'eu.scan("rows.csv")'
METHODS = {
    "add_column": '.with_columns(total="a + b")',
    "agg": '.group_by().agg(n="count()")',
    "aggregate": '.group_by().agg(n="count()")',
    "apply": ".then(eu.map(function))",
    "assign": '.with_columns(total="a + b")',
    "collect_schema": ".schema",
    "concat": ".union(other)",
    "count": '.group_by().agg(n="count()")',
    "describe": ".summarize()",
    "df": ".to_pandas()",
    "drop_duplicates": '.distinct(), or .latest("id", by="day") for a row of each key',
    "drop_columns": '.drop("a")',
    "drop_nulls": '.filter("a is not null")',
    "dropna": '.filter("a is not null")',
    "dtypes": ".schema",
    "explode": '.sql("select *, unnest(items) as item from self")',
    "extend": ".union(other)",
    "fetch": ".limit(5)",
    "fetchall": ".to_pylist()",
    "fill_null": '.with_columns(a="coalesce(a, 0)")',
    "fillna": '.with_columns(a="coalesce(a, 0)")',
    "first": ".limit(1)",
    "flat_map": ".then(eu.map(function))",
    "glimpse": ".summarize()",
    "groupby": '.group_by("a")',
    "groupBy": '.group_by("a")',
    "head": ".limit(5)",
    "height": '.group_by().agg(n="count()")',
    "info": ".summarize()",
    "lazy": "what follows: a query runs at .collect(), .save() and the like",
    "map": ".then(eu.map(function))",
    "map_batches": ".then(eu.map(function))",
    "max": '.group_by().agg(max="max(a)")',
    "mean": '.group_by().agg(mean="avg(a)")',
    "melt": '.unpivot(["a", "b"])',
    "merge": '.join(other, "id")',
    "min": '.group_by().agg(min="min(a)")',
    "mutate": '.with_columns(total="a + b")',
    "null_count": ".summarize()",
    "num_rows": '.group_by().agg(n="count()")',
    "order": '.sort("price desc")',
    "order_by": '.sort("price desc")',
    "orderBy": '.sort("price desc")',
    "query": '.filter("price > 3"), or .sql("select … from self")',
    "random_shuffle": ".shuffle(seed=1)",
    "repartition": "nothing: work is divided while the flow runs",
    "rolling": '.sql("select *, avg(n) over (order by day rows 6 preceding) as mean from self")',
    "sample": ".then(eu.sample(fraction=0.1))",
    "select_columns": '.select("a", "b")',
    "shape": '.columns, and .group_by().agg(n="count()")',
    "show": "print(rows.limit(10).to_polars()), or .to_pandas() or .to_pylist()",
    "sort_values": '.sort("price desc")',
    "take": ".limit(5)",
    "streaming_split": ".split(2)",
    "sum": '.group_by().agg(sum="sum(a)")',
    "tail": '.sort("day desc").limit(5)',
    "take_all": ".to_pylist()",
    "take_batch": ".limit(20)",
    "train_test_split": '.filter("hash(id) % 10 < 8"), and the contrary',
    "unique": '.distinct(), or .latest("id", by="day") for a row of each key',
    "vstack": ".union(other)",
    "where": '.filter("price > 3")',
    "width": "len(rows.columns)",
    "with_column": '.with_columns(total="a + b")',
    "with_row_index": '.sql("select *, row_number() over (order by day) as n from self")',
    "withColumn": '.with_columns(total="a + b")',
    "write": _SAVE,
    "zip": '.join(other, "id")',
}
GROUPED = {
    name: f'.agg({name}="{call}")'
    for name, call in {
        "count": "count()",
        "len": "count()",
        "max": "max(x)",
        "mean": "avg(x)",
        "median": "median(x)",
        "min": "min(x)",
        "size": "count()",
        "sum": "sum(x)",
    }.items()
} | dict.fromkeys(
    ("apply", "map_groups"), ".sql, .window, or eu.partition(…, together=True) before a function"
)


EXPRESSIONS = {
    "apply": "rows.then(eu.map(function))",
    "asc": '"price" in .sort(…)',
    "astype": '.cast("double")',
    "cum_sum": 'rows.window("city", order_by="day", total="sum(n)")',
    "desc": '"price desc" in .sort(…)',
    "diff": 'rows.window("city", order_by="day", before="lag(n)")',
    "fill_null": 'eu.call("coalesce", eu.col("a"), 0)',
    "fillna": 'eu.call("coalesce", eu.col("a"), 0)',
    "is_not_in": '~eu.col("a").is_in([1, 2])',
    "isin": ".is_in([1, 2])",
    "isnull": ".is_null()",
    "map_elements": "rows.then(eu.map(function))",
    "notnull": ".is_not_null()",
    "over": 'rows.window("city", total="sum(n)")',
    "shift": 'rows.window("city", order_by="day", before="lag(n)")',
    "sort": 'rows.sort("price desc")',
    "str": 'eu.call("upper", eu.col("a")), and other functions of SQL',
    "dt": 'eu.call("month", eu.col("a")), and other functions of SQL',
    "list": 'eu.call("list_sum", eu.col("a")), and other functions of SQL',
    "std": 'eu.call("stddev", eu.col("a"))',
} | {
    name: f'eu.call("{name}", eu.col("a"))'
    for name in (
        *("abs", "ceil", "exp", "first", "floor", "last", "length", "log", "lower", "median"),
        *("replace", "round", "sqrt", "trim", "upper", "variance"),
    )
}
"""What expressions of other libraries have, and ours do not."""
_FUNCTIONS = {
    "concat": "rows.union(other)",
    "len": '"count()"',
    "max": 'eu.col("n").max()',
    "mean": 'eu.col("n").mean()',
    "min": 'eu.col("n").min()',
    "range": 'eu.generate("integers", rows=10)',
    "sum": 'eu.col("n").sum()',
    "when": '"case when n > 1 then 1 else 0 end"',
}
"""What to write for functions of other libraries."""
_WRITES = ("to_", "write_", "sink_", "save_")
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


class OtherNames:
    """A class whose errors for unknown attributes say what to write for names of other libraries.

    >>> eu.query({"n": [1]}).head(3)
    Traceback (most recent call last):
    AttributeError: a query has no `head`; write .limit(5)
    """

    __slots__ = ()
    _other_names = METHODS
    _called = "a query"

    if not TYPE_CHECKING:

        def __getitem__(self, key):
            instead = '.select("a"), .filter("a > 1") or .limit(5)'
            if self._other_names is EXPRESSIONS:
                instead = 'eu.call("list_extract", eu.col("a"), 1), or "a.field" of a struct'
            raise TypeError(f"{self._called} has no `[{key!r}]`; write {instead}")

        def __getattr__(self, name):
            instead = None if name.startswith("_") else self._other_names.get(name)
            is_query = self._other_names is METHODS
            if instead is None and is_query and name.startswith(_WRITES):
                instead = _SAVE
            if instead is None and not name.startswith("_"):
                from .._options import suggestion

                near = suggestion(name, [one for one in dir(self) if not one.startswith("_")])
                if near is None:
                    raise AttributeError(f"{self._called} has no `{name}`", name=None)
                raise AttributeError(f"{self._called} has no `{name}`; {near}", name=None)
            if instead is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(f"{self._called} has no `{name}`; write {instead}", name=None)


def join_kind(how: str) -> str:
    """The kind of a join; an error for another library's name says ours."""
    from ..errors import UsageError

    remedy = f'write how="{JOINS[how]}"' if how in JOINS else None
    if how == "cross":
        remedy = 'write .sql("select * from self cross join t", t=other)'
    elif how == "asof":
        remedy = 'write .join_asof(other, "time")'
    if remedy is not None:
        raise UsageError(f"no join is called `{how}`", remedy=remedy)
    return how


OPTIONS = {
    "batch_size": "rows_per_call",
    "comment_prefix": "comment",
    "delim": "delimiter",
    "dtype": "types",
    "dtypes": "types",
    "fn_args": "arguments",
    "fn_constructor_args": "args",
    "fn_constructor_kwargs": "kwargs",
    "fn_kwargs": "arguments",
    "has_header": "header",
    "hive_partitioning": "hive",
    "ignore_errors": 'on_error="skip"',
    "na_values": "null_values",
    "nullstr": "null_values",
    "quote_char": "quote",
    "quotechar": "quote",
    "schema_overrides": "types",
    "sep": "delimiter",
    "separator": "delimiter",
    "skip": "skip_rows",
    "skiprows": "skip_rows",
    "usecols": "columns",
}
"""What other libraries call options of modules."""


def option(name: str, known: Collection[str]) -> str | None:
    """What to write for another library's option, if the module has it under another name."""
    instead = OPTIONS.get(name)
    return f"write {instead}" if instead and instead.partition("=")[0] in known else None


def function(name: str) -> str | None:
    """What to write for a function that other libraries have, if this package does it otherwise."""
    if name.startswith(("read_", "scan_")) and name != "read_delta":
        return _SCAN
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name.startswith(("from_", "DataFrame", "LazyFrame")):
        return "eu.query(rows): a dict of lists, a list of dicts, or a frame of pandas or Polars"
    return 'eu.scan_delta("sales")' if name == "read_delta" else None
