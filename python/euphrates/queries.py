"""Queries: flows that are written as SQL, or as a chain of methods."""

from __future__ import annotations

from . import _euphrates
from ._lakes.sinks import LakeSinks
from ._options import suggestion
from ._other_names.answers import OtherNames, keys_of
from ._user_code.placed import Placed
from ._user_code.reshaped import Reshaped
from .errors import UsageError
from .expressions import (
    Expression,
    all_named,
    flat,
    listed,
    named,
    names_of,
    text_of,
    unnamed,
    with_names,
)
from .flow import Flow
from .modules import ModuleCall

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Any, Literal, TypeAlias

    from ._euphrates import Batch, Schema, Table
    from ._user_code.module_calls import Placeable
    from ._user_code.query_tables import Rows
    from .explanation import Explanation
    from .expressions import Names
    from .report import Report

    How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]

__all__ = ["Grouped", "Query"]


class Query(LakeSinks, Reshaped):
    """A lazily evaluated table: methods extend its flow, and methods that return rows run it.

    A query does not change: each method returns a new one. Conditions and values are SQL
    expressions, as text or as `eu.col("price") * 2`.

    >>> orders = eu.query({"city": ["Ur", "Kish", "Ur"], "price": [2, 3, 5]})
    >>> totals = orders.group_by("city").agg(total="sum(price)").sort("total desc")
    >>> totals.collect().to_pydict()
    {'city': ['Ur', 'Kish'], 'total': [7, 3]}
    >>> totals.flow
    <flow 'query': from_arrow_1 aggregate_1 sort_1>
    """

    def __init__(self, flow: Flow) -> None:
        if not isinstance(flow, Flow):
            raise UsageError("a Query cannot be made directly", remedy="write eu.query(…)")
        if not flow._document["modules"]:
            raise UsageError("the flow has no modules", remedy="place one")
        self._flow = flow

    # Building

    def filter(self, *conditions: str | Expression) -> Query:
        """Keeps the rows for which all conditions are true.

        >>> numbers = eu.query({"n": [1, 2, 3, 4]})
        >>> numbers.filter("n > 1", eu.col("n") < 4).collect().to_pydict()
        {'n': [2, 3]}
        """
        texts = listed("filter", conditions)
        both = texts[0] if len(texts) == 1 else " and ".join(f"({text})" for text in texts)
        return self._then("filter", {"where": both})

    def select(self, *columns: Names, **computed: str | Expression) -> Query:
        """Selects columns, in this order: names, expressions with names, `*`.

        >>> orders = eu.query({"price": [2, 3], "n": [4, 1]})
        >>> orders.select("n", revenue="price * n").collect().to_pydict()
        {'n': [4, 1], 'revenue': [8, 3]}
        """
        texts = map(text_of, flat(columns))
        return self._project([*texts, *with_names(computed)])

    def with_columns(self, *columns: Names, **computed: str | Expression) -> Query:
        """Adds columns, or replaces those of the same name. Expressions have an `alias`, or `as` in
        text. Windows are those of SQL: `r="row_number() over (order by n)"`.

        >>> eu.query({"n": [1, 2]}).with_columns("n + 1 as m", half=eu.col("n") / 2.0).to_pydict()
        {'n': [1, 2], 'm': [2, 3], 'half': [0.5, 1.0]}
        """
        computed = all_named("with_columns", columns, computed)
        names = self.columns
        kept = [named(computed.get(name, Expression.column(name)), name) for name in names]
        added = {name: value for name, value in computed.items() if name not in names}
        return self._project([*kept, *with_names(added)])

    def drop(self, *names: str | Sequence[str]) -> Query:
        """Removes columns.

        >>> eu.query({"a": [1], "b": [2]}).drop("a").columns
        ['b']
        """
        dropped = names_of("drop", flat(names))
        self._check(dropped)
        kept = [name for name in self.columns if name not in dropped]
        return self.select(*map(Expression.column, kept))

    def rename(self, names: Mapping[str, str]) -> Query:
        """Renames columns: a dict from old to new names.

        >>> eu.query({"a": [1], "b": [2]}).rename({"a": "x"}).columns
        ['x', 'b']
        """
        if not isinstance(names, dict):
            error = f"rename() has {names!r}, which is not a dict"
            raise UsageError(error, remedy='write .rename({"old": "new"})')
        self._check(names)
        columns = [named(Expression.column(name), names.get(name, name)) for name in self.columns]
        return self._then("project", {"columns": columns})

    def join(
        self,
        other: Rows,
        on: str | Sequence[str | tuple[str, str]],
        *,
        how: How = "inner",
        where: str | Expression | None = None,
        suffix: str | None = None,
    ) -> Query:
        """Joins rows with equal keys; outer joins also keep rows without a match.

        `on` are columns that both have, or pairs of a left and a right name. `where` is a further
        condition. `suffix` is appended to names of right columns that exist on the left.

        >>> orders = eu.query({"city": ["Ur", "Kish"], "price": [2, 3]})
        >>> cities = {"name": ["Ur"], "founded": [-3800]}
        >>> orders.join(cities, [("city", "name")]).collect().to_pydict()
        {'city': ['Ur'], 'price': [2], 'founded': [-3800]}
        """
        config: dict[str, Any] = {"on": keys_of(on, how)}
        if how != "inner":
            config["how"] = how
        if where is not None:
            config["where"] = text_of(where)
        if suffix is not None:
            config["suffix"] = suffix
        from ._user_code.query_tables import query

        flow = copy_of(self._flow)
        left, right = Placed(flow, self._last), flow.place(query(other))
        joined = flow.place(ModuleCall("join", config))
        flow.attach(left, joined, input="left")
        flow.attach(right, joined, input="right")
        return Query(flow)

    def group_by(self, *keys: Names) -> Grouped:
        """Groups rows by keys: columns, or expressions with names. Without keys, all
        rows are one group.

        >>> orders = eu.query({"city": ["Ur", "Kish", "Ur"], "price": [2, 3, 5]})
        >>> orders.group_by("city").agg(most="max(price)", rows="count()").sort("city").to_pydict()
        {'city': ['Kish', 'Ur'], 'most': [3, 5], 'rows': [1, 2]}
        """
        return Grouped(self, keys)

    def distinct(self) -> Query:
        """Removes duplicate rows.

        >>> eu.query({"n": [1, 2, 1]}).distinct().sort("n").to_pydict()
        {'n': [1, 2]}
        """
        return self._then("aggregate", {"by": self.columns})

    def limit(self, rows: int, *, offset: int = 0) -> Query:
        """Keeps the first rows after `offset`. After a `sort`, it is a top-*n* within the sort.

        >>> eu.query({"n": [1, 3, 2]}).sort("n").limit(1, offset=1).to_pydict()
        {'n': [2]}
        """
        config = {"rows": rows}
        if offset:
            config["offset"] = offset
        return self._then("limit", config)

    def union(self, *others: Rows) -> Query:
        """Concatenates rows (SQL's `union all`). Columns must be in the same order.

        >>> eu.query({"n": [1]}).union({"n": [3]}, {"n": [2]}).sort("n").to_pydict()
        {'n': [1, 2, 3]}
        """
        from ._user_code.query_tables import query

        flow = copy_of(self._flow)
        inputs = [Placed(flow, self._last), *(flow.place(query(other)) for other in others)]
        all_rows = flow.place(ModuleCall("union", {}))
        for one in inputs:
            flow.attach(one, all_rows)
        return Query(flow)

    def sql(self, query: str, **tables: Rows) -> Query:
        """An SQL query over these rows, which are the table `self`.

        >>> eu.query({"n": [1, 2, 3]}).sql("select sum(n) as s from self where n > 1").to_pydict()
        {'s': [5]}
        """
        from ._user_code.query_tables import sql

        return sql(query, self=self, **tables)

    def then(self, *modules: Placeable) -> Query:
        """The rows behind further modules: `eu.map(function)`, a function over batches, an object
        of a module class.

        >>> eu.query({"n": [1, 2, 3]}).then(lambda batch: batch.slice(0, 2)).to_pydict()
        {'n': [1, 2]}
        """
        flow = copy_of(self._flow)
        flow.chain(Placed(flow, self._last), *modules)
        return Query(flow)

    # Looking

    @property
    def flow(self) -> Flow:
        """The flow so far, which can be drawn, saved and changed. The rows are on the output of its
        last module, which is not attached. A query can also be placed in another flow.

        >>> big = eu.query({"n": [1, 2]}).filter("n > 1")
        >>> big.flow
        <flow 'query': from_arrow_1 filter_1>
        >>> flow = eu.Flow()
        >>> _ = flow.chain(big, eu.count(), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'count': [1]}
        """
        return copy_of(self._flow)

    @property
    def schema(self) -> Schema:
        """Names and types of the columns. Reads the schemas of files.

        >>> eu.query({"n": [1, 2]}).schema.types
        ['Int64']
        """
        return _euphrates.columns(self._flow._json(), "{}")

    @property
    def columns(self) -> list[str]:
        """The names of the columns.

        >>> eu.query({"n": [1, 2]}).select("n", twice="n * 2").columns
        ['n', 'twice']
        """
        return self.schema.names

    def explain(self, **options: Any) -> Explanation:
        """The plan of the flow, and the columns and conditions pushed down to its sources.

        >>> plan = eu.query({"n": [1, 2]}).filter("n > 1").explain()
        >>> [module["module"] for module in plan.data["modules"]]
        ['from_arrow', 'filter', 'collect']
        """
        return self._complete(ModuleCall("collect", {})).explain(**options)

    def draw(self, format: Literal["svg", "mermaid", "dot"] = "svg") -> str:
        """A picture of the flow.

        >>> eu.query({"n": [1, 2]}).limit(1).draw("mermaid").splitlines()[0]
        'flowchart LR'
        """
        return self._flow.draw(format)

    def _repr_html_(self) -> str:
        return self.draw()

    def __repr__(self) -> str:
        return f"<query {' '.join(node['id'] for node in self._flow._document['modules'])}>"

    # Running

    def collect(self, **options: Any) -> Table:
        """Runs the flow, and returns its rows. The options are those of `Flow.go`: `memory`,
        `cores`, `cluster`, `progress` and others.

        >>> eu.query({"n": [1, 2]}).filter("n > 1").collect(cores=1).num_rows
        1
        """
        return self._complete(ModuleCall("collect", {})).go(**options).collected()

    def to_pydict(self, **options: Any) -> dict[str, list[Any]]:
        """The rows as a dict of columns.

        >>> eu.query({"n": [1, 2]}).to_pydict()
        {'n': [1, 2]}
        """
        return self.collect(**options).to_pydict()

    def to_pylist(self, **options: Any) -> list[dict[str, Any]]:
        """The rows as dicts.

        >>> eu.query({"n": [1, 2]}).to_pylist()
        [{'n': 1}, {'n': 2}]
        """
        return self.collect(**options).to_pylist()

    def to_polars(self, **options: Any) -> Any:
        """The rows as a Polars data frame.

        >>> eu.query({"n": [1, 2]}).to_polars().shape
        (2, 1)
        """
        return self.collect(**options).to_polars()

    def to_pandas(self, **options: Any) -> Any:
        """The rows as a pandas data frame. Integers beside nulls are exact: `Int64`.

        >>> eu.query({"n": [1, None]}).to_pandas().dtypes.to_dict()
        {'n': Int64Dtype()}
        """
        from ._user_code.rows import frame_of

        return frame_of(self.collect(**options))

    def to_pyarrow(self, **options: Any) -> Any:
        """The rows as a pyarrow table.

        >>> eu.query({"n": [1, 2]}).to_pyarrow().num_rows
        2
        """
        return self.collect(**options).to_pyarrow()

    def batches(self, **options: Any) -> Iterator[Batch]:
        """The rows in batches, while the flow runs; it waits for the consumer. Leaving the loop
        cancels it. The options are those of `Flow.start`.

        >>> big = eu.query(eu.generate("integers", rows=10**12))
        >>> for batch in big.batches():
        ...     break
        """
        from ._user_code.batch_stream import batches

        return batches(self._complete, options)

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def save(
        self,
        path: str | PathLike[str],
        *,
        format: str | None = None,
        compression: str | None = None,
        overwrite: bool = False,
        partition_by: str | Sequence[str] | None = None,
        **options: Any,
    ) -> Report:
        """Runs the flow, and writes its rows to a file, to a folder of files (`folder/`, or
        `partition_by`) or, with `@`, to a collection, which appears when it is whole. The other
        options are those of `save` (`delimiter`), `save_dataset` and `Flow.go`.

        >>> report = eu.query({"n": [2, 1]}).sort("n").save("n.parquet")
        >>> eu.query("n.parquet").to_pydict()
        {'n': [1, 2]}
        """
        from ._user_code.query_sinks import SINK_OPTIONS, check_options, sink_of

        given = {name: options.pop(name, None) for name in SINK_OPTIONS}
        check_options(self._flow, options)
        given |= {"format": format, "compression": compression, "overwrite": overwrite}
        sink = sink_of(path, given | {"partition_by": partition_by})
        return self._complete(sink).go(**options)

    # Inside

    @property
    def _last(self) -> str:
        return str(self._flow._document["modules"][-1]["id"])

    def _then(self, module: str, config: dict[str, Any]) -> Query:
        return self.then(ModuleCall(module, config))

    def _complete(self, sink: Placeable) -> Flow:
        """The flow with a sink."""
        from ._user_code.query_sinks import is_written

        if is_written(self._flow):
            raise UsageError(
                "the statement says where its rows go", remedy="run it by `.flow.go()`"
            )
        flow = copy_of(self._flow)
        flow.chain(Placed(flow, self._last), sink)
        return flow

    def _check(self, names: Sequence[str] | Mapping[str, Any]) -> None:
        known = self.columns
        for name in names:
            if name not in known:
                remedy = suggestion(name, known) or f"known: {', '.join(known)}"
                raise UsageError(f"no column named `{name}`", remedy=remedy)


