"""The calls of the module `map`: a function or object is applied to a batch, or to parts of one."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

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
) -> Callable[..., Any]:
    """What an instance calls with every batch: of a class with `__call__`, a new object."""
    from ..errors import UsageError

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
