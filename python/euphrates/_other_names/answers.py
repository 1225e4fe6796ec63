"""A base class whose errors for names of other libraries say what to write."""

from __future__ import annotations

from ..errors import UnknownArgument, UnknownName, UsageError
from .operators import INSTEAD, ITEMS, OPERATORS

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ParamSpec, TypeVar

    Parameters = ParamSpec("Parameters")
    Result = TypeVar("Result")

_ALIKE = 0.75
"""How alike a method must be to be suggested: a name that exists elsewhere is seldom misspelt."""


class OtherNames:
    """A class whose errors for unknown attributes, and for arguments that its methods do not have,
    say what to write for names of other libraries.

    >>> eu.query({"n": [1]}).head(3)
    Traceback (most recent call last):
    euphrates.errors.UnknownName: a query has no `head`; write .limit(5)
    >>> eu.query({"n": [1]}).sort("n", ascending=False)
    Traceback (most recent call last):
    euphrates.errors.UnknownArgument: sort() has no argument `ascending`; write .sort("price desc")
    """

    __slots__ = ()
    _kind = "query"
    """Which names it answers: those of a table of `names`."""
    _called = "a query"

    if not TYPE_CHECKING:

        def __init_subclass__(cls):
            refuse_operators(cls)
            for name in dir(cls):
                method = getattr(cls, name)
                is_own = hasattr(method, "__code__") and not hasattr(method, "__wrapped__")
                if not is_own or not _has_own_arguments(method):
                    continue
                if name == "__init__":
                    cls.__init__ = _explaining(method, f"eu.{cls.__name__}")
                elif not name.startswith("_"):
                    function = getattr(method, "__func__", None)
                    called = f"{cls.__name__}.{name}" if function else name
                    explaining = _explaining(function or method, called)
                    setattr(cls, name, classmethod(explaining) if function else explaining)

        def __getitem__(self, key):
            text = f"{self._called} has no `[{key!r}]`"
            raise UnknownArgument(text, remedy=f"write {ITEMS[self._kind]}")

        def __len__(self):
            instead = {"query": 'write .group_by().agg(n="count()")'}.get(self._kind)
            raise UnknownArgument(f"{self._called} has no len()", remedy=instead)

        def __bool__(self):
            return True

        def __setitem__(self, key, value):
            text = f"{self._called} does not change, and has no `[{key!r}]`"
            instead = f'rows = rows.with_columns({key}="…")' if isinstance(key, str) else None
            raise UnknownArgument(text, remedy=instead and f"write {instead}")

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            from .._options import suggestion
            from .names import anything, function_of_sql, method, remedy

            instead = method(self._kind, name) or function_of_sql(self._kind, name)
            if instead is not None:
                answer = remedy(instead)
            else:
                own = [one for one in dir(self) if not one.startswith("_")]
                near = suggestion(name, own, _ALIKE)
                answer = near or anything(self._kind, name)
            raise UnknownName(f"{self._called} has no `{name}`", remedy=answer)


def _refusing(sign: str) -> Callable[[Any, Any], Any]:
    """The method of an operator that an object does not have."""

    def refusing(self: Any, other: Any) -> Any:
        instead = INSTEAD.get(self._kind, {}).get(sign)
        if instead is None:
            return NotImplemented
        raise UnknownArgument(f"{self._called} has no `{sign}`", remedy=f"write {instead}")

    return refusing


def refuse_operators(cls: type) -> None:
    """Gives a class the answers to operators that it does not have."""
    for name, sign in OPERATORS.items():
        if not any(name in vars(base) for base in cls.__mro__[:-1]):
            setattr(cls, name, _refusing(sign))


class ClassWithOtherNames(type):
    """The type of a class whose constructors have other names in other libraries."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name):
            if name.startswith("_"):
                raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
            return cls.__getattr__(cls, name)


def answering(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A public function whose errors for arguments that it does not have, or lacks, say what to
    write.

    >>> eu.col("a", "b")
    Traceback (most recent call last):
    euphrates.errors.UnknownArgument: col() takes 1 positional argument but 2 were given; for ...
    """
    return _explaining(function)


