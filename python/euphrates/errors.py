"""Exceptions: one base class, and one class for each kind of error."""

from __future__ import annotations

import importlib
import os
import traceback
from types import TracebackType


class EuphratesError(Exception):
    """The base of all errors. `str()` gives place, cause and remedy."""

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

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (type(self), self.message, self.place, self.remedy, self.row))


class UsageError(EuphratesError):
    """The flow, an option or an expression is wrong; nothing has started."""

    kind = "usage"


class FlowError(EuphratesError):
    """A module failed while the flow ran. `__cause__` is the exception of user code, if any."""

    kind = "failed"


class CorruptError(EuphratesError):
    """Data on disk or in flight differs from what was written."""

    kind = "corrupt"


class ResourceError(EuphratesError):
    """Disk, memory or another resource ran out, or an operating system call failed."""

    kind = "resource"


class Interrupted(EuphratesError):  # noqa: N818 - it is a kind, and no mistake
    """The flow was cancelled."""

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
    return _CLASSES[kind](message, place=": ".join(places) or None, remedy=remedy, row=row)


def told(exception: BaseException) -> tuple[str, str | None, str | None]:
    """An exception of user code for the engine: the message with the user's frames, innermost last;
    the place; the remedy. Frames of this package are removed from its traceback for good.
    """
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
_ASKS_LIBRARIES = os.path.join(_HERE, "_user_code", "sql.py")
"""Frames of functions that call libraries, not user code."""


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
