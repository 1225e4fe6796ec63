"""Writes the functions of modules, and the stub with their types."""

from __future__ import annotations

import json
import keyword
import textwrap
from inspect import getdoc
from typing import Any

from ..modules import SPECS, ModuleCall, module

_STUB_HEAD = '''\
# Derived from the modules by `make derive`; not to be edited.
from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias

from ._config import Gathered, Var

SchemaLike: TypeAlias = Any
"""A schema that speaks Arrow, or types by name like `{"id": "int64"}`."""

class ModuleCall:
    """DOC ModuleCall"""

    name: str
    config: dict[str, Any]
    gathered: Gathered
    def __init__(
        self, name: str, config: dict[str, Any], gathered: Gathered | None = None
    ) -> None: ...

SPECS: dict[str, dict[str, Any]]

def module(name: str, config: dict[str, Any] | None = None) -> ModuleCall:
    """DOC module"""

def configures(
    name: str, *, lists: Collection[str] = (), data: Collection[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., ModuleCall]]: ...
'''
_FUNCTIONS_HEAD = '''\
"""A function for every module: its signature and its docstring. What it does is in `modules.py`.

Derived from the modules by `make derive`; not to be edited.
"""

# mypy: ignore-errors
# Types are in the stub `modules.pyi`.

from .modules import ModuleCall, configures
'''


def functions() -> str:
    """The module `_functions.py`: a declaration for every module."""
    declared = "".join(map(_declaration, SPECS.values()))
    listed = "".join(f'    "{parameter_name(name)}",\n' for name in SPECS)
    return f"{_FUNCTIONS_HEAD}{declared}\n\n__all__ = [\n{listed}]\n"


def _declaration(spec: dict[str, Any]) -> str:
    required = required_of(spec)
    parameters = [parameter_name(name) for name in required]
    optional = {name: one for name, one in options_of(spec).items() if name not in required}
    if optional:
        parameters.append("*")
    for name, schema in optional.items():
        parameters.append(f"{parameter_name(name)}={_literal(schema.get('default'))}")
    given = [_literal(spec["name"])]
    for word, is_such in (("lists", _takes_a_list), ("data", _takes_data)):
        named = [_literal(name) for name, one in options_of(spec).items() if is_such(one)]
        given += [f"{word}=[{', '.join(named)}]"] if named else []
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    signature = f"(\n{lines})" if parameters else "()"
    return (
        f"\n\n@configures({', '.join(given)})\n"
        f"def {parameter_name(spec['name'])}{signature} -> ModuleCall:\n"
        f"{_docstring(doc_of(spec))}\n"
    )


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _takes_a_list(schema: dict[str, Any]) -> bool:
    return "array" in schema.get("type", ()) and isinstance(schema.get("items"), dict)


def _takes_data(schema: dict[str, Any]) -> bool:
    return schema.get("x-python") == "Any"


def stub() -> str:
    """The stub: a function for every module."""
    names = ["ModuleCall", "module", *map(parameter_name, SPECS)]
    listed = "".join(f'    "{name}",\n' for name in names)
    functions = "\n".join(_function(spec) for spec in SPECS.values())
    head = _STUB_HEAD
    for value in (ModuleCall, module):
        head = head.replace(f'    """DOC {value.__name__}"""', _docstring(getdoc(value) or ""))
    return f"{head}\n{functions}\n__all__ = [\n{listed}]\n"


def _function(spec: dict[str, Any]) -> str:
    required = required_of(spec)
    options = options_of(spec)
    parameters = [f"{parameter_name(name)}: {type_of(options[name])}" for name in required]
    optional = [name for name in options if name not in required]
    if optional:
        parameters.append("*")
    for name in optional:
        schema = options[name]
        default = repr(schema.get("default"))
        given = type_of(schema)
        given = given if "None" in given.split(" | ") or default != "None" else f"{given} | None"
        parameters.append(f"{parameter_name(name)}: {given} = {default}")
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    head = f"def {parameter_name(spec['name'])}(\n{lines}) -> ModuleCall:\n"
    head = head if parameters else f"def {parameter_name(spec['name'])}() -> ModuleCall:\n"
    return f"{head}{_docstring(doc_of(spec))}\n"


def _docstring(doc: str) -> str:
    doc = doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return textwrap.indent(f'"""{doc}\n"""', "    ", lambda line: bool(line.strip()))


def type_of(schema: dict[str, Any]) -> str:
    """The Python type of an option's value, or a variable of the flow."""
    own = schema.get("x-python")
    kinds = [own] if isinstance(own, str) else _kinds(schema)
    return " | ".join(dict.fromkeys([*kinds, "Var"]))


def _kinds(schema: dict[str, Any]) -> list[str]:
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return [kind for member in schema[word] for kind in _kinds(member)]
    if "const" in schema:
        return [f"Literal[{schema['const']!r}]"]
    if "enum" in schema:
        return [f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"]
    kinds = schema.get("type", "any")
    return [_kind(kind, schema) for kind in (kinds if isinstance(kinds, list) else [kinds])]


def _kind(kind: str, schema: dict[str, Any]) -> str:
    if kind == "array":
        members = schema.get("items", {})
        inner = " | ".join(_kinds(members)) if isinstance(members, dict) and members else "Any"
        return f"Sequence[{inner}]"
    if kind == "object":
        members = schema.get("additionalProperties", True)
        inner = " | ".join(_kinds(members)) if isinstance(members, dict) and members else "Any"
        return f"Mapping[str, {inner}]"
    simple = {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    return "str | PathLike[str]" if kind == "string" else simple.get(kind, "Any")


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
