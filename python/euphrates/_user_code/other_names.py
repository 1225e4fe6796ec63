"""What other libraries call the methods of a query, and the functions of the package: an error for
such a name says what to write.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

_SAVE = '.save("rows.parquet")'
_SCAN = 'eu.scan("rows.csv")'
METHODS = {
    "agg": '.group_by().agg(n="count()")',
    "apply": ".then(eu.map(function))",
    "assign": '.with_columns(total="a + b")',
    "count": '.group_by().agg(n="count()")',
    "describe": ".summarize()",
    "df": ".to_pandas()",
    "drop_duplicates": '.distinct(), or .latest("id", by="day") for a row of each key',
    "explode": '.sql("select *, unnest(items) as item from self")',
    "fetchall": ".to_pylist()",
    "fill_null": '.with_columns(a="coalesce(a, 0)")',
    "fillna": '.with_columns(a="coalesce(a, 0)")',
    "glimpse": ".summarize()",
    "groupby": '.group_by("a")',
    "groupBy": '.group_by("a")',
    "head": ".limit(5)",
    "info": ".summarize()",
    "map": ".then(eu.map(function))",
    "map_batches": ".then(eu.map(function))",
    "merge": '.join(other, "id")',
    "mutate": '.with_columns(total="a + b")',
    "order": '.sort("price desc")',
    "order_by": '.sort("price desc")',
    "orderBy": '.sort("price desc")',
    "query": '.filter("price > 3"), or .sql("select … from self")',
    "show": "print(rows.limit(10).to_polars()), or .to_pandas() or .to_pylist()",
    "sort_values": '.sort("price desc")',
    "take": ".limit(5)",
    "unique": '.distinct(), or .latest("id", by="day") for a row of each key',
    "where": '.filter("price > 3")',
    "with_column": '.with_columns(total="a + b")',
    "withColumn": '.with_columns(total="a + b")',
    "write": _SAVE,
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
} | {"apply": ".sql, .window, or eu.partition(…, together=True) before a function"}


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

    _other_names = METHODS
    _called = "a query"

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            instead = None if name.startswith("_") else self._other_names.get(name)
            if instead is None and name.startswith(("to_", "write_", "sink_", "save_")):
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


def function(name: str) -> str | None:
    """What to write for a function that other libraries have, if this package does it otherwise."""
    if name.startswith(("read_", "scan_")) and name != "read_delta":
        return _SCAN
    if name.startswith(("from_", "DataFrame", "LazyFrame")):
        return "eu.query(rows): a dict of lists, or Arrow data, also of pandas and Polars"
    return 'eu.scan_delta("sales")' if name == "read_delta" else None
