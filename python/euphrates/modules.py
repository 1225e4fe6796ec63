"""A function for every module, generated from the module's spec."""

from __future__ import annotations

import inspect
import json
import keyword
import os
import textwrap
from collections.abc import Callable
from typing import Any

from . import _euphrates
from ._config import Gathered
from ._options import suggestion


class ModuleCall:
    """A module with its configuration, to be placed in a flow.

    >>> sort = eu.sort(["price desc"])
    >>> sort
    <module sort, by=['price desc']>
    >>> sort.name, sort.config
    ('sort', {'by': ['price desc']})
    """

    def __init__(self, name: str, config: dict[str, Any], gathered: Gathered | None = None) -> None:
        self.name = name
        self.config = config
        self.gathered = gathered or Gathered()

    def __repr__(self) -> str:
        options = "".join(f", {key}={value!r}" for key, value in self.config.items())
        return f"<module {self.name}{options}>"


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
    gathered = Gathered()
    return ModuleCall(name, gathered.json(config or {}), gathered)


SPECS: dict[str, dict[str, Any]] = {spec["name"]: spec for spec in json.loads(_euphrates.specs())}
"""The spec of every module."""


def parameter_name(option: str) -> str:
    """An option's name as a Python parameter: a keyword gets an underscore."""
    return f"{option}_" if keyword.iskeyword(option) else option


def options_of(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The schemas of a module's options by name, in order."""
    options: dict[str, dict[str, Any]] = spec["config"].get("properties", {})
    return options


def required_of(spec: dict[str, Any]) -> list[str]:
    """The required options, in order."""
    needed = spec["config"].get("required", [])
    return [name for name in options_of(spec) if name in needed]


def signature_of(spec: dict[str, Any]) -> inspect.Signature:
    """The signature of a module's function: required options may be positional."""
    required = required_of(spec)
    parameters = [
        inspect.Parameter(parameter_name(name), inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for name in required
    ]
    for name, schema in options_of(spec).items():
        if name not in required:
            parameters.append(
                inspect.Parameter(
                    parameter_name(name),
                    inspect.Parameter.KEYWORD_ONLY,
                    default=schema.get("default"),
                )
            )
    return inspect.Signature(parameters, return_annotation=ModuleCall)


def doc_of(spec: dict[str, Any]) -> str:
    """The documentation of a module's function."""
    parts = (
        [spec["summary"], textwrap.fill(spec["detail"], 92)]
        if spec["detail"]
        else [spec["summary"]]
    )
    lines = []
    for name, schema in options_of(spec).items():
        words = " ".join(schema.get("description", "").split())
        text = textwrap.fill(words, 92, initial_indent="    ", subsequent_indent="    ")
        lines.append(f"{parameter_name(name)}\n{text}")
    if lines:
        parts.append("Options:\n\n" + "\n".join(lines))
    if spec["example"]:
        parts.append("Example:\n\n" + spec["example"])
    return "\n\n".join(parts)


def listed(value: Any, schema: dict[str, Any]) -> Any:
    """A single name in a list if the option is a list. (Generated code uses a single name only
    where that gives the same document: `code/python.rs`.)
    """
    is_list = "array" in schema.get("type", ()) and isinstance(schema.get("items"), dict)
    return [value] if is_list and isinstance(value, str | os.PathLike) else value


def function_of(spec: dict[str, Any]) -> Callable[..., ModuleCall]:
    """The function that configures a module."""
    signature = signature_of(spec)
    options = {parameter_name(name): (name, schema) for name, schema in options_of(spec).items()}
    required = required_of(spec)

    def configured(*args: Any, **kwargs: Any) -> ModuleCall:
        for given in kwargs:
            if given not in options:
                near = suggestion(given, options) or f"options: {', '.join(options) or 'none'}"
                raise TypeError(f"eu.{configured.__name__}() has no option {given!r}; {near}")
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"eu.{configured.__name__}(): {error}") from None
        gathered = Gathered()
        config = {}
        for parameter, value in bound.arguments.items():
            name, schema = options[parameter]
            if value is None and name not in required:
                continue
            value = listed(value, schema)
            is_data = schema.get("x-python") == "Any"
            config[name] = gathered.data(value) if is_data else gathered.json(value)
        return ModuleCall(spec["name"], config, gathered)

    configured.__name__ = configured.__qualname__ = parameter_name(spec["name"])
    configured.__module__ = "euphrates"
    configured.__doc__ = doc_of(spec)
    configured.__signature__ = signature  # type: ignore[attr-defined]
    return configured


_functions = {parameter_name(name): function_of(spec) for name, spec in SPECS.items()}
__all__ = ["ModuleCall", "module", *_functions]


def __getattr__(name: str) -> Callable[..., ModuleCall]:
    # In a namespace of their own: some modules share names with Python built-ins.
    try:
        return _functions[name]
    except KeyError:
        near = suggestion(name, _functions)
        more = f"; {near}" if near else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{more}") from None
