"""The examples in docstrings run, and every public name that a user calls has one."""

from __future__ import annotations

import ast
import doctest
import inspect
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu
from euphrates import _euphrates
from euphrates._tools.functions import parameter_name
from euphrates.modules import SPECS

PACKAGE = Path(eu.__file__).parent
DERIVED = PACKAGE / "_functions"
"""The functions of modules, whose docstrings are derived from specs."""
NATIVE = "euphrates._euphrates"
"""The compiled part: the docstrings that editors show are those of its stub."""
EXEMPT = {
    "Ports.check": "in the example of `Ports.try_get`",
    "Ports.end_run": "in the example of `Ports.begin_run`",
    "Progress.of_json": "reads the engine's form, for `Running.progress`",
    "studio": "shows a flow in a notebook",
}
NOT_RUN = {
    "_files.homes.striped_home": "needs workers that serve disks",
    "cluster.Cluster.at": "needs a persistent cluster",
    "cluster.Cluster.join": "needs workers that join",
    "cluster.Cluster.ray": "needs Ray",
}
NEED_TORCH = {"batch_formats.BatchFormats.iter_torch_batches", "consumer.Consumer.torch_dataset"}
FUNCTIONS = [parameter_name(name) for name in SPECS]
GLOBALS = {"eu": eu, "__name__": "__main__"}
"""What an example finds; the classes and functions that it defines are those of a program."""

Definition = ast.Module | ast.ClassDef | ast.FunctionDef


def definitions(node: Definition, name: str) -> Iterator[tuple[str, Definition]]:
    yield name, node
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from definitions(child, f"{name}.{child.name}")


def sources() -> Iterator[tuple[str, Path]]:
    for path in sorted({*PACKAGE.rglob("*.py")} - {*DERIVED.glob("*.py")}):
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
    for name in FUNCTIONS:
        text = getattr(eu, name).__doc__
        if ">>>" in text:
            yield parser.get_doctest(text, GLOBALS, f"euphrates.{name}", None, None)


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


def test_only_what_needs_other_machines_or_torch_is_not_run() -> None:
    skipped = {
        example.name
        for example in EXAMPLES
        if any(doctest.SKIP in one.options for one in example.examples)
    }
    torch = {f"_feeding.{name}" for name in NEED_TORCH}
    assert skipped == {f"euphrates.{name}" for name in NOT_RUN.keys() | torch}


def test_every_public_name_has_an_example() -> None:
    shown = {example.name for example in EXAMPLES}
    missing = {name for name, places in public_names() if shown.isdisjoint(places)}
    assert missing == set(EXEMPT)


def public_names() -> Iterator[tuple[str, list[str]]]:
    """What a user calls, each with the definitions whose example counts."""
    for name in eu.__all__:
        value = getattr(eu, name)
        if not callable(value):
            continue
        yield name, [place_of(value)]
        if isinstance(value, type):
            bases = [base for one in value.__mro__[:-1] for base in with_bases(place_of(one))]
            for method in {method for base in bases for method in methods_of(base)}:
                yield f"{name}.{method}", [f"{base}.{method}" for base in bases]


def place_of(value: Any) -> str:
    is_native = value.__module__ == "euphrates" and not inspect.isfunction(value)
    module = NATIVE if is_native else value.__module__
    return f"{module}.{value.__qualname__}"


def with_bases(place: str) -> list[str]:
    """A class, and bases that only its stub has."""
    nodes = [node for name, node, _ in DEFINITIONS if name == place]
    bases = nodes[0].bases if nodes and isinstance(nodes[0], ast.ClassDef) else []
    return [place, *(f"{NATIVE}.{ast.unparse(base)}" for base in bases if NATIVE in place)]


def methods_of(place: str) -> Iterator[str]:
    for name, node, _ in DEFINITIONS:
        if isinstance(node, ast.FunctionDef) and name == f"{place}.{node.name}":
            decorators = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
            if not node.name.startswith("_") and decorators.isdisjoint({"property", "setter"}):
                yield node.name


def test_the_stub_says_of_methods_what_the_compiled_part_says() -> None:
    for name, node, _ in DEFINITIONS:
        if name.startswith(NATIVE) and isinstance(node, ast.FunctionDef):
            told = ast.get_docstring(node)
            value: Any = _euphrates
            for part in name.removeprefix(f"{NATIVE}.").replace("_Rows", "Table").split("."):
                value = getattr(value, part)
            if told is not None:
                assert told.partition(">>>")[0].strip() == inspect.cleandoc(value.__doc__), name
