"""Values of Python and of other libraries that are no expressions, and what to write for each."""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from typing import Any


def no_expression(value: Any) -> UsageError:
    """The error for a value that is neither SQL nor an expression."""
    remedy = 'write SQL, "price > 3", or eu.col("price") > 3'
    if value is None:
        remedy += ", or eu.lit(None) for null"
    elif hasattr(value, "gathered"):
        remedy = f'write "{value.name}()"'
    elif isinstance(value, int | float):
        remedy = f"write eu.lit({value!r})"
    elif hasattr(value, "dtype") or isinstance(value, list):
        # Values of a frame beside the query, whose rows have no order.
        what = f"values of type {type(value).__name__} are not an expression"
        return UsageError(what, remedy=f'{remedy}; a table of values is joined: .join(other, "id")')
    elif callable(value):
        remedy += "; a function of batches goes into .then(eu.map(function))"
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        remedy = f'write "{_aggregate(value[1], value[0])}"'
    elif isinstance(value, dict):
        remedy = 'write the values by their names: total="price * n", or .rename({"old": "new"})'
    return UsageError(f"{value!r} is not an expression", remedy=remedy)


def without_name(what: str, value: Any) -> UsageError:
    """The error for an argument of a method whose values have names."""
    text = getattr(value, "text", value)
    if isinstance(value, dict):
        # As pandas has it, the name of a function, and as Polars has it, an expression.
        of = _aggregate if what == "agg" else lambda one, key: one
        shown = [f'{key}="{of(one, key)}"' for key, one in value.items()]
        return UsageError(f"`{text}` is a dict", remedy=f"write .{what}({', '.join(shown)})")
    return UsageError(f"`{value}` has no name", remedy=f'write .{what}(total="{text}")')


def _aggregate(value: Any, column: str) -> str:
    """An aggregate as SQL, of which other libraries have the name of the function."""
    name = {"mean": "avg", "size": "count", "nunique": "approx_distinct"}.get(str(value), value)
    return f"{name}({column})" if str(value).isidentifier() else str(value)


def compared_with_nothing(text: str, method: str) -> UsageError:
    """The error for a comparison with `None`, which no row would satisfy."""
    sign = "==" if method == "is_null" else "!="
    error = f"`{text} {sign} None` is true of no row: null equals nothing"
    return UsageError(error, remedy=f'write eu.col("a").{method}()')


def without_parentheses(text: str) -> UsageError:
    """The error for a comparison beside `&` or `|`, which Python computes first."""
    return UsageError(
        f"`{text}` is not a condition",
        remedy='write parentheses: (eu.col("a") > 1) & (eu.col("b") == 2)',
    )
