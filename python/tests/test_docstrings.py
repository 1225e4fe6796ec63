"""The examples in docstrings run."""

from __future__ import annotations

import ast
import doctest
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import euphrates as eu

PACKAGE = Path(eu.__file__).parent
NATIVE = "euphrates._euphrates"
"""The compiled part: the docstrings that editors show are those of its stub."""
GLOBALS = {"eu": eu, "__name__": "__main__"}
"""What an example finds; the classes and functions that it defines are those of a program."""

Definition = ast.Module | ast.ClassDef | ast.FunctionDef


def definitions(node: Definition, name: str) -> Iterator[tuple[str, Definition]]:
    yield name, node
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from definitions(child, f"{name}.{child.name}")


def sources() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path
    yield NATIVE, PACKAGE / "_euphrates.pyi"


DEFINITIONS = [
    (name, node, path)
    for module, path in sources()
    for name, node in definitions(ast.parse(path.read_text(encoding="utf-8")), module)
]


def examples() -> Iterator[doctest.DocTest]:
    parser = doctest.DocTestParser()
    for name, node, path in DEFINITIONS:
        text = ast.get_docstring(node, clean=False)
        if text and ">>>" in text:
            yield parser.get_doctest(text, GLOBALS, name, str(path), node.body[0].lineno - 1)


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_run(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(example, out=shown.write)
    assert not shown.getvalue(), shown.getvalue()
