"""Commands on collections when some of them are damaged or missing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import euphrates as eu
from test_failure import EUPHRATES


def make(*names: str) -> None:
    for name in names:
        flow = eu.Flow("make")
        flow.chain(eu.generate("integers", rows=1000), eu.write(name))
        flow.go()


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([EUPHRATES, *arguments], capture_output=True, text=True)


def test_nothing_is_removed_unless_all_names_are_known() -> None:
    make("one", "two")
    assert run("rm", "one", "nothing").returncode == 2
    assert "one" in run("ls").stdout
    assert run("rm", "one", "two").returncode == 0
    assert run("ls").stdout == ""


def test_a_damaged_manifest_hides_no_other(tmp_path: Path) -> None:
    make("good", "bad")
    [manifest] = (tmp_path / "home/catalog/bad").rglob("*.json")
    manifest.write_bytes(manifest.read_bytes()[:100])
    listed = run("ls")
    assert listed.returncode == 3
    assert "good" in listed.stdout
    assert str(manifest) in listed.stderr
    told = run("--log", "json", "ls")
    error = json.loads(told.stderr)["error"]
    assert error["kind"] == "corrupt" and error["remedy"]


def test_a_missing_segment_is_damage(tmp_path: Path) -> None:
    make("kept")
    for segment in (tmp_path / "home/data").rglob("*.arrow"):
        segment.unlink()
    verified = run("verify", "kept")
    assert verified.returncode == 3
    assert "missing" in verified.stderr
