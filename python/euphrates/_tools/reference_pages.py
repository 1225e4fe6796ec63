"""Writes reference pages: the command line from its help, documents from their schema, and the
Python API as directives, of which mkdocstrings makes the text from docstrings.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import euphrates as eu

from .._shell.completion import functions_by_kind
from ..modules import SPECS
from .functions import parameter_name

COMMANDS = Path("docs/cli-reference.md")
DOCUMENT = Path("docs/document.md")
FUNCTIONS = Path("docs/functions.md")
API = Path("docs/api")

_WIDTH = 112
_NOT_EDITED = "Derived by `make derive`; do not edit it."
_LOG = re.compile(r"^ +--log <LOG>\n(?: {10}.*\n|\s*\n)*", re.MULTILINE)
"""The option that all commands have."""
_HEADINGS = r"^(Arguments|Options|Formats and output|Text input|Resources):\n"
_ITEM = re.compile(r"^ {2,6}(?=[-<\[])(.+)$")


class Group(NamedTuple):
    """A page of the Python API: what it has, by the module that defines it."""

    title: str
    begins: str
    homes: tuple[str, ...]


GROUPS = {
    "flows": Group(
        "Flows",
        "Graphs of modules and queues: [concepts](../concepts.md), [guide](../python.md).",
        ("flow", "_user_code.placed", "_config", "explanation", "running", "_display.progress"),
    ),
    "queries": Group(
        "Queries and expressions",
        "Flows as SQL or as a chain of methods: [guide](../sql.md).",
        (
            *("queries", "_user_code.query_tables", "expressions"),
            *("_lakes.delta", "_lakes.iceberg", "_lakes.clustering", "_user_code.processed"),
        ),
    ),
    "feeding": Group(
        "Consumers",
        "Programs that take batches at their own pace: [guide](../feeding.md).",
        ("_feeding.consumer", "_feeding.split"),
    ),
    "data": Group(
        "Tables, batches and schemas",
        "What comes out of flows, and what functions get. All speak Arrow's C interface.",
        ("_euphrates",),
    ),
    "modules": Group(
        "Modules",
        "Built-in modules are functions; [another page](../modules.md) has their options;"
        " your own are functions or classes: [guide](../writing-modules.md).",
        ("modules", "_user_code.module"),
    ),
    "reports": Group(
        "Reports and perturbations",
        "What a run did, and how to make a part of it slow: [reports](../report.md),"
        " [perturbations](../perturbation.md).",
        ("report", "_display.report_parts", "perturbation", "_processes.studio"),
    ),
    "clusters": Group(
        "Clusters and launched programs",
        "Workers, and programs on them: [clusters](../clusters.md), [launching](../launch.md).",
        ("cluster", "launch"),
    ),
    "files": Group(
        "Striped files",
        "File objects whose bytes lie on many disks: [guide](../striped-files.md).",
        ("_files.striped", "_files.views", "_files.sessions", "_files.homes"),
    ),
    "errors": Group(
        "Errors",
        "One class for each kind; the kind decides the exit code: [errors](../errors.md).",
        ("errors",),
    ),
}
_FIRST = {
    "flows": ["Flow", "Placed", "Running", "Explanation"],
    "queries": ["sql", "query", "Query", "Grouped", "Expression", "col", "lit", "call"],
    "errors": ["EuphratesError"],
    "reports": ["Report"],
    "clusters": ["Cluster"],
    "data": ["Table", "Batch", "Schema", "schema"],
    "modules": ["Module"],
    "files": ["open_striped"],
    "feeding": ["Split", "Consumer"],
}


def reference_pages() -> dict[Path, str]:
    """All pages, by their path in the project's folder."""
    pages = {API / f"{name}.md": _api_page(name) for name in GROUPS}
    return {
        **pages,
        COMMANDS: commands_page(),
        DOCUMENT: document_page(),
        FUNCTIONS: functions_page(),
    }


def public_places() -> dict[str, str]:
    """Where each public name is defined, below `euphrates`; without the functions of modules."""
    functions = {parameter_name(name) for name in SPECS}
    names: list[str] = getattr(eu, "__all__")  # noqa: B009 - it is made when it is asked for
    return {name: _home(name) for name in names if name not in functions and name != "__version__"}


