"""Configurations written in Python, converted to the JSON of a flow document."""

from __future__ import annotations

import math
import os

from . import _euphrates
from ._user_code.references import Held, import_path
from .errors import UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


_PYTHON_TYPES = {
    "builtins.bool": "bool",
    "builtins.int": "int64",
    "builtins.float": "float64",
    "builtins.str": "string",
    "builtins.bytes": "binary",
    "datetime.date": "date",
    "datetime.datetime": "timestamp",
    "datetime.time": "time",
}
"""Names of column types by the Python type of their values."""

_BUILT_IN = {type(None), bool, int, float, str, list, tuple, dict}
"""Types of values that have a JSON form."""


class Var:
    """A value that is given when the flow is run: `eu.var("path", default="a.csv")`.

    >>> flow = eu.Flow()
    >>> integers = eu.generate("integers", rows=eu.var("rows", default=10))
    >>> _ = flow.chain(integers, eu.count(), eu.collect())
    >>> flow.go().collected().to_pylist(), flow.go(rows=7).collected().to_pylist()
    ([{'count': 10}], [{'count': 7}])
    """

    def __init__(self, name: str, *, default: Any = None, doc: str | None = None) -> None:
        if not isinstance(name, str):
            remedy = 'write eu.var("path", default="a.csv")'
            raise UsageError(f"{name!r} is not the name of a variable", remedy=remedy)
        self.name = name
        self.default = default
        self.doc = doc

    def __repr__(self) -> str:
        return f"eu.var({self.name!r})"


var = Var


