"""Writes the files derived from the modules' specs: functions, reference pages, and the
studio's data about modules, documents and generated code.

Run `python -m euphrates._tools.derive` in the project's folder; `--check` only compares.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Literal

from .._user_code.flow_files import document_of_file
from ..flow import Flow
from ..modules import SPECS
from .code_map import CODE_MAP, code_map
from .functions import functions, options_of, required_of
from .reference_pages import reference_pages

FUNCTIONS = Path("python/euphrates/_functions")
PAGE = Path("docs/modules.md")
STUDIO_MODULES = Path("studio/src/generated/modules.json")
STUDIO_DOCUMENT = Path("studio/src/generated/document.json")
STUDIO_FLOWS = Path("studio/tests/flows")
"""Test documents with the code that Rust generates for them, which the studio must reproduce."""
STUDIO_WRITTEN = Path("studio/tests/written")
"""Test programs with the document that Python builds from them, which the studio must read."""

_PAGE_HEAD = """\
# Modules

What flows can be made of. In Python each is a function, `eu.scan("data.csv")`; what is required
can be given by position. `euphrates modules NAME` prints the same. Sizes are in bytes and times in
seconds unless a name says otherwise.
"""
_WIDTH = 92


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
        **{FUNCTIONS / name: text for name, text in functions().items()},
        PAGE: page(),
        CODE_MAP: code_map(),
        **reference_pages(),
        STUDIO_MODULES: studio_modules(),
        STUDIO_DOCUMENT: studio_document(),
        **studio_codes(),
        **studio_documents(),
    }


def main() -> None:
    """Writes the derived files, or reports which are stale."""
    stale = []
    expected = derived()
    for path, text in expected.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path))
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in {*FUNCTIONS.glob("*.py")} - {*expected}:
        stale.append(str(path))
        if "--check" not in sys.argv:
            path.unlink()
    if stale:
        print("stale:" if "--check" in sys.argv else "written:", *stale)
    sys.exit(1 if stale and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
