"""Writes the files derived from the modules' specs: the type stub, the reference page, and the
studio's data about modules, documents and generated code.

Run `python -m euphrates._tools.derive` in the project's folder; `--check` only compares.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from inspect import getdoc
from pathlib import Path
from typing import Any, Literal

from .._user_code.flow_files import document_of_file
from ..flow import Flow
from ..modules import (
    SPECS,
    ModuleCall,
    doc_of,
    module,
    options_of,
    parameter_name,
    required_of,
)
from .code_map import CODE_MAP, code_map

STUB = Path("python/euphrates/modules.pyi")
PAGE = Path("docs/modules.md")
STUDIO_MODULES = Path("studio/src/generated/modules.json")
STUDIO_DOCUMENT = Path("studio/src/generated/document.json")
STUDIO_FLOWS = Path("studio/tests/flows")
"""Test documents with the code that Rust generates for them, which the studio must reproduce."""
STUDIO_WRITTEN = Path("studio/tests/written")
"""Test programs with the document that Python builds from them, which the studio must read."""

_STUB_HEAD = '''\
# Derived from the modules by `make derive`; not to be edited.
from collections.abc import Callable, Mapping, Sequence
from inspect import Signature
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

def parameter_name(option: str) -> str: ...
def options_of(spec: dict[str, Any]) -> dict[str, dict[str, Any]]: ...
def required_of(spec: dict[str, Any]) -> list[str]: ...
def signature_of(spec: dict[str, Any]) -> Signature: ...
def doc_of(spec: dict[str, Any]) -> str: ...
def function_of(spec: dict[str, Any]) -> Callable[..., ModuleCall]: ...
'''
_PAGE_HEAD = """\
# Modules

What flows can be made of. In Python each is a function, `eu.scan("data.csv")`; what is required
can be given by position. `euphrates modules NAME` prints the same. Sizes are in bytes and times in
seconds unless a name says otherwise.
"""
_WIDTH = 92


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


def page() -> str:
    """The reference page of all modules."""
    return _PAGE_HEAD + "".join(_section(spec) for spec in SPECS.values())


def _section(spec: dict[str, Any]) -> str:
    required = required_of(spec)
    options = [
        f"- **`{name}`**{' (required)' if name in required else ''}: "
        + " ".join(schema.get("description", "").split())
        for name, schema in options_of(spec).items()
    ]
    facts = [
        f"inputs: {_ports(spec['inputs'])}",
        f"outputs: {_ports(spec['outputs'])}",
        f"order: {spec['order']}",
        "instances: " + ("many" if spec["parallel"] else "one"),
    ]
    parts = [f"\n## {spec['name']}", spec["summary"], spec["detail"], "; ".join(facts) + "."]
    wrapped = [textwrap.fill(part, _WIDTH) if not part.startswith("\n") else part for part in parts]
    listed = [textwrap.fill(option, _WIDTH, subsequent_indent="  ") for option in options]
    example = f"```pycon\n{spec['example']}\n```"
    return "\n\n".join(filter(None, [*wrapped, "\n".join(listed), example])) + "\n"


def _ports(names: Any) -> str:
    if names == "many":
        return "as many as are attached"
    if names == "configured":
        return "as configured"
    return ", ".join(f"`{name}`" for name in names) or "none"


def studio_modules() -> str:
    """The specs of all modules, for the studio."""
    return _readable([*SPECS.values()])


def studio_document() -> str:
    """The JSON schema of documents, for the studio."""
    command = [sys.executable, "-m", "euphrates", "show", "--schema"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    return _readable(json.loads(shown.stdout))


def studio_codes() -> dict[Path, str]:
    """The code that Rust generates for each of the studio's test documents, as the expected
    result.
    """
    flows = {path: Flow.load(path) for path in sorted(STUDIO_FLOWS.glob("*.json"))}
    languages: tuple[Literal["python", "rust"], ...] = ("python", "rust")
    return {
        path.with_suffix(f".{language}"): flow.code(language)
        for path, flow in flows.items()
        for language in languages
    }


def studio_documents() -> dict[Path, str]:
    """The document that Python builds for each of the studio's test programs."""
    programs = sorted(STUDIO_WRITTEN.glob("*.py"))
    return {
        path.with_suffix(".json"): _readable(json.loads(document_of_file(path, is_kept=True)))
        for path in programs
    }


def _readable(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def derived() -> dict[Path, str]:
    """Every derived file and its expected content, relative to the project's folder."""
    return {
        STUB: stub(),
        PAGE: page(),
        CODE_MAP: code_map(),
        STUDIO_MODULES: studio_modules(),
        STUDIO_DOCUMENT: studio_document(),
        **studio_codes(),
        **studio_documents(),
    }


def main() -> None:
    """Writes the derived files, or reports which are stale."""
    stale = []
    for path, text in derived().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path))
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    if stale:
        print("stale:" if "--check" in sys.argv else "written:", *stale)
    sys.exit(1 if stale and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