def _has_own_arguments(method: Callable[..., Any]) -> bool:
    """Whether a function is a method that does not pass options on to a run, which has its own
    errors for them; their tracebacks are those that users see most.
    """
    names = method.__code__.co_varnames
    return names[:1] in _OWNERS and not {"options", "more_variables"}.intersection(names)


_OWNERS = (("self",), ("cls",))


def _explaining(method: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """A function whose errors for arguments that it does not have say what to write. `name` is what
    users call it, if that is not its own name.
    """

    def explaining(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            is_from_within = error.__traceback__ and error.__traceback__.tb_next is not None
            if is_from_within:
                raise
            misfit = _misfit(method, name or method.__name__, kwargs, str(error))
        raise misfit

    # As `functools.wraps` does, which takes long to load.
    for attribute in ("__annotations__", "__doc__", "__module__", "__name__", "__qualname__"):
        setattr(explaining, attribute, getattr(method, attribute))
    explaining.__wrapped__ = method  # type: ignore[attr-defined]
    return explaining


def _misfit(
    method: Callable[..., Any], name: str, given: Mapping[str, Any], error: str
) -> UnknownArgument:
    """The error for arguments that a function does not have, or lacks."""
    from .._options import suggestion
    from .arguments import ARGUMENTS, NEEDLESS

    code = method.__code__
    begin = 1 if code.co_varnames[:1] in _OWNERS else 0
    known = code.co_varnames[begin : code.co_argcount + code.co_kwonlyargcount]
    example = _example(method, name)
    unknown = [argument for argument in given if argument not in known]
    if not unknown:
        what = error.partition("() ")[2]
        return UnknownArgument(f"{name}() {what}" if what else error, remedy=example)
    argument = unknown[0]
    instead = ARGUMENTS.get(name, {}).get(argument)
    if instead is not None:
        remedy: str | None = f"write {instead}"
    elif argument in NEEDLESS:
        remedy = f"leave it out: {NEEDLESS[argument]}"
    else:
        remedy = suggestion(argument, known) or example
    return UnknownArgument(f"{name}() has no argument `{argument}`", remedy=remedy)


def _example(method: Callable[..., Any], name: str) -> str | None:
    """A call of a function, from its documentation or from the list of examples."""
    from .arguments import EXAMPLES

    if name in EXAMPLES:
        return f"for example {EXAMPLES[name]}"
    is_method = method.__code__.co_varnames[:1] == ("self",)
    return example_of(method.__doc__ or "", f".{name}(" if is_method else f"eu.{name}(")


def example_of(doc: str, start: str) -> str | None:
    """The first call of a documentation's examples that starts like this."""
    for line in doc.splitlines():
        if start in line and line.lstrip().startswith((">>>", "...")):
            call = line[line.index(start) :]
            return f"for example {call[: _end(call)]}"
    return None


def _end(call: str) -> int:
    """The length of a call up to its closing parenthesis."""
    depth = 0
    for position, letter in enumerate(call):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == ")" and depth == 0:
            return position + 1
    return len(call)


def keys_of(on: Any, how: str) -> list[Any]:
    """The keys of a join as the module has them. Errors for a kind of join, and for a key, of other
    libraries say what to write.
    """
    from .arguments import JOINS

    remedy = f'write how="{JOINS[how]}"' if how in JOINS else None
    if how == "cross":
        remedy = 'write .sql("select * from self cross join t", t=other)'
    elif how == "asof":
        remedy = 'write .join_asof(other, "time")'
    if remedy is not None:
        raise UsageError(f"no join is called `{how}`", remedy=remedy)
    keys = [on] if isinstance(on, str) else list(on) if isinstance(on, list | tuple) else [None]
    found: list[Any] = []
    for key in keys:
        if isinstance(key, str):
            found.append(key)
        elif isinstance(key, list | tuple) and [type(one) for one in key] == [str, str]:
            found.append({"left": key[0], "right": key[1]})
        else:
            raise UsageError(
                f"`on` is {on!r}, which are no names of columns",
                remedy='write "id", a list, or pairs: [("id", "customer_id")]; for other '
                'conditions .sql("select * from self s join t on s.a = t.b + 1", t=other)',
            )
    return found
