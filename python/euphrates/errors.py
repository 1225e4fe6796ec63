"""Exceptions: one base class, and one class for each kind of error."""

from __future__ import annotations

import importlib
import os
from types import TracebackType


class EuphratesError(Exception):
    """The base class of all errors. `str()` returns place, cause and remedy.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.scan("orders.csv"), eu.collect())
    >>> try:
    ...     flow.go()
    ... except eu.EuphratesError as error:
    ...     caught = error
    >>> caught.kind, caught.place, caught.message
    ('usage', 'module scan_1', 'no such file: orders.csv')
    """

    kind: str = "failed"
    """`usage`, `failed`, `corrupt`, `resource` or `interrupted`."""

    def __init__(
        self,
        message: str,
        *,
        place: str | None = None,
        remedy: str | None = None,
        row: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        """The place: module, instance, port, file; outermost first."""
        self.remedy = remedy
        """The remedy."""
        self.row = row
        """The first row at fault and its values, if known."""

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        text = f"{text}\n  row: {self.row}" if self.row else text
        return f"{text}\n  remedy: {self.remedy}" if self.remedy else text

    def _render_traceback_(self) -> list[str]:
        """The traceback that a notebook shows: the frames of its cells and of user code."""
        import traceback

        frames = _of_users(self.__traceback__)
        while frames is not None and _is_of_ipython(frames):
            frames = frames.tb_next
        text = "".join(traceback.format_exception(type(self), self, frames))
        return text.rstrip().split("\n")

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (type(self), self.message, self.place, self.remedy, self.row))


class UsageError(EuphratesError):
    """The flow, an option or an expression is wrong; nothing has started.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.from_arrow({"price": [1]}), eu.filter("prize > 0"), eu.collect())
    >>> flow.go()
    Traceback (most recent call last):
    euphrates.errors.UsageError: module filter_1: where: no column named `prize`
        prize > 0
        ^
      remedy: did you mean `price`?
    """

    kind = "usage"


class _Misnamed(UsageError):  # noqa: N818
    """A name that does not exist. Its text is one line, as those of Python's own errors."""

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class UnknownName(_Misnamed, AttributeError):  # noqa: N818
    """A method or function of this name does not exist; the remedy says what to write for a name of
    another library.

    >>> eu.query({"n": [1]}).head(3)
    Traceback (most recent call last):
    euphrates.errors.UnknownName: a query has no `head`; write .limit(5)
    """


class UnknownArgument(_Misnamed, TypeError):  # noqa: N818
    """A call has an argument that does not exist, or lacks one; the remedy says what to write for
    an argument of another library.

    >>> eu.query({"n": [1]}).sort("n", ascending=False)
    Traceback (most recent call last):
    euphrates.errors.UnknownArgument: sort() has no argument `ascending`; write .sort("price desc")
    """


class FlowError(EuphratesError):
    """A module failed while the flow ran. `__cause__` is the exception of user code, if any.

    >>> flow = eu.Flow()
    >>> words = eu.from_arrow({"word": ["1", "two"]})
    >>> _ = flow.chain(words, eu.project(["cast(word as int) as n"]), eu.collect())
    >>> try:
    ...     flow.go()
    ... except eu.FlowError as error:
    ...     print(error.message)
    ...     print(error.row)
    Cannot cast string 'two' to value of Int32 type
    row 1 of a batch of its input: word = "two"
    """

    kind = "failed"


class ConflictError(FlowError):
    """Another program has changed a Delta or Iceberg table meanwhile. Nothing has been committed,
    and the files of this run are removed.

    >>> issubclass(eu.ConflictError, eu.FlowError)
    True
    """


class CorruptError(EuphratesError):
    """Data on disk or in flight differs from what was written.

    >>> from pathlib import Path
    >>> _ = Path("cut.parquet").write_bytes(b"PAR1 and no more")
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.scan("cut.parquet"), eu.collect())
    >>> flow.go()
    Traceback (most recent call last):
    euphrates.errors.CorruptError: module scan_1: cut.parquet: the end is missing: this Parquet ...
    """

    kind = "corrupt"


class ResourceError(EuphratesError):
    """Disk, memory or another resource ran out, or an operating system call failed.

    >>> from pathlib import Path
    >>> Path("token").touch(mode=0o600)
    >>> _ = Path("token").write_text("0" * 64)
    >>> eu.Cluster.at("127.0.0.1:1", token_file="token")
    Traceback (most recent call last):
    euphrates.errors.ResourceError: calling 127.0.0.1:1: 127.0.0.1:1 cannot be reached: ...
    """

    kind = "resource"


class Interrupted(EuphratesError):  # noqa: N818 - it is a kind, and no mistake
    """The flow was cancelled.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=10**15), eu.count(), eu.collect())
    >>> running = flow.start()
    >>> running.cancel()
    >>> running.finish()
    Traceback (most recent call last):
    euphrates.errors.Interrupted: ...the flow was interrupted
    """

    kind = "interrupted"


class Stopped(BaseException):
    """Raised inside `run` when its results are no longer needed. Do not catch it: it is not a
    failure, and not an `Exception`.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


_CLASSES = {
    cls.kind: cls for cls in (UsageError, FlowError, CorruptError, ResourceError, Interrupted)
}


def _again(
    cls: type[EuphratesError],
    message: str,
    place: str | None,
    remedy: str | None,
    row: str | None,
) -> EuphratesError:
    return cls(message, place=place, remedy=remedy, row=row)


def made(
    kind: str, message: str, places: list[str], remedy: str | None, row: str | None
) -> BaseException:
    """The exception for an error of the engine."""
    if kind == "closed":
        return Stopped(kind)
    if kind == "usage":
        from ._other_names.sql import remedy_of

        remedy = remedy_of(message, places, remedy)
    return _CLASSES[kind](message, place=": ".join(places) or None, remedy=remedy, row=row)


def told(exception: BaseException) -> tuple[str, str | None, str | None]:
    """An exception of user code for the engine: the message with the user's frames, innermost last;
    the place; the remedy. Frames of this package are removed from its traceback for good.
    """
    import traceback

    exception.__traceback__ = _of_users(exception.__traceback__)
    frames = "".join(traceback.format_tb(exception.__traceback__))
    name = type(exception).__qualname__
    place = remedy = None
    if isinstance(exception, EuphratesError):
        message, place, remedy = exception.message, exception.place, exception.remedy
    elif isinstance(exception, SyntaxError):
        # The position of a syntax error is formatted like a frame.
        message = f"{name}: {exception.msg}"
        frames += "".join(traceback.format_exception_only(exception)[:-1])
    else:
        message = f"{name}: {exception}" if str(exception) else name
    return (f"{message}\n{frames.rstrip()}" if frames else message), place, remedy


_HERE = os.path.dirname(__file__) + os.sep
_OURS = (_HERE, os.path.dirname(importlib.__file__) + os.sep, "<frozen importlib")
_ASKS_LIBRARIES = os.path.join(_HERE, "_user_code", "external_sql.py")
"""Frames of functions that call libraries, not user code."""


def _is_of_ipython(frames: TracebackType) -> bool:
    module = str(frames.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] in ("IPython", "ipykernel")


def _of_users(frames: TracebackType | None) -> TracebackType | None:
    kept = []
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if file == _ASKS_LIBRARIES:
            break
        if not file.startswith(_OURS):
            kept.append(frames)
        frames = frames.tb_next
    result = None
    for one in reversed(kept):
        result = TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result