def _home(name: str) -> str:
    value = getattr(eu, name)
    if name == "EMPTY":
        return "_user_code.module"
    module: str = value.__module__
    is_native = module == "euphrates" or module.endswith("._euphrates")
    return "_euphrates" if is_native else module.removeprefix("euphrates.")


def _api_page(page: str) -> str:
    group = GROUPS[page]
    places = public_places()
    known = {home for one in GROUPS.values() for home in one.homes}
    lost = {name for name, home in places.items() if home not in known}
    assert not lost, f"give these names a page in `GROUPS`: {sorted(lost)}"
    names = [name for name, home in places.items() if home in group.homes]
    first = [name for name in _FIRST.get(page, []) if name in names]
    parts = [f"# {group.title}", textwrap.fill(group.begins, _WIDTH)]
    inherited = "" if page == "errors" else "\n    options:\n      inherited_members: true"
    for name in [*first, *sorted(set(names) - set(first), key=lambda n: (n.lower(), n))]:
        parts.append(f"::: euphrates.{places[name]}.{name}{inherited}")
    if page == "modules":
        parts += ["## Functions of modules", "\n".join(_module_rows())]
    return "\n\n".join(parts) + "\n"


def _module_rows() -> Iterator[str]:
    yield "| function | |"
    yield "|---|---|"
    for name, spec in SPECS.items():
        yield f"| [`eu.{parameter_name(name)}`](../modules.md#{name}) | {spec['summary']} |"


def commands_page() -> str:
    """The command line: every command with its arguments and options, as its help has them."""
    top = _help()
    commands = _commands(top)
    options, _, after = _until_text(top.split("Options:\n")[1])
    listed = _items(options)
    parts = [
        "# Commands and options",
        "Every command of `euphrates`, as `euphrates COMMAND --help` prints it.\n"
        f"The [guide](cli.md) has examples and exit codes. {_NOT_EDITED}",
        "## All commands",
        f"```\n{after.strip()}\n```",
        "\n".join(_listed(listed)),
    ]
    for command in commands:
        text = _help(command)
        parts.append(_command(command, text))
        below = [f"{command} {one}" for one in _commands(text)]
        parts += [_command(one, _help(*one.split())) for one in below]
    return "\n\n".join(parts) + "\n"


def _commands(text: str) -> list[str]:
    """The commands that a help lists, below `Commands:`."""
    listed, _, _ = _until_text(text.partition("\nCommands:\n")[2])
    found: list[str] = re.findall(r"^  ([a-z][a-z-]+)(?: |$)", listed, re.MULTILINE)
    return [name for name in found if name != "help"]


def _help(*command: str) -> str:
    called = [sys.executable, "-m", "euphrates", *command, "--help"]
    shown = subprocess.run(called, check=True, capture_output=True, text=True)
    return "\n".join(line.rstrip() for line in shown.stdout.splitlines()) + "\n"


def _command(name: str, text: str) -> str:
    about, _, rest = _LOG.sub("", text).partition("Usage: ")
    usage, _, rest = rest.partition("\n")
    said = textwrap.fill(f"{' '.join(about.split())}.", _WIDTH)
    parts = [f"## {name}", said, f"```\n{usage}\n```"]
    sections = re.split(_HEADINGS, rest, flags=re.MULTILINE)
    for title, body in zip(sections[1::2], sections[2::2]):
        body, _, after = _until_text(body)
        items = [item for item in _items(body) if "--help" not in item[0]]
        if items:
            parts += [f"{title}:", "\n".join(_listed(items))]
        if after.strip():
            parts.append(f"```\n{textwrap.dedent(after).strip()}\n```")
    return "\n\n".join(parts)


def _until_text(body: str) -> tuple[str, str, str]:
    """Options, and what stands behind them at the margin."""
    found = re.search(r"^\S", body, re.MULTILINE)
    return (body[: found.start()], "", body[found.start() :]) if found else (body, "", "")


