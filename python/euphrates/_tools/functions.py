"""Writes the functions of modules: a file for each, with its types and its documentation."""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from typing import Any

from ..modules import OF_TYPES, SPECS

_NOT_EDITED = "Derived from the modules by `make derive`; not to be edited."
_TYPES = {
    "collections.abc": ["Callable", "Mapping", "Sequence"],
    "os": ["PathLike"],
    "typing": ["Any", "Literal"],
    ".._config": ["Var"],
    "..modules": ["SchemaLike"],
}
"""What types of options may name, by the module that defines it."""


def functions() -> dict[str, str]:
    """The files of the package `_functions`: one for each module, and the list of them."""
    names = [parameter_name(name) for name in SPECS]
    imported = "".join(f"    from .{name} import {name} as {name}\n" for name in names)
    listed = "".join(f'    "{name}",\n' for name in names)
    package = (
        f'"""A function for every module, in a file of its own that is loaded on first use.\n\n'
        f'{_NOT_EDITED}\n"""\n\nTYPE_CHECKING = False\n\nif TYPE_CHECKING:\n{imported}\n'
        f"__all__ = [\n{listed}]\n"
    )
    files = {f"{parameter_name(name)}.py": _file(spec) for name, spec in SPECS.items()}
    return {"__init__.py": package, **files}


def _file(spec: dict[str, Any]) -> str:
    """The file of one function."""
    declared = _declaration(spec)
    lines = []
    for module, names in _TYPES.items():
        used = [name for name in names if re.search(rf"\b{name}\b", _signature(spec))]
        lines += [f"    from {module} import {', '.join(used)}\n"] if used else []
    types = f"TYPE_CHECKING = False\n\nif TYPE_CHECKING:\n{''.join(lines)}\n" if lines else ""
    return (
        f'"""The function `{parameter_name(spec["name"])}`. {_NOT_EDITED}"""\n\n'
        f'# mypy: disable-error-code="empty-body"\n'
        f"# `configures` makes the body.\n\n"
        f"from __future__ import annotations\n\nfrom ..modules import ModuleCall, configures\n\n"
        f"{types}\n{declared}"
    )


def _declaration(spec: dict[str, Any]) -> str:
    given = [_literal(spec["name"])]
    for word, is_such in (("lists", _takes_a_list), ("data", _takes_data)):
        named = [_literal(name) for name, one in options_of(spec).items() if is_such(one)]
        given += [f"{word}=[{', '.join(named)}]"] if named else []
    return (
        f"@configures({', '.join(given)})\n"
        f"def {parameter_name(spec['name'])}{_signature(spec)} -> ModuleCall:\n"
        f"{_docstring(doc_of(spec))}\n"
    )


def _signature(spec: dict[str, Any]) -> str:
    required = required_of(spec)
    options = options_of(spec)
    parameters = [f"{parameter_name(name)}: {type_of(options[name])}" for name in required]
    optional = [name for name in options if name not in required]
    if optional:
        parameters.append("*")
    for name in optional:
        default = _literal(options[name].get("default"))
        given = type_of(options[name])
        if name in OF_TYPES and "x-python" not in options[name]:
            given = "SchemaLike | None | Var"
        given = given if "None" in given.split(" | ") or default != "None" else f"{given} | None"
        parameters.append(f"{parameter_name(name)}: {given} = {default}")
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"(\n{lines})" if parameters else "()"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _takes_a_list(schema: dict[str, Any]) -> bool:
    return "array" in schema.get("type", ()) and isinstance(schema.get("items"), dict)


def _takes_data(schema: dict[str, Any]) -> bool:
    return schema.get("x-python") == "Any"


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
