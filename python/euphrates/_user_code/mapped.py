"""The calls of the module `map`: a function or object is applied to a batch, or to parts of one."""

from __future__ import annotations

from .. import _euphrates
from ..errors import FlowError, UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._euphrates import Schema

_INTEGER_BITS = {f"{sign}Int{bits}": bits for sign in ("", "U") for bits in (8, 16, 32, 64)}
"""The bits of integer types, whose names are those of the dtypes of pandas with nulls."""
CONCURRENCY = 16
"""Calls of an async function that an instance awaits at a time, if no number is given."""


class Results(list):  # type: ignore[type-arg]
    """The results of several calls, or of one that yields them."""

    __euphrates_results__ = True


def prepared(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    rows_per_call: int | None = None,
    concurrency: int | None = None,
    promised: Schema | None = None,
) -> Callable[..., Any]:
    """What an instance calls with every batch: of a class with `__call__`, a new object. `promised`
    is the schema of its results, if it is known.
    """
    call = _callee(function, args, kwargs, rows_per_call, concurrency)
    if promised is None:
        return call
    return _fitting(with_exact_numbers(call, promised), promised)


def _callee(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    rows_per_call: int | None,
    concurrency: int | None,
) -> Callable[..., Any]:
    is_class = isinstance(function, type) and any(
        "__call__" in vars(base) for base in function.__mro__
    )
    if is_class:
        function = function(*args, **(kwargs or {}))
    elif args or kwargs:
        raise UsageError(
            "`args` and `kwargs` are given, and the function is no class with `__call__`",
            remedy="give `arguments`, which every call gets",
        )
    code = _code_of(function)
    if code is not None and code & _ASYNC:
        return _awaiting(function, rows_per_call, concurrency or CONCURRENCY)
    if concurrency is not None:
        raise UsageError(
            "`concurrency` is given, and the function is not async",
            remedy="leave it out: instances call the function at the same time, as many as "
            "`flow.place(…, count=2)` says",
        )
    yields = code is not None and bool(code & _GENERATOR)
    if rows_per_call is None and not yields:
        return function
    return _called_by_parts(function, rows_per_call, yields)


_GENERATOR = 0x20
_ASYNC = 0x80
"""Flags of code objects, as in `inspect`, which takes long to load."""


def _code_of(function: Any) -> int | None:
    """The flags of the code of a function, a method or `__call__`."""
    while hasattr(function, "func") and hasattr(function, "keywords"):  # functools.partial
        function = function.func
    for one in (function, vars(type(function)).get("__call__")):
        code = getattr(one, "__code__", None)
        if code is not None:
            return int(code.co_flags)
    return None


def _parts(batch: Any, rows: int | None) -> list[Any]:
    if rows is None or batch.num_rows <= rows:
        return [batch]
    return [batch.slice(begin, rows) for begin in range(0, batch.num_rows, rows)]


def _called_by_parts(
    function: Callable[..., Any], rows: int | None, yields: bool
) -> Callable[..., Any]:
    def call(batch: Any, **arguments: Any) -> Results:
        results = Results()
        for part in _parts(batch, rows):
            result = function(part, **arguments)
            results.extend(result) if yields else results.append(result)
        return results

    return call


def _awaiting(
    function: Callable[..., Any], rows: int | None, concurrency: int
) -> Callable[..., Any]:
    import asyncio

    loop = asyncio.new_event_loop()

    async def all_of(parts: list[Any], arguments: dict[str, Any]) -> list[Any]:
        free = asyncio.Semaphore(concurrency)

        async def one(part: Any) -> Any:
            async with free:
                return await function(part, **arguments)

        tasks = [loop.create_task(one(part)) for part in parts]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def call(batch: Any, **arguments: Any) -> Results:
        return Results(loop.run_until_complete(all_of(_parts(batch, rows), arguments)))

    return call


def with_exact_numbers(function: Callable[..., Any], promised: Schema) -> Callable[..., Any]:
    """The function, whose frames of pandas get the promised types of numbers: pandas has integers
    beside nulls as floating point numbers, unless it is asked for `Int64`.
    """
    kinds = {name: kind.partition(" ")[0] for name, kind in zip(promised.names, promised.types)}

    def call(batch: Any, **arguments: Any) -> Any:
        result = function(batch, **arguments)
        if isinstance(result, Results):
            return Results([_exact(one, kinds) for one in result])
        return _exact(result, kinds)

    return call


def _fitting(function: Callable[..., Any], promised: Schema) -> Callable[..., Any]:
    """The function, which raises if its result does not fit the promised columns. So the call fails
    that returned it, and not the batch whose results it is one of: `on_error="skip"` leaves out the
    rows of that call.
    """
    kinds = dict(zip(promised.names, promised.types))

    def call(batch: Any, **arguments: Any) -> Any:
        result = function(batch, **arguments)
        if isinstance(result, Results):
            return Results([_fits(one, promised, kinds) for one in result])
        return _fits(result, promised, kinds)

    return call


