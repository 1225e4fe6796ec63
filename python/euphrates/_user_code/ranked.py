"""The methods of a query that order and rank rows: of all, or for each key."""

from __future__ import annotations

from .._feeding.query_methods import FeedingMethods
from .._other_names.answers import OtherNames
from ..errors import UsageError
from ..expressions import flat, listed, text_of, unnamed
from .streamed import Streamed

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..expressions import Expression
    from ..expressions import Names as Keys
    from ..queries import Query
    from .query_tables import Rows

    Names = str | Sequence[str]


class Ranked(Streamed, FeedingMethods, OtherNames):
    """The methods of a query that rank rows. It numbers the rows of each key in a window, which
    spills and runs on clusters; an aggregate per column would hold every value twice.
    """

    if TYPE_CHECKING:

        @property
        def columns(self) -> list[str]: ...

        def _then(self, module: str, config: dict[str, Any]) -> Query: ...

        def sql(self, query: str, **tables: Rows) -> Query: ...

    def sort(self, *by: Keys, descending: bool | Sequence[bool] = False) -> Query:
        """Sorts the rows by columns: `"price desc"`, `"city nulls first"`. `descending` is for all
        columns, or for each.

        >>> eu.query({"n": [1, 3, 2]}).sort("n desc").to_pydict()
        {'n': [3, 2, 1]}
        >>> rows = eu.query({"n": [1, 1, 2], "m": [1, 2, 3]})
        >>> rows.sort(["n", "m"], descending=[False, True]).to_pydict()["m"]
        [2, 1, 3]
        """
        keys = listed("sort", by)
        if signed := [key for key in keys if key[:1] == "-" and key[1:].isidentifier()]:
            remedy = f'write .sort("{signed[0][1:]} desc")'
            raise UsageError(f"sort() has `{signed[0]}`, which is no column", remedy=remedy)
        falling = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
        if len(falling) != len(keys):
            error = f"sort() has {len(keys)} columns, and `descending` {len(falling)} values"
            raise UsageError(error, remedy="give one for each column, or one for all")
        by_each = [f"{key} desc" if falls else key for key, falls in zip(keys, falling)]
        return self._then("sort", {"by": by_each})

    def window(
        self,
        partition_by: Keys,
        *,
        order_by: Keys = (),
        **values: str | Expression,
    ) -> Query:
        """All columns, and values that depend on other rows with the same `partition_by`: ranks,
        running sums.

        >>> sales = eu.query({"city": ["Ur", "Ur"], "day": [2, 1], "n": [5, 3]})
        >>> sales.window("city", order_by="day", total="sum(n)", r="row_number()").to_pydict()
        {'city': ['Ur', 'Ur'], 'day': [1, 2], 'n': [3, 5], 'total': [3, 8], 'r': [1, 2]}
        """
        parts = [text_of(key) for key in flat([partition_by])]
        texts = {name: unnamed(value) for name, value in values.items()}
        for name, text in texts.items():
            if _has_over(text):
                error = f"window() has `over` in {name}={text!r}, and says over what itself"
                raise UsageError(error, remedy=f'write .with_columns({name}="{text}")')
        config: dict[str, Any] = {"partition_by": parts, "values": texts}
        if by := [text_of(key) for key in flat([order_by])]:
            config["order_by"] = by
        return self._then("window", config)

    def latest(self, key: Names, by: Names) -> Query:
        """For each key, the row with the greatest `by`; of several, any one. Nulls are least.

        >>> prices = eu.query({"city": ["Ur", "Kish", "Ur"], "day": [1, 1, 2], "price": [5, 3, 4]})
        >>> prices.latest("city", by="day").sort("city").to_pydict()
        {'city': ['Kish', 'Ur'], 'day': [1, 2], 'price': [3, 4]}
        """
        return self.top(1, by=by, per=key)

    def top(self, rows: int, by: Names, *, per: Names = ()) -> Query:
        """The rows with the greatest `by`, in this order, or the smallest if it says `asc`. With
        `per`, as many for each value of these columns, in no order.

        >>> prices = eu.query({"city": ["Ur", "Kish", "Ur"], "price": [5, 3, 4]})
        >>> prices.top(2, by="price").to_pydict()
        {'city': ['Ur', 'Ur'], 'price': [5, 4]}
        >>> prices.top(1, by="price asc", per="city").sort("city").to_pydict()
        {'city': ['Kish', 'Ur'], 'price': [3, 4]}
        """
        keys = _listed(per)
        order = [_descending(one) for one in _listed(by)]
        if not order:
            raise UsageError("`by` names no column", remedy='write by="price"')
        if not keys:
            return self.sort(*order).limit(rows)
        number = "row_number"
        names = self.columns
        while number in names:
            number += "_"
        numbered = self.window(keys, order_by=order, **{number: "row_number()"})
        return numbered.filter(f'"{number}" <= {int(rows)}').select(
            *('"' + name.replace('"', '""') + '"' for name in names)
        )

    def _project(self, columns: list[str]) -> Query:
        """Columns of expressions; those with `over (…)` see other rows, and are planned as SQL."""
        if any(_has_over(text) for text in columns):
            return self.sql(f"select {', '.join(columns)} from self")
        return self._then("project", {"columns": columns})


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _descending(key: str) -> str:
    """A sort key whose greatest values come first, unless it says otherwise."""
    words = key.lower().split()
    if words[-1:] in (["asc"], ["desc"]):
        return f"{key} nulls last"
    if words[-2:-1] == ["nulls"]:
        return key
    return f"{key} desc nulls last"


def _has_over(text: str) -> bool:
    """Whether an expression has a window."""
    if "over" not in text.lower():
        return False
    import re

    # Not in a text or a quoted name.
    bare = re.sub(r"""'[^']*'|"[^"]*\"""", "''", text)
    return re.search(r"(?i)\)\s*over\s*\(", bare) is not None
