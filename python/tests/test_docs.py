"""The examples and every code block of README and manual run as they stand."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import secrets
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib

import rig
from euphrates import _euphrates

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


IN_SEQUENCE = ("tutorial.md", "from-")
"""Pages whose blocks build on each other, by the beginning of their names."""


def blocks(language: str) -> list[tuple[str, str]]:
    """The blocks that run alone."""
    return [
        (f"{page.name}-{number}", code)
        for page in PAGES
        if not page.name.startswith(IN_SEQUENCE)
        for number, (_, code) in enumerate(found_in(page, language))
    ]


def found_in(page: Path, languages: str) -> list[tuple[str, str]]:
    """Language and text of each block; those of tabs are indented."""
    fence = rf"^( *)```({languages})\n(.*?)^ *```$"
    found = re.finditer(fence, page.read_text(), re.DOTALL | re.MULTILINE)
    return [(block[2], textwrap.dedent(block[3])) for block in found]


@pytest.fixture(scope="module", autouse=True)
def rays_own() -> Iterator[None]:
    """Ray's folder, whose path must be short, and a token, which it would keep in the home."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield


def skip_if_missing(name: str, code: str) -> None:
    """What the page of the rig shows needs root, and features of the kernel; some of it Ray. What
    notebooks show needs Node when it is built, and a mount needs the kernel's device.
    """
    why = rig.missing() if name.startswith("rig.md") else None
    if why is None and ("RayCluster" in code or "Cluster.ray" in code):
        why = rig.ray.missing()
    if "eu.studio(" in code and _euphrates.notebook() is None:
        why = "built without Node"
    if why is None and "import h5py" in code:
        why = None if importlib.util.find_spec("h5py") else "h5py is not installed"
        why = why or (None if os.access("/dev/fuse", os.R_OK | os.W_OK) else "no /dev/fuse")
    if why is not None:
        pytest.skip(why)


def environment(folder: Path) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    own = {"EUPHRATES_HOME": str(folder / "home"), "TMPDIR": str(temporary)}
    # The rig is used from the tree.
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, **own, "PATH": path}


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "code"), blocks("python"), ids=lambda value: value[:24])
def test_python_blocks_run(name: str, code: str, tmp_path: Path) -> None:
    skip_if_missing(name, code)
    run([sys.executable, "-c", code], tmp_path)


@pytest.mark.parametrize(("name", "script"), blocks("sh"), ids=lambda value: value[:24])
def test_shell_blocks_run(name: str, script: str, tmp_path: Path) -> None:
    if "pip install ." in script:
        # Building takes minutes; what is promised of it is that the command comes with it.
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        assert "euphrates" in project["project"]["scripts"] and (BIN / "euphrates").exists()
        return
    if "make " in script:
        targets = re.findall(r"^make (\w+)", script, re.MULTILINE)
        makefile = (ROOT / "Makefile").read_text()
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
        return
    skip_if_missing(name, script)
    run(["bash", "-ec", script], tmp_path)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name.startswith(IN_SEQUENCE)], ids=lambda p: p.name
)
def test_pages_run_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    for language, group in itertools.groupby(found_in(page, "python|sh"), lambda block: block[0]):
        # One program for neighbours: they take each other's names, and no second import.
        code = "\n".join(text for _, text in group)
        program = [sys.executable, "-c"] if language == "python" else ["bash", "-ec"]
        run([*program, code], tmp_path)


EXAMPLES = pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("[0-9]*.py")), ids=lambda p: p.name
)


@EXAMPLES
def test_examples_run_and_are_short(example: Path, tmp_path: Path) -> None:
    assert len(example.read_text().splitlines()) < 45
    skip_if_missing(example.name, example.read_text())
    assert run([sys.executable, str(example)], tmp_path)
    assert left_behind(tmp_path) == []


@EXAMPLES
def test_the_command_line_checks_and_runs_examples(example: Path, tmp_path: Path) -> None:
    if "flow" not in example.read_text():
        pytest.skip("it has no flow")
    assert "is sound" in run([str(BIN / "euphrates"), "check", str(example)], tmp_path)
    printed = run([str(BIN / "euphrates"), "run", str(example)], tmp_path)
    assert ("collect_1: " in printed) == (
        "eu.collect()" in example.read_text().split("__main__")[0]
    )
    assert left_behind(tmp_path) == []


def left_behind(folder: Path) -> list[Path]:
    """What a program left in its folders, but for the collections it wrote; and for what Ray's
    agents leave, which Ray kills.
    """
    return [path for path in (folder / "tmp").iterdir() if not path.name.startswith("pymp-")] + [
        path for path in folder.iterdir() if path.name not in ("home", "tmp")
    ]


def test_commands_in_the_manual_exist() -> None:
    helped = subprocess.run([BIN / "euphrates", "--help"], capture_output=True, text=True).stdout
    known = set(re.findall(r"^  ([a-z-]+) ", helped, re.MULTILINE))
    for page in PAGES:
        for line in re.findall(r"^euphrates (.*)$", page.read_text(), re.MULTILINE):
            word = line.split()[0]
            assert word in known or word == "COMMAND", f"{page.name}: euphrates {word}"
