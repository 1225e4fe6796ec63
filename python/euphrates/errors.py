"""What can go wrong: one base class, one class for each kind."""

from __future__ import annotations


class EuphratesError(Exception):
    """The base of all errors. `str()` gives place, cause and remedy."""

    kind: str = "failed"
    """`usage`, `failed`, `corrupt`, `resource` or `interrupted`."""

    def __init__(
        self, message: str, *, place: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        """Where: module, instance, port, file; the outermost first."""
        self.remedy = remedy
        """What to do about it."""

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}\n  remedy: {self.remedy}" if self.remedy else text

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (type(self), self.message, self.place, self.remedy))


class UsageError(EuphratesError):
    """The flow, an option or an expression is wrong; nothing has started."""

    kind = "usage"


class FlowError(EuphratesError):
    """A module failed while the flow ran. `__cause__` is the exception of user code, if it was."""

    kind = "failed"


class CorruptError(EuphratesError):
    """Data on disk or on its way is not what was written."""

    kind = "corrupt"


class ResourceError(EuphratesError):
    """Disk, memory or another resource ran out, or an operating system call failed."""

    kind = "resource"


class Interrupted(EuphratesError):  # noqa: N818 - it is a kind, and no mistake
    """The flow was cancelled."""

    kind = "interrupted"


class Stopped(BaseException):
    """Carries a module out of `run` when nobody needs it to go on. Not to be caught: it is no
    failure, and no `Exception`.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


_CLASSES = {
    cls.kind: cls for cls in (UsageError, FlowError, CorruptError, ResourceError, Interrupted)
}


def _again(
    cls: type[EuphratesError], message: str, place: str | None, remedy: str | None
) -> EuphratesError:
    return cls(message, place=place, remedy=remedy)


def made(kind: str, message: str, places: list[str], remedy: str | None) -> BaseException:
    """The exception for an error of the engine."""
    if kind == "closed":
        return Stopped(kind)
    return _CLASSES[kind](message, place=": ".join(places) or None, remedy=remedy)
