"""`euphrates file`: striped files on the command line."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from striped_cases import make_home

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))
CONTENT = random.Random(1).randbytes(3_000_001)

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    home = make_home(tmp_path, 4)

    def runner(*words: object, code: int = 0, **options: Any) -> subprocess.CompletedProcess[bytes]:
        command = [EUPHRATES, "file", *map(str, words)]
        environment = {**os.environ, "EUPHRATES_HOME": str(home)}
        options = {"capture_output": True, "timeout": 120, **options}
        done = subprocess.run(command, cwd=tmp_path, env=environment, **options)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return runner


def test_file_is_put_listed_described_got_and_removed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(CONTENT)
    run("put", "local", "models/f", "--data=2")
    assert b"already" in run("put", "local", "models/f", "--data=2", code=2).stderr
    listed = run("ls").stdout.decode()
    assert "models/f" in listed and "2+1" in listed and "d0, d1, d2, d3" in listed
    assert json.loads(run("stat", "models/f", "--json").stdout)["file"]["bytes"] == len(CONTENT)
    assert b"3,000,001 bytes" in run("stat", "models/f").stdout
    run("get", "models/f", "back")
    assert (tmp_path / "back").read_bytes() == CONTENT
    assert run("get", "models/f", "-").stdout == CONTENT
    run("put", "-", "piped", "--data=1", "--parity=2", input=CONTENT)
    assert run("get", "piped", "-").stdout == CONTENT
    run("rm", "models/f", "piped")
    assert run("ls").stdout == b""
    assert b"no striped file named" in run("get", "piped", "x", code=2).stderr
    assert not (tmp_path / "x").exists()


def test_lost_disk_is_found_by_verify_and_restored_by_repair(run: Run, tmp_path: Path) -> None:
    run("put", "-", "f", "--data=2", input=CONTENT)
    assert b"sound" in run("verify", "f").stdout + run("verify", "f").stderr
    shutil.rmtree(tmp_path / "d1")
    found = run("verify", "f", code=3)
    assert b"every byte can be read" in found.stdout + found.stderr
    got = run("get", "f", "-")
    assert got.stdout == CONTENT and b"euphrates file repair f" in got.stderr
    run("repair", "f")
    run("verify", "f")
    shutil.rmtree(tmp_path / "d2")
    shutil.rmtree(tmp_path / "d3")
    run("verify", "f", code=3)
    assert b"is lost" in run("get", "f", "back", code=3).stderr
    assert not (tmp_path / "back").exists() and not (tmp_path / ".back.part").exists()


def test_width_of_all_disks_is_a_warning_and_more_an_error(run: Run) -> None:
    warned = run("put", "-", "f", "--data=3", input=b"1")
    assert b"pace of the slowest disk" in warned.stderr
    wrong = run("put", "-", "g", "--data=4", code=2, input=b"1")
    assert b"needs 5 disks, and there are 4 disks" in wrong.stderr
