"""Modules with their configuration, and what the functions in `_functions` share."""

from __future__ import annotations

import os

from . import _euphrates, _functions
from ._config import Gathered
from ._other_names.answers import answering, example_of, refuse_operators
from .errors import UnknownArgument, UnknownName, UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from .queries import Query as _Chain
else:
    _Chain = object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, ParamSpec, TypeAlias

    Parameters = ParamSpec("Parameters")
    SPECS: dict[str, dict[str, Any]]
    SchemaLike: TypeAlias = Any
    """A schema that speaks Arrow, or types by name like `{"id": "int64"}`."""

OF_TYPES = ("types", "hive_types", "schema")
"""Options that give the types of columns by name."""

__all__ = ["ModuleCall", "module"]
__all__ += _functions.__all__


class ModuleCall(_Chain):
    """A module with its configuration, to be placed in a flow. A source has the methods of a query
    (`eu.Query`) too.

    >>> sort = eu.sort(["price desc"])
    >>> sort
    <module sort, by=['price desc']>
    >>> sort.name, sort.config
    ('sort', {'by': ['price desc']})
    >>> eu.generate("integers", rows=5).filter("n > 2").to_pydict()
    {'n': [3, 4]}
    """

    _kind, _called = "module", "a module that is not placed"

    def __init__(self, name: str, config: dict[str, Any], gathered: Gathered | None = None) -> None:
        self.name = name
        self.config = config
        self.gathered = gathered or Gathered()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") or name.startswith("__arrow_c_"):
            from .queries import Query

            if hasattr(Query, name):
                from ._user_code.query_tables import query

                return getattr(query(self), name)
        if not name.startswith("_") and not _specs().get(self.name, {}).get("inputs", True):
            from ._user_code.query_tables import query

            return getattr(query(self), name)  # Its error says what to write.
        raise AttributeError(f"{self!r} has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        options = "".join(f", {key}={value!r}" for key, value in self.config.items())
        return f"<module {self.name}{options}>"


refuse_operators(ModuleCall)


@answering
def module(name: str, config: dict[str, Any] | None = None) -> ModuleCall:
    """Any module by name, with its configuration as in a flow document.

    It also covers modules without a function in this package, for example of a newer version.

    >>> limit = eu.module("limit", {"rows": 3})
    >>> limit
    <module limit, rows=3>
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=9), limit, eu.collect())
    >>> flow.go().collected().num_rows
    3
    """
    if not isinstance(name, str) or not isinstance(config or {}, dict):
        remedy = 'write eu.module("limit", {"rows": 3})'
        raise UsageError(f"{name!r} with {config!r} is not a module", remedy=remedy)
    gathered = Gathered()
    return ModuleCall(name, gathered.json(config or {}), gathered)


def configures(
    name: str, *, lists: Collection[str] = (), data: Collection[str] = ()
) -> Callable[[Callable[Parameters, ModuleCall]], Callable[Parameters, ModuleCall]]:
    """Makes a function of a declaration: it returns the named module with the options that it is
    given. In `lists` are the options that take a list, in `data` those that take a table.
    """

    def function_of(
        declared: Callable[Parameters, ModuleCall],
    ) -> Callable[Parameters, ModuleCall]:
        def configured(*args: Parameters.args, **kwargs: Parameters.kwargs) -> ModuleCall:
            gathered = Gathered()
            config = {}
            required = _required(declared)
            for parameter, value in _bound(declared, args, kwargs).items():
                if value is None and parameter not in required:
                    continue
                # A parameter that would be a keyword of Python ends with an underscore.
                option = parameter.removesuffix("_")
                if option in lists and is_one(value):
                    # Generated code writes a single name only where that gives the same document:
                    # `code/python.rs`.
                    value = [value]
                objects = len(gathered.held)
                gather = gathered.types if option in OF_TYPES else gathered.json
                config[option] = gathered.data(value) if option in data else gather(value)
                if option not in _OF_OBJECTS and (callable(value) or len(gathered.held) > objects):
                    from ._other_names.tables import misplaced

                    raise misplaced(declared.__name__, option, value)
            if name == "scan" and "hf://" in str(config["path"]):
                from ._user_code.hub import with_addresses

                config = with_addresses(config)
            return ModuleCall(name, config, gathered)

        configured.__name__ = configured.__qualname__ = declared.__name__
        configured.__module__ = "euphrates"
        configured.__doc__ = _without_margin(declared.__doc__ or "")
        # A chain that gets the function, and not its result, says so.
        configured.makes_module = True  # type: ignore[attr-defined]
        # `inspect.signature` shows the signature of the declaration.
        configured.__wrapped__ = declared  # type: ignore[attr-defined]
        return configured

    return function_of


_OF_OBJECTS = (*OF_TYPES, "args", "arguments", "data", "function", "kwargs", "module", "step")
"""Options whose values may be objects of the program."""


def is_one(value: Any) -> bool:
    """Whether a value is one name, for an option that takes a list."""
    is_expression = type(value).__module__ == "euphrates.expressions"
    return is_expression or isinstance(value, str | os.PathLike)


def _without_margin(doc: str) -> str:
    """A docstring as Python keeps it from version 3.13 on: without the indentation of its code."""
    margin = " " * 4
    first, *lines = doc.rstrip().split("\n")
    if all(line.startswith(margin) for line in lines if line):
        lines = [line.removeprefix(margin) for line in lines]
    return "\n".join([first, *lines])


def _required(declared: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters that may be positional: the required ones."""
    return declared.__code__.co_varnames[: declared.__code__.co_argcount]


def _bound(
    declared: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The given arguments by parameter, in the declared order."""
    required = _required(declared)
    parameters = declared.__code__.co_varnames
    for given in kwargs:
        if given not in parameters:
            from ._options import suggestion
            from ._other_names.arguments import option

            listed = f"options: {', '.join(parameters) or 'none'}"
            near = option(given, parameters) or suggestion(given, parameters) or listed
            text = f"eu.{declared.__name__}() has no option {given!r}"
            raise UnknownArgument(text, remedy=near)
    bound = {**dict(zip(required, args)), **kwargs}
    is_ambiguous = len(bound) < len(args) + len(kwargs)
    if is_ambiguous or not all(name in bound for name in required):
        raise _unbound(declared, args, kwargs)
    return {name: bound[name] for name in parameters if name in bound}


def _unbound(
    declared: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> UnknownArgument:
    """The reason why a call does not fit a declaration."""
    import inspect

    try:
        inspect.signature(declared).bind(*args, **kwargs)
    except TypeError as error:
        text = f"eu.{declared.__name__}(): {error}"
        return UnknownArgument(text, remedy=_remedy_of_call(declared, args))
    raise AssertionError("the arguments fit")


def _remedy_of_call(declared: Callable[..., Any], args: tuple[Any, ...]) -> str | None:
    """What to write for a call with too few or too many arguments by position."""
    name = declared.__name__
    if len(args) > 1 and len(_required(declared)) == 1:
        names = declared.__code__.co_varnames
        if all(isinstance(value, str) for value in args) and name in _OF_COLUMNS:
            columns = ", ".join(f'"{value}"' for value in args)
            return f"write a list: eu.{name}([{columns}])"
        options = ", ".join(f"{option}=…" for option in names[1:3])
        return f"give what follows `{names[0]}` by name: {options}" if options else None
    return example_of(declared.__doc__ or "", f"eu.{name}(")


_OF_COLUMNS = ("join", "merge", "partition", "project", "sort", "unnest")
"""Functions whose argument by position is a list of columns."""


def __getattr__(name: str) -> Any:
    if name == "SPECS":
        globals()[name] = _specs()
        return globals()[name]
    if name in _functions.__all__:
        from importlib import import_module

        # Not kept here: `map` and others have the names of built-ins.
        return getattr(import_module(f"._functions.{name}", __package__), name)
    raise _missing(name)


def _missing(name: str) -> AttributeError:
    text = f"module {__name__!r} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    from ._options import suggestion

    return UnknownName(text, remedy=suggestion(name, _functions.__all__))


def _specs() -> dict[str, dict[str, Any]]:
    """The spec of every module by name."""
    import json

    return {spec["name"]: spec for spec in json.loads(_euphrates.specs())}