def _items(body: str) -> list[tuple[str, str]]:
    items: list[tuple[str, str]] = []
    for line in body.splitlines():
        if begun := _ITEM.match(line):
            # A short item has its text on the same line.
            name, _, text = begun[1].partition("  ")
            items.append((name, text.strip()))
        elif items and line.strip():
            name, text = items[-1]
            if re.match(r"\s+\[default: ", line):
                # Behind the values that are possible, and about all of them.
                first, newline, values = text.partition("\n")
                items[-1] = (name, f"{first} {line.strip()}{newline}{values}")
            else:
                joined = "\n" if re.match(r"\s+- \S+:", line) else " "
                items[-1] = (name, f"{text}{joined}{line.strip()}".strip(" "))
    return items


def _listed(items: list[tuple[str, str]]) -> Iterator[str]:
    for name, text in items:
        first, *values = text.split("\n")
        first = " ".join(first.replace("Possible values:", "").split())
        head = f"- **`{name}`**: {_escaped(first)}".rstrip()
        yield textwrap.fill(head, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        for value in values:
            word, _, meaning = value.removeprefix("- ").partition(":")
            text = f"    - `{word}`: {_escaped(meaning.strip())}"
            yield textwrap.fill(text, _WIDTH, subsequent_indent="      ")


def _escaped(text: str) -> str:
    """Text of the help as Markdown: angle brackets and stars stand for themselves."""
    return re.sub(r"([<>*\[\]])", r"\\\1", text)


_KINDS = {
    "aggregate": ("Aggregates", "Of many rows one value; also as [windows](sql.md#windows)."),
    "window": ("Windows", "With `over (…)`, a value for each row."),
    "lambda": ("With lambdas", "For each item of a list: [lambdas](expressions.md#lambdas)."),
    "scalar": ("Of one row", "In every expression."),
}


def functions_page() -> str:
    """The names of all functions of SQL, by their kind and first letter."""
    parts = [
        "# SQL functions",
        "Every function that a query may call. [Expressions](expressions.md) says how values are\n"
        "compared and computed, and [aggregates](aggregating.md#what-can-be-computed) what each\n"
        f"gives. {_NOT_EDITED}",
    ]
    known = functions_by_kind()
    for kind, (title, begins) in _KINDS.items():
        parts += [f"## {title}", begins]
        letters: dict[str, list[str]] = {}
        for name in known[kind]:
            letters.setdefault(name[0], []).append(f"`{name}`")
        listed = [f"- {', '.join(names)}" for names in letters.values()]
        wrapped = [textwrap.fill(one, _WIDTH, subsequent_indent="  ") for one in listed]
        parts.append("\n".join(wrapped))
    return "\n\n".join(parts) + "\n"


def document_page() -> str:
    """The fields of a flow document, from its schema."""
    called = [sys.executable, "-m", "euphrates", "show", "--schema"]
    schema = json.loads(subprocess.run(called, check=True, capture_output=True, text=True).stdout)
    parts = [
        "# Flow documents",
        "A flow as JSON: what `flow.to_json()` and the studio write, and `eu.Flow.from_json`,\n"
        "`euphrates run` and the studio read. `euphrates show --schema` prints the schema.\n"
        f"Configurations of modules are on [their page](modules.md). {_NOT_EDITED}",
        "\n".join(["| field | type | meaning |", "|---|---|---|", *_fields(schema, "")]),
    ]
    return "\n\n".join(parts) + "\n"


def _fields(schema: dict[str, Any], before: str) -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        meaning = " ".join(field.get("description", "").split()).replace("|", "\\|")
        needed = " (required)" if name in required else ""
        yield f"| `{before}{name}`{needed} | {_type(field)} | {meaning} |"
        inner, mark = field, "."
        if isinstance(field.get("items"), dict):
            inner, mark = field["items"], "[]."
        elif isinstance(field.get("additionalProperties"), dict):
            inner, mark = field["additionalProperties"], ".NAME."
        yield from _fields(inner, f"{before}{name}{mark}")


def _type(schema: dict[str, Any]) -> str:
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[word])))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kinds = schema.get("type", "any value")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