class Gathered:
    """The variables and Python objects that a configuration needs from its flow."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.variables: list[Var] = []

    def hold(self, target: Any) -> Any:
        """A reference to a Python object."""
        if hasattr(target, "makes_module"):
            raise UsageError(
                f"eu.{target.__name__} is the function that makes a module, and not a module",
                remedy=f"call it: eu.{target.__name__}(…)",
            )
        path = import_path(target) if callable(target) else None
        if path is not None:
            return path
        entry = Held(target)
        self.held.append(entry)
        return entry.json

    def data(self, value: Any) -> Any:
        """A reference to a table; columns given as lists are converted to one."""
        if isinstance(value, os.PathLike):
            path = os.fspath(value)
            raise UsageError(f"{path!r} is not a table", remedy=f"write eu.scan({path!r})")
        if isinstance(value, Var | str):
            return self.json(value)
        from collections.abc import Mapping

        if isinstance(value, Mapping):
            if set(value) in ({"$live"}, {"$var"}):
                return self.json(value)
            value = _table(value)
        return self.hold(_frame(value))

    def types(self, value: Any) -> Any:
        """Types of columns by name, which may be objects of Python, Arrow, NumPy or Polars."""
        if isinstance(value, dict):
            value = {name: type_name(one) for name, one in value.items()}
        return self.json(value)

    def json(self, value: Any) -> Any:
        """A value as JSON; a value without a JSON form becomes a reference."""
        if type(value) not in _BUILT_IN:
            value = _built_in(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Var):
            self.variables.append(value)
            return {"$var": value.name}
        if isinstance(value, str):
            return _text(str(value))
        if isinstance(value, int):
            return _integer(int(value))
        if isinstance(value, float):
            return _float(float(value))
        if isinstance(value, dict):
            return {_key(key): self.json(member) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(member) for member in value]
        return self._other(value)

    def _other(self, value: Any) -> Any:
        if type(value).__module__ == "euphrates.expressions":
            from .expressions import text_of

            return text_of(value)
        speaks = {name for name in ("schema", "stream", "array") if _has(value, name)}
        if speaks == {"schema"}:
            return _euphrates.schema_words(value)
        if not speaks and not callable(value) and hasattr(value, "item"):
            return self.json(value.item())  # a NumPy number
        return self.hold(value)


def type_name(kind: Any) -> Any:
    """The name of a column type: of the Python type of its values, or as another library has it.

    >>> from euphrates._config import type_name
    >>> type_name(float), type_name("decimal(10, 2)")
    ('float64', 'decimal(10, 2)')
    """
    # The check refuses other values of JSON, which documents may have.
    if kind is None or isinstance(kind, str | Var | dict | list | bool | int | float):
        return kind
    of = kind if isinstance(kind, type) else type(kind)
    if isinstance(kind, type) and (name := f"{of.__module__}.{of.__qualname__}") in _PYTHON_TYPES:
        return _PYTHON_TYPES[name]
    library = of.__module__.partition(".")[0]
    if library == "numpy":
        import numpy

        return numpy.dtype(kind).name
    if library in ("pyarrow", "polars"):
        from importlib import import_module

        make = getattr(import_module(library), "schema" if library == "pyarrow" else "Schema")
        return _euphrates.schema_words(make({"column": kind}))["column"].replace("View", "")
    raise UsageError(
        f"{kind!r} is not the type of a column",
        remedy="name it: int64, float64, string, bool, date, timestamp, decimal(15, 2)",
    )


def _built_in(value: Any) -> Any:
    """A value of another type as one of a built-in type, if it has a JSON form."""
    if isinstance(value, Var):
        return value
    import datetime
    import enum
    from collections.abc import Mapping

    while isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, os.PathLike):
        return _text(os.fspath(value))
    if isinstance(value, Mapping):
        return dict(value)
    return value.isoformat() if isinstance(value, datetime.date) else value


def _table(columns: Mapping[Any, Any]) -> Any:
    """A table written into the document: a list for each column."""
    from collections.abc import Iterable, Mapping

    remedy = 'write a list for each column: {"id": [1, 2], "name": ["a", "b"]}'
    if not columns:
        raise UsageError("the dict has no columns", remedy=remedy)
    given: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            what = type(values).__name__
            raise UsageError(f"column {name!r} is of type {what}, not a list", remedy=remedy)
        given[_key(name)] = values if hasattr(values, "__getitem__") else list(values)
    rows = {name: len(values) for name, values in given.items()}
    if len(set(rows.values())) > 1:
        told = ", ".join(f"`{name}` {count}" for name, count in rows.items())
        raise UsageError(f"the columns have different numbers of rows: {told}", remedy=remedy)
    try:
        return _euphrates.table_of(given)
    except (UsageError, OverflowError, UnicodeEncodeError) as error:
        table = _pyarrow_table(given)
        if table is None and not isinstance(error, UsageError):
            names = ", ".join(f"`{name}`" for name in given)
            raise UsageError(f"a value of {names} is of no column type: {error}") from None
        if table is None:
            raise
        return table


def _pyarrow_table(columns: Mapping[str, Any]) -> Any:
    """The table that pyarrow makes of columns, which knows more types of values; `None` if it is
    not installed, or knows none for these.
    """
    try:
        import pyarrow as pa
    except ImportError:
        return None
    try:
        return pa.table(dict(columns))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError, ValueError):
        return None


def _frame(value: Any) -> Any:
    """A data frame whose Arrow stream has its columns and no more; other values as they are.

    An index of pandas without a name would be a column; one with a name is. A column of Polars
    that has only nulls is exported with a buffer, which the Arrow format does not have.
    """
    of = type(value)
    if of.__name__ != "DataFrame":
        return value
    library = of.__module__.partition(".")[0]
    if library == "polars" and "Null" in str(value.dtypes):
        return value.to_arrow()
    if library == "pandas" and None in value.index.names:
        import pandas as pd

        index = value.index
        unnamed = [at for at, name in enumerate(index.names) if name is None]
        is_all = len(unnamed) == index.nlevels
        value = value.copy(deep=False)
        value.index = pd.RangeIndex(len(value)) if is_all else index.droplevel(unnamed)
    return value


def _has(value: Any, name: str) -> bool:
    return hasattr(value, f"__arrow_c_{name}__")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise UsageError(f"a key is {key!r}, which is not text", remedy="use strings as keys")
    return _text(key)


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is not text", remedy="decode it first")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!r} is not valid Unicode") from error
    return text


def _integer(number: int) -> int:
    if not -(2**63) <= number < 2**64:
        raise UsageError(f"{number} does not fit 64 bits")
    return number


def _float(number: float) -> float:
    if not math.isfinite(number):
        raise UsageError(f"{number} cannot be written in a flow document")
    return number
