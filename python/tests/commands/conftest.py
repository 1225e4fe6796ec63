"""The command line as a user has it: a folder with small files, and a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROWS = "x,y\n3,Kish\n1,Ur\n2,Uruk\n"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `euphrates` with words, and checks its exit code."""
    environment = {**os.environ, "EUPHRATES_HOME": str(tmp_path / "home")}
    (tmp_path / "a.csv").write_text(ROWS)

    def runner(*words: str, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "euphrates", *words],
            cwd=tmp_path,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return runner
