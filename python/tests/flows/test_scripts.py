"""Python files that build flows, run from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))
FLOW = '''
"""A flow with a function and a class of its own."""

import dataclasses
import euphrates as eu
from beside import step


@dataclasses.dataclass
class Row:
    n: int


def plus(batch):
    return batch.to_polars() + step


class First(eu.Module):
    def __init__(self, rows):
        self.rows = rows

    def run(self, ports):
        for batch in ports:
            ports.put(batch.slice(0, self.rows))


flow = eu.Flow("own")
flow.chain(eu.generate("integers", rows=1000), eu.map(plus), First(3), eu.collect())

if __name__ == "__main__":
    print("this is the program")
'''


def run(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EUPHRATES_HOME": str(folder / "home")}
    done = subprocess.run(
        [EUPHRATES, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "beside.py").write_text("step = 7\n")
    path = folder / "flow.py"
    path.write_text(FLOW)
    return path


def test_file_with_functions_and_classes_runs_and_checks(script: Path, tmp_path: Path) -> None:
    assert "is sound" in run(tmp_path, "check", "scripts/flow.py").stdout
    printed = run(tmp_path, "run", "scripts/flow.py").stdout
    assert printed.splitlines() == ["n", "-", "7", "8", "9", "collect_1: 3 rows"]
    assert "flowchart" in run(tmp_path, "show", "scripts/flow.py").stdout


def test_documents_and_code_reference_functions_by_file(script: Path, tmp_path: Path) -> None:
    document = run(tmp_path, "show", "scripts/flow.py", "--as", "json").stdout
    modules = {module["id"]: module["config"] for module in json.loads(document)["modules"]}
    assert modules["map_1"] == {"function": f"{script}:plus"}
    assert modules["python_1"] == {"module": f"{script}:First", "args": [3]}
    (tmp_path / "own.json").write_text(document)
    (tmp_path / "own.py").write_text(run(tmp_path, "code", "scripts/flow.py").stdout)
    wanted = run(tmp_path, "run", "scripts/flow.py").stdout
    for again in ["own.json", "own.py"]:
        assert run(tmp_path, "run", again).stdout == wanted
    program = subprocess.run([sys.executable, "own.py"], cwd=tmp_path, capture_output=True)
    assert program.returncode == 0, program.stderr
    script.unlink()
    told = run(tmp_path, "run", "own.json", code=2).stderr
    assert f"`plus` is in '{script}', which cannot be read" in told and "remedy" in told


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("eu.map(lambda batch: batch)", "`<lambda>`"),
        ("eu.map(make())", "`make.<locals>.inner`"),
    ],
)
def test_unnamed_function_runs_and_is_not_saved(module: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "import euphrates as eu\n"
        "def make():\n    def inner(batch):\n        return batch\n    return inner\n"
        "flow = eu.Flow('x')\n"
        f"flow.chain(eu.generate('integers', rows=2), {module}, eu.collect())\n"
    )
    run(tmp_path, "run", "flow.py")
    for command in [["show", "--as", "json"], ["code"]]:
        told = run(tmp_path, *command, "flow.py", code=2).stderr
        assert what in told and "lives in this process only" in told
        assert "remedy" in told and "_processes" not in told


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, ["cannot read the flow", "flow.py", "check the path"]),
        ("def (:\n", ["SyntaxError: invalid syntax", "flow.py", "line 1"]),
        ("x = 1\n\ndef f():\n    return x / 0\n\nf()\n", ["ZeroDivisionError", "line 4", "line 6"]),
        ("import no_such_module\n", ["ModuleNotFoundError: No module named 'no_such_module'"]),
        ("x = 1\n", ["the file leaves no flow behind", "name the flow `flow`"]),
        ("import euphrates as eu\neu.Flow().chain(5)\n", ["5 is not a module", "line 2"]),
        ("import euphrates as eu\neu.scan('x', colums=1)\n", ["did you mean `columns`", "line 2"]),
    ],
)
def test_missing_or_broken_file_is_a_usage_error(
    text: str | None, says: list[str], tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "flow.py").write_text(text)
    for command in ["run", "check"]:
        told = run(tmp_path, command, "flow.py", code=2).stderr
        for words in says:
            assert words in told, told
        for ours in ["runpy", "euphrates/flow.py", "_processes", "modules.py", "importlib"]:
            assert ours not in told, told


def test_atexit_handlers_of_a_file_run(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "import atexit, pathlib\nimport euphrates as eu\n"
        "atexit.register(lambda: pathlib.Path('ended').touch())\n"
        "flow = eu.Flow('x')\n"
        "flow.chain(eu.generate('integers', rows=2), eu.count(), eu.collect())\n"
    )
    run(tmp_path, "check", "flow.py")
    assert (tmp_path / "ended").exists()
