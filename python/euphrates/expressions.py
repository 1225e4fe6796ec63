"""Expressions built of Python operators; each is the text of an SQL expression."""

from __future__ import annotations

from ._other_names.answers import OtherNames, answering
from ._other_names.values import (
    compared_with_nothing,
    no_expression,
    without_name,
    without_parentheses,
)
from .errors import UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeAlias

    Names: TypeAlias = "str | Expression | Sequence[str | Expression]"

__all__ = ["Expression", "call", "col", "lit"]


class Expression(OtherNames):
    """An SQL expression. Operators combine it with others, with numbers, text and dates.

    >>> revenue = eu.col("price") * (1 - eu.col("discount"))
    >>> revenue
    <price * (1 - discount)>
    >>> (revenue > 100) & eu.col("city").is_in(["Ur", "Kish"])
    <((price * (1 - discount)) > 100) AND (city IN ('Ur', 'Kish'))>
    """

    __slots__ = ("_is_atom", "name", "text")
    __hash__ = None  # type: ignore[assignment]
    _kind, _called = "expression", "an expression"

    def __init__(self, text: str, *, name: str | None = None, is_atom: bool = False) -> None:
        self.text = text
        self.name = name
        self._is_atom = is_atom

    @staticmethod
    def column(name: str) -> Expression:
        """A column.

        >>> eu.col("total price")
        <"total price">
        """
        return Expression(_identifier(name), is_atom=True)

    def alias(self, name: str) -> Expression:
        """The expression under a name, for `select`.

        >>> (eu.col("a") + 1).alias("b")
        <a + 1 AS b>
        """
        _identifier(name)  # refuses what is no name
        return Expression(self.text, name=name, is_atom=self._is_atom)

    def cast(self, data_type: str | type) -> Expression:
        """The value in another type: `"double"`, `"decimal(10, 2)"`, `"timestamp"`, `int`.

        >>> eu.col("a").cast("double")
        <CAST(a AS double)>
        """
        from ._config import type_name

        return Expression(f"CAST({self.text} AS {type_name(data_type)})", is_atom=True)

    def is_null(self) -> Expression:
        """Whether there is no value.

        >>> eu.query({"a": [1, None]}).filter(eu.col("a").is_null()).to_pydict()
        {'a': [None]}
        """
        return Expression(f"{self._operand()} IS NULL")

    def is_not_null(self) -> Expression:
        """Whether there is a value.

        >>> eu.query({"a": [1, None]}).filter(eu.col("a").is_not_null()).to_pydict()
        {'a': [1]}
        """
        return Expression(f"{self._operand()} IS NOT NULL")

    def is_in(self, values: Iterable[Any]) -> Expression:
        """Whether the value is one of these.

        >>> eu.col("a").is_in([1, 2])
        <a IN (1, 2)>
        """
        if isinstance(values, str | int | float | Expression):
            raise UsageError(
                f"{values!r} is not a list of values",
                remedy="write .is_in([1, 2]), or a condition in SQL for the values of a table",
            )
        texts = [_operand(value) for value in values]
        return Expression(f"{self._operand()} IN ({', '.join(texts)})") if texts else lit(False)

    def between(self, low: Any, high: Any) -> Expression:
        """Whether the value is from `low` to `high`, both included.

        >>> eu.col("a").between(1, 2)
        <a BETWEEN 1 AND 2>
        """
        return Expression(f"{self._operand()} BETWEEN {_operand(low)} AND {_operand(high)}")

    def like(self, pattern: str) -> Expression:
        """Whether the text has a pattern, in which `%` is any text and `_` any character.

        >>> eu.col("a").like("U%")
        <a LIKE 'U%'>
        """
        return Expression(f"{self._operand()} LIKE {_operand(pattern)}")

    def sum(self) -> Expression:
        """The sum of a group.

        >>> eu.query({"n": [1, 2]}).group_by().agg(s=eu.col("n").sum()).to_pydict()
        {'s': [3]}
        """
        return call("sum", self)

    def min(self) -> Expression:
        """The least value of a group.

        >>> eu.col("n").min()
        <min(n)>
        """
        return call("min", self)

    def max(self) -> Expression:
        """The greatest value of a group.

        >>> eu.col("n").max()
        <max(n)>
        """
        return call("max", self)

    def mean(self) -> Expression:
        """The mean of a group.

        >>> eu.col("n").mean()
        <avg(n)>
        """
        return call("avg", self)

    def count(self) -> Expression:
        """The number of values of a group.

        >>> eu.col("n").count()
        <count(n)>
        """
        return call("count", self)

    def n_unique(self) -> Expression:
        """The number of different values of a group.

        >>> eu.col("n").n_unique()
        <count(distinct n)>
        """
        return Expression(f"count(distinct {self.text})", is_atom=True)

    def __add__(self, other: Any) -> Expression:
        return self._with("+", other)

    def __radd__(self, other: Any) -> Expression:
        return _of(other)._with("+", self)

    def __sub__(self, other: Any) -> Expression:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Expression:
        return _of(other)._with("-", self)

    def __mul__(self, other: Any) -> Expression:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Expression:
        return _of(other)._with("*", self)

    def __truediv__(self, other: Any) -> Expression:
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _of(other)._with("/", self)

    def __mod__(self, other: Any) -> Expression:
        return self._with("%", other)

    def __floordiv__(self, other: Any) -> Expression:
        return self._with("//", other)

    def __pow__(self, exponent: Any) -> Expression:
        return call("power", self, exponent)

    def __rpow__(self, base: Any) -> Expression:
        return call("power", base, self)

    def __rmod__(self, other: Any) -> Expression:
        return _of(other)._with("%", self)

    def __rfloordiv__(self, other: Any) -> Expression:
        return _of(other)._with("//", self)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return call("abs", self)

    def __round__(self, digits: int = 0) -> Expression:
        return call("round", self, digits)

    def __neg__(self) -> Expression:
        return Expression(f"-{self._operand()}")

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        if other is None:
            raise compared_with_nothing(self.text, "is_null")
        return self._with("=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        if other is None:
            raise compared_with_nothing(self.text, "is_not_null")
        return self._with("<>", other)

    def __lt__(self, other: Any) -> Expression:
        return self._with("<", other)

    def __le__(self, other: Any) -> Expression:
        return self._with("<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._with(">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._with(">=", other)

    def __and__(self, other: Any) -> Expression:
        return self._with("AND", other)

    def __or__(self, other: Any) -> Expression:
        return self._with("OR", other)

    def __rand__(self, other: Any) -> Expression:
        raise without_parentheses(f"{other!r} & {self.text}")

    def __ror__(self, other: Any) -> Expression:
        raise without_parentheses(f"{other!r} | {self.text}")

    def __invert__(self) -> Expression:
        return Expression(f"NOT {self._operand()}")

    def __bool__(self) -> bool:
        raise UsageError(
            f"`{self.text}` is not true or false before the flow runs",
            remedy="write & for and, | for or, ~ for not, and .between(a, b) for a <= x <= b",
        )

    def __repr__(self) -> str:
        return f"<{text_of(self)}>"

    def _operand(self) -> str:
        return self.text if self._is_atom else f"({self.text})"

    def _with(self, operator: str, other: Any) -> Expression:
        return Expression(f"{self._operand()} {operator} {_operand(other)}")


@answering
def col(name: str) -> Expression:
    """A column of a query.

    >>> eu.query({"n": [1, 2, 3]}).filter(eu.col("n") >= 2).to_pydict()
    {'n': [2, 3]}
    """
    if not isinstance(name, str):
        error = f"eu.col() has {name!r}, which is not a name"
        raise UsageError(error, remedy='give the name of one column: eu.col("price")')
    return Expression.column(name)


@answering
def lit(value: Any) -> Expression:
    """A constant: a number, text, a date, a timestamp, `True`, `None`.

    >>> import datetime
    >>> eu.lit("it's"), eu.lit(datetime.date(2026, 1, 31)), eu.lit(None)
    (<'it''s'>, <date '2026-01-31'>, <NULL>)
    """
    return _of(value)


@answering
def call(function: str, *arguments: Any) -> Expression:
    """A call of an SQL function.

    >>> eu.call("substr", eu.col("name"), 1, 3)
    <substr(name, 1, 3)>
    """
    if not isinstance(function, str) or not function or "(" in function:
        error = f"{function!r} is not the name of a function"
        remedy = 'give the name and the arguments: eu.call("upper", eu.col("city"))'
        raise UsageError(error, remedy=remedy)
    texts = [_of(argument).text for argument in arguments]
    return Expression(f"{function}({', '.join(texts)})", is_atom=True)


def text_of(value: str | Expression) -> str:
    """The SQL of a text or an expression, with its name."""
    if isinstance(value, str):
        return value
    if isinstance(value, Expression):
        return value.text if value.name is None else named(value, value.name)
    raise no_expression(value)


def unnamed(value: str | Expression) -> str:
    """The SQL of a text or an expression, without its name."""
    return value.text if isinstance(value, Expression) else text_of(value)


def named(value: str | Expression, name: str) -> str:
    """The SQL of an expression under a name."""
    text, identifier = unnamed(value), _identifier(name)
    return text if text == identifier else f"{text} AS {identifier}"


def all_named(
    what: str, columns: Iterable[Names], computed: Mapping[str, str | Expression]
) -> dict[str, str | Expression]:
    """The values of a method by name: arguments by keyword, and expressions with a name."""
    values: dict[str, str | Expression] = {}
    for value in flat(columns):
        if isinstance(value, Expression) and value.name is not None:
            values[value.name] = value
        elif isinstance(value, str) and (alias := _alias(value)):
            text, name = alias
            values[name] = text
        else:
            raise without_name(what, value)
    return {**values, **computed}


def _alias(text: str) -> tuple[str, str] | None:
    """The parts of `price * n as total`."""
    import re

    found = re.fullmatch(r"(?is)(.+?)\s+as\s+(\w+|\"(?:[^\"]|\"\")+\")\s*", text)
    if found is None:
        return None
    name = found[2]
    return found[1], name[1:-1].replace('""', '"') if name.startswith('"') else name


def with_names(values: Mapping[str, str | Expression]) -> list[str]:
    return [named(value, name) for name, value in values.items()]


def flat(values: Iterable[Names]) -> list[str | Expression]:
    """The arguments of a method, which may be lists of them."""
    found: list[str | Expression] = []
    for value in values:
        found += value if isinstance(value, list | tuple) else [value]  # type: ignore[list-item]
    return found


def names_of(what: str, values: Iterable[str | Expression]) -> list[str]:
    """The arguments of a method that takes names of columns."""
    names = [*values]
    for name in names:
        if not isinstance(name, str):
            raise UsageError(
                f"{what}() has {name!r}, which is not a name", remedy=f'write .{what}("price")'
            )
    return names  # type: ignore[return-value]


def listed(what: str, values: Iterable[Names]) -> list[str]:
    """The texts of the arguments of a method, which has some."""
    texts = [text_of(value) for value in flat(values)]
    if not texts:
        example = "price desc" if what == "sort" else "price > 3"
        raise UsageError(f"{what}() has no arguments", remedy=f'write .{what}("{example}")')
    return texts


def _identifier(name: str) -> str:
    if not isinstance(name, str):
        raise UsageError(f"{name!r} is not the name of a column", remedy='give text, "price"')
    is_plain = name.isascii() and name.isidentifier() and name.upper() not in _RESERVED
    return name if is_plain else '"' + name.replace('"', '""') + '"'


_RESERVED = frozenset(
    (
        *("ALL", "AND", "ANY", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CROSS"),
        *("CURRENT_CATALOG", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER"),
        *("DESC", "DISTINCT", "ELSE", "END", "EXCEPT", "EXISTS", "FALSE", "FETCH", "FOR", "FROM"),
        *("FULL", "GROUP", "HAVING", "IN", "INNER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN"),
        *("LEFT", "LIKE", "LIMIT", "LOCALTIME", "LOCALTIMESTAMP", "NATURAL", "NOT", "NULL"),
        *("OFFSET", "ON", "OR", "ORDER", "OUTER", "RIGHT", "SELECT", "SESSION_USER", "SET"),
        *("STRUCT", "TABLE", "THEN", "TRIM", "TRUE", "UNION", "USER", "USING", "VALUES", "WHEN"),
        *("WHERE", "WINDOW", "WITH"),
    )
)
"""Words that mean something else in an expression."""


def _operand(value: Any) -> str:
    return _of(value)._operand()


def _of(value: Any) -> Expression:
    """A value as an expression."""
    import datetime
    import decimal

    if isinstance(value, Expression):
        return value
    if value is None or isinstance(value, bool):
        return Expression({None: "NULL", True: "TRUE", False: "FALSE"}[value], is_atom=True)
    if isinstance(value, int | float | decimal.Decimal):
        text = str(value) if isinstance(value, int | decimal.Decimal) else repr(value)
        if text in ("inf", "-inf", "nan"):
            return Expression(f"CAST('{text}' AS DOUBLE)", is_atom=True)
        return Expression(text, is_atom=not text.startswith("-"))
    if isinstance(value, str):
        return Expression("'" + value.replace("'", "''") + "'", is_atom=True)
    if isinstance(value, datetime.datetime):
        return Expression(f"timestamp '{value.isoformat(' ')}'", is_atom=True)
    if isinstance(value, datetime.date):
        return Expression(f"date '{value.isoformat()}'", is_atom=True)
    if isinstance(value, bytes):
        return Expression(f"X'{value.hex()}'", is_atom=True)
    if hasattr(value, "item"):
        return _of(value.item())  # a NumPy value
    raise UsageError(
        f"{value!r} is not a constant of SQL", remedy="give a number, text, a date or eu.col(…)"
    )