def _fits(result: Any, promised: Schema, kinds: Mapping[str, str]) -> Any:
    """A result, converted where that is needed to see whether it fits. Streams, which can be read
    once, are not looked at.
    """
    from .rows import arrow_of

    data = None if result is None else arrow_of(result)
    if isinstance(data, _euphrates.Table | _euphrates.Batch):
        batches = data.batches if isinstance(data, _euphrates.Table) else [data]
        return _euphrates.table(batches, promised)
    of = type(data)
    library = of.__module__.partition(".")[0]
    if of.__name__ == "DataFrame" and library == "pandas":
        import pyarrow as pa

        data, library = pa.table(data), "pyarrow"
    if of.__name__ in ("DataFrame", "Table", "RecordBatch") and library in ("polars", "pyarrow"):
        _check_columns(data, kinds)
    return data


_TEXT = {"Utf8", "LargeUtf8", "Utf8View"}
_NESTED = ("Dictionary", "List", "Map", "RunEndEncoded", "Struct", "Union")
"""Words of types that have other types in them."""


def _check_columns(data: Any, promised: Mapping[str, str]) -> None:
    """Raises if the columns of a frame are others than promised. Nested types and values are left
    to the engine, which checks every result again.
    """
    actual = {
        name: kind.removesuffix(_NOT_NULL) for name, kind in _euphrates.schema_words(data).items()
    }
    expected = {name: kind.removesuffix(_NOT_NULL) for name, kind in promised.items()}
    are_compatible = list(actual) == list(expected) and all(
        kind == expected[name]
        or kind == "Null"
        or any(word in kind for word in _NESTED)
        or {kind, expected[name]} <= _TEXT
        for name, kind in actual.items()
    )
    if not are_compatible:
        shown = [", ".join(f"{n}: {k}" for n, k in one.items()) for one in (actual, promised)]
        raise FlowError(
            f"returned the columns {shown[0]}; promised were {shown[1]}",
            remedy="return what the empty batch was answered with, or say what comes: schema=…",
        )
    for name, kind in promised.items():
        if kind.endswith(_NOT_NULL) and _nulls(data, name):
            remedy = "allow nulls in the schema, or do not return them"
            raise FlowError(f"column `{name}` has nulls; promised was {kind}", remedy=remedy)


_NOT_NULL = " not null"


def _nulls(data: Any, name: str) -> int:
    nulls = data[name].null_count
    return int(nulls() if callable(nulls) else nulls)


def _exact(result: Any, promised: Mapping[str, str]) -> Any:
    """A result with integers for floating point numbers of pandas, and the reverse, where that is
    promised. It fails at a number that would be another one.
    """
    of = type(result)
    if of.__name__ != "DataFrame" or of.__module__.partition(".")[0] != "pandas":
        return result
    if not result.columns.is_unique:
        return result
    changed = {}
    for name, dtype in result.dtypes.items():
        kind = promised.get(name, "")
        if dtype.kind == "f" and kind in _INTEGER_BITS:
            changed[name] = _integers(name, result[name], kind)
        elif dtype.kind in "iu" and kind == "Float64":
            changed[name] = _floats(name, result[name])
    return result.assign(**changed) if changed else result


def _integers(name: str, values: Any, kind: str) -> Any:
    exact_below = 2 ** {2: 11, 4: 24}.get(values.dtype.itemsize, 53)
    size = 2 ** _INTEGER_BITS[kind]
    low, end = (0, size) if kind.startswith("U") else (-size // 2, size // 2)
    is_integer = values.isna() | (values % 1 == 0)
    is_known = values.isna() | (is_integer & (values.abs() < exact_below))
    is_held = values.isna() | (is_known & (values >= low) & (values < end))
    if is_held.all():
        return values.astype(kind)
    at = _first(is_held)
    if not is_integer.iloc[at]:
        remedy = f'say what comes: schema={{"{name}": "float64"}}'
        raise _inexact(name, values, at, f", which is no {kind}", remedy)
    if not is_known.iloc[at]:
        remedy = f'keep integers exact from the beginning, frame.astype({{"{name}": "Int64"}})'
        reason = ": floating point numbers of this size skip integers"
        raise _inexact(name, values, at, reason, remedy)
    raise _inexact(name, values, at, f", beyond {kind}", f'say what comes: schema={{"{name}": …}}')


def _floats(name: str, values: Any) -> Any:
    """Integers as floating point numbers of 64 bits."""
    is_held = values.isna() | ((values >= -(2**53)) & (values <= 2**53))
    if not is_held.all():
        remedy = f'say what comes: schema={{"{name}": "int64"}}'
        raise _inexact(name, values, _first(is_held), ", which a Float64 would round", remedy)
    return values.astype("Float64")


def _first(is_held: Any) -> int:
    """The first row that is not held."""
    return int(is_held.to_numpy(dtype=bool).argmin())


def _inexact(name: str, values: Any, at: int, reason: str, remedy: str) -> FlowError:
    number = values.tolist()[at]
    error = f"row {at} of the frame: column `{name}` is {number!r}{reason}"
    return FlowError(error, remedy=remedy)
