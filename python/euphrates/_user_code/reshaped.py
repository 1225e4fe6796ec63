"""The methods of a query that turn rows into columns, columns into rows, that describe columns, and
that look up the last row before a time.
"""

from __future__ import annotations

from .ranked import Ranked

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal

    from .._euphrates import Schema
    from ..expressions import Expression
    from ..queries import Query
    from .query_tables import Rows


class Reshaped(Ranked):
    """The part of a query whose methods are written in SQL."""

    if TYPE_CHECKING:

        @property
        def columns(self) -> list[str]: ...

        @property
        def schema(self) -> Schema: ...

        def sql(self, query: str, **tables: Rows) -> Query: ...

    def pivot(
        self,
        on: str,
        values: Sequence[Any],
        *,
        by: str | Sequence[str] = (),
        **calls: str | Expression,
    ) -> Query:
        """A column for each of `values` of the column `on`: what one aggregate is of its rows, in
        groups `by` columns. Of several aggregates, the columns are called `value_name`.

        >>> sales = eu.query({"city": ["Ur", "Kish", "Ur"], "n": [1, 2, 3], "k": [0, 0, 0]})
        >>> sales.pivot("city", ["Ur", "Kish"], by="k", total="sum(n)").to_pydict()
        {'k': [0], 'Ur': [4], 'Kish': [2]}
        """
        from ..errors import UsageError
        from ..expressions import lit, text_of

        if not calls or not values or isinstance(values, str):
            raise UsageError(
                "pivot() needs a list of values and an aggregate",
                remedy='write `.pivot("city", ["Ur"], by="day", total="sum(n)")`',
            )
        keys = [quoted(key) for key in ([by] if isinstance(by, str) else by)]
        selected = list(keys)
        for value in values:
            for name, call in calls.items():
                shown = f"{value}" if len(calls) == 1 else f"{value}_{name}"
                where = f"{quoted(on)} = {text_of(lit(value))}" if value is not None else None
                where = where or f"{quoted(on)} is null"
                selected.append(f"{text_of(call)} filter (where {where}) as {quoted(shown)}")
        group = f" group by {', '.join(keys)}" if keys else ""
        return self.sql(f"select {', '.join(selected)} from self{group}")

    def unpivot(
        self,
        columns: str | Sequence[str],
        *,
        name: str = "name",
        value: str = "value",
        include_nulls: bool = False,
    ) -> Query:
        """A row for each of these columns of each row: with the other columns, the column's name,
        and its value. Rows of nulls are left out.

        >>> wide = eu.query({"id": [1], "a": [10], "b": [20]})
        >>> wide.unpivot(["a", "b"]).sort("name").to_pydict()
        {'id': [1, 1], 'name': ['a', 'b'], 'value': [10, 20]}
        """
        chosen = [columns] if isinstance(columns, str) else list(columns)
        nulls = " include nulls" if include_nulls else ""
        names = ", ".join(map(quoted, chosen))
        return self.sql(
            f"select * from self unpivot{nulls} ({quoted(value)} for {quoted(name)} in ({names}))"
        )

    def summarize(self) -> Query:
        """A row for each column, in one pass: name, type, least and greatest value as text, about
        how many values are distinct, number of rows, and percentage of nulls; of numbers also
        mean, standard deviation, and quartiles, which are estimates.

        >>> rows = eu.query({"city": ["Ur", "Kish", "Ur"], "price": [2, 3, None]})
        >>> rows.summarize().select("column_name", "min", "avg", "approx_unique").to_pylist()[1]
        {'column_name': 'price', 'min': '2', 'avg': 2.5, 'approx_unique': 2}
        """
        from .. import _euphrates

        return self.sql(_euphrates.sql_summary(self.schema))

    def join_asof(
        self,
        other: Rows,
        on: str | tuple[str, str],
        *,
        by: str | Sequence[str | tuple[str, str]] = (),
        how: Literal["left", "inner"] = "left",
        strategy: Literal["backward", "forward"] = "backward",
        allow_exact_matches: bool = True,
    ) -> Query:
        """Each row with the row of the other table whose `on` is nearest before it, or, `forward`,
        behind it; among rows with equal `by`. Names are columns of both, or pairs.

        >>> trades = eu.query({"t": [3, 7], "n": [10, 20]})
        >>> trades.join_asof({"t": [1, 5], "price": [1.5, 2.5]}, "t").sort("t").to_pydict()
        {'t': [3, 7], 'n': [10, 20], 't_right': [1, 5], 'price': [1.5, 2.5]}
        """
        from .query_tables import query

        right = query(other)
        keys = [pair(key) for key in ([by] if isinstance(by, str) else by)]
        mine, theirs = self.columns, right.columns
        selected = [f"l.{quoted(name)}" for name in mine]
        for name in theirs:
            if name not in [key for _, key in keys]:
                shown = f"{name}_right" if name in mine else name
                selected.append(f"r.{quoted(name)} as {quoted(shown)}")
        operator = (">" if strategy == "backward" else "<") + ("=" if allow_exact_matches else "")
        on_left, on_right = pair(on)
        conditions = [f"l.{quoted(mine)} = r.{quoted(its)}" for mine, its in keys]
        conditions.append(f"l.{quoted(on_left)} {operator} r.{quoted(on_right)}")
        kind = "asof left join" if how == "left" else "asof join"
        return self.sql(
            f"select {', '.join(selected)} from self as l {kind} asof_rows as r"
            f" on {' and '.join(conditions)}",
            asof_rows=right,
        )


def pair(key: str | tuple[str, str]) -> tuple[str, str]:
    """The left and the right name of a key."""
    return (key, key) if isinstance(key, str) else key


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