class Grouped(OtherNames):
    """Grouped rows, on which `agg` computes aggregates.

    >>> grouped = eu.query({"city": ["Ur", "Ur"], "price": [2, 5]}).group_by("city")
    >>> grouped.agg(total=eu.col("price").sum()).to_pydict()
    {'city': ['Ur'], 'total': [7]}
    """

    _kind, _called = "group", "group_by()"

    def __init__(self, rows: Query, keys: Sequence[Names]) -> None:
        self._rows = rows
        self._keys = [str(key) for key in map(text_of, flat(keys))]

    def agg(self, *columns: Names, **values: str | Expression) -> Query:
        """One row for each group: its keys, and values: `total="sum(n)"`, `"sum(n) as total"`.

        >>> rows = eu.query({"price": [2, 5]})
        >>> rows.group_by().agg(span="max(price) - min(price)").to_pydict()
        {'span': [3]}
        """
        named_values = all_named("agg", columns, values)
        computed = [key for key in self._keys if not key.isidentifier()]
        names = self._rows.columns if computed else []
        if any(key not in names for key in computed):
            quoted = {key: named(Expression.column(key), key) for key in names}
            chosen = [*(quoted.get(key, key) for key in self._keys), *with_names(named_values)]
            by = ", ".join(str(number + 1) for number in range(len(self._keys)))
            return self._rows.sql(f"select {', '.join(chosen)} from self group by {by}")
        texts = {name: unnamed(value) for name, value in named_values.items()}
        config: dict[str, Any] = {"by": self._keys}
        if texts:
            config["values"] = texts
        return self._rows._then("aggregate", config)


def copy_of(flow: Flow) -> Flow:
    """A flow with the same modules, to which others can be added."""
    import copy

    other = Flow(flow.name)
    other._document = copy.deepcopy(flow._document)
    other._held, other._is_own = dict(flow._held), flow._is_own
    return other
