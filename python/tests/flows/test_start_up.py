"""A program loads only the parts of the package that it uses, and finds all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import euphrates as eu
from euphrates import _api, _functions

ROOT = Path(__file__).resolve().parents[3]
FIRST_FLOW = """
flow = eu.Flow()
flow.chain(eu.generate("integers", rows=1000), eu.filter("n > 3"), eu.collect())
report = flow.go(memory="1GiB", progress=False)
assert report.collected().num_rows == 996
assert str(report).startswith("flow `flow` finished")
"""
SLOW_TO_LOAD = {
    *("collections", "contextlib", "dataclasses", "datetime", "difflib", "enum", "functools"),
    *("html", "inspect", "json", "pickle", "re", "shutil", "textwrap", "threading", "traceback"),
    *("typing",),
    "euphrates._display.chart",
    "euphrates._display.progress",
    "euphrates._display.report_parts",
    "euphrates._processes.studio",
    "euphrates._user_code.module",
    "euphrates.cluster",
    "euphrates.explanation",
    "euphrates.launch",
    "euphrates.notebook",
    "euphrates.perturbation",
    "euphrates.ray",
}


def loaded_by(program: str) -> set[str]:
    """The modules that Python loads for a program, beyond those of its own start."""
    lines = [
        "import sys",
        "before = set(sys.modules)",
        "import euphrates as eu",
        program,
        "loaded = set(sys.modules) - before",
        "import json",
        "print(json.dumps(sorted(loaded)))",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(json.loads(shown.stdout))


def test_first_flow_loads_only_what_it_uses() -> None:
    loaded = loaded_by(FIRST_FLOW)
    assert "euphrates.flow" in loaded
    assert not loaded & SLOW_TO_LOAD


def test_import_loads_no_part() -> None:
    assert loaded_by("") == {"euphrates"}


def test_every_public_name_is_found() -> None:
    assert len(eu.__all__) == len(set(eu.__all__))
    assert set(eu.__all__) == {*_api.__all__, *_functions.__all__}
    assert all(getattr(eu, name) is getattr(_api, name) for name in _api.__all__)
    assert set(eu.__all__) <= set(dir(eu))


def test_star_import_has_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from euphrates import *", names)
    assert set(eu.__all__) <= set(names)


def test_parts_are_found_without_an_import_of_their_own() -> None:
    loaded = loaded_by("assert eu.errors.UsageError is eu.UsageError")
    assert "euphrates.flow" not in loaded


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            "eu.sort()",
            "eu.sort(): missing a required argument: 'by'; "
            'for example eu.sort(["city", "price desc"])',
        ),
        (
            "eu.sort('a', 'b')",
            'eu.sort(): too many positional arguments; write a list: eu.sort(["a", "b"])',
        ),
        (
            "eu.sort('a', by='b')",
            "eu.sort(): multiple values for argument 'by'; "
            'for example eu.sort(["city", "price desc"])',
        ),
        ("eu.limit(3, row=3)", "eu.limit() has no option 'row'; did you mean `rows`?"),
    ],
)
def test_calls_that_do_not_fit_say_why(call: str, error: str) -> None:
    with pytest.raises(TypeError) as raised:
        eval(call)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    "value",
    [None, True, -3, 2**64, 0.1, 1e300, "Ur", "é", 'a "b"\n\\', "", [1, [], {}], {"a": {"": "\0"}}],
)
def test_documents_are_json(value: object) -> None:
    from euphrates._options import json_text

    assert json.loads(json_text(value)) == value


def test_type_checkers_know_the_options_of_functions(tmp_path: Path) -> None:
    program = tmp_path / "typed.py"
    program.write_text('import euphrates as eu\neu.sort(["a"])\neu.sort(3)\neu.limit(rowz=3)\n')
    # With the project's settings mypy does not read the packages that tables come from.
    settings = ["--no-incremental", f"--config-file={ROOT / 'pyproject.toml'}"]
    command = [sys.executable, "-m", "mypy", *settings, str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    wrong = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line.split(":")[1] for line in wrong] == ["3", "4"], done.stdout
    assert "incompatible type" in wrong[0] and "rowz" in wrong[1]
