"""Commands on collections when some are damaged or missing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import euphrates as eu
from test_failure import EUPHRATES


def make(*names: str) -> None:
    for name in names:
        flow = eu.Flow("make")
        flow.chain(eu.generate("integers", rows=1000), eu.write(name))
        flow.go()


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([EUPHRATES, *arguments], capture_output=True, text=True)


def test_rm_removes_nothing_if_a_name_is_unknown() -> None:
    make("one", "two")
    assert run("rm", "one", "nothing").returncode == 2
    assert "one" in run("ls").stdout
    assert run("rm", "one", "two").returncode == 0
    assert run("ls").stdout == ""


def test_damaged_manifest_hides_no_other_collection(tmp_path: Path) -> None:
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


def test_missing_segment_is_reported_as_damage(tmp_path: Path) -> None:
    make("kept")
    for segment in (tmp_path / "home/data").rglob("*.arrow"):
        segment.unlink()
    verified = run("verify", "kept")
    assert verified.returncode == 3
    assert "missing" in verified.stderr


def name_disks(home: Path, count: int, workers: int) -> list[str]:
    home.mkdir(parents=True, exist_ok=True)
    disks = [
        {"name": f"d{at}", "folder": f"disk{at}", "worker": f"w{at % workers}"}
        for at in range(count)
    ]
    (home / "disks.json").write_text(json.dumps(disks))
    return [disk["name"] for disk in disks]


def flip(path: Path, offset: int) -> None:
    text = bytearray(path.read_bytes())
    text[offset] ^= 1
    path.write_bytes(text)


def test_mirrored_collection_survives_block_and_disk_loss(tmp_path: Path) -> None:
    home = tmp_path / "home"
    disks = name_disks(home, 3, 3)
    flow = eu.Flow("write")
    numbers = eu.generate("integers", rows=500_000, order=True)
    flow.chain(numbers, eu.write("kept", disks=disks, copies=2, layout="chained"))
    flow.go()
    assert "2 copies, chained, on d0, d1, d2" in run("ls").stdout
    assert "mirror on disk d1" in run("describe", "kept").stdout
    assert "3 segments, 6 copies" in run("verify", "kept").stderr

    bad = sorted((home / "disk0").rglob("*.arrow"))[0]
    flip(bad, bad.stat().st_size // 2)
    verified = run("verify", "kept")
    assert verified.returncode == 3
    assert "disk d0" in verified.stderr and "block" in verified.stderr

    flow = eu.Flow("read")
    flow.chain(eu.read("kept", order=True, mirrors="primary"), eu.collect())
    report = flow.go()
    assert [row["n"] for row in report.collected().to_pylist()] == list(range(500_000))
    assert "read from mirrors" in str(report)

    repaired = run("repair", "kept")
    assert repaired.returncode == 0
    assert "mended: disk d0" in repaired.stderr
    assert not bad.exists()
    assert "sound" in run("verify", "kept").stderr

    for file in sorted((home / "disk1").rglob("*")):
        if file.is_file():
            file.unlink()
    assert run("repair", "kept").returncode == 0
    assert "nothing to repair" in run("repair", "kept").stderr


def test_block_without_a_good_copy_is_not_repaired(tmp_path: Path) -> None:
    home = tmp_path / "home"
    disks = name_disks(home, 2, 1)
    flow = eu.Flow("write")
    flow.chain(eu.generate("integers", rows=1000), eu.write("kept", disks=disks, copies=2))
    assert "on one worker" in str(flow.go())
    for copy in (home).rglob("0.arrow"):
        flip(copy, copy.stat().st_size // 2)
    repaired = run("repair", "kept")
    assert repaired.returncode == 3
    assert "no good copy: disk d1" in repaired.stderr
    assert run("repair", "nothing").returncode == 2


def test_more_copies_than_disks_is_a_usage_error(tmp_path: Path) -> None:
    disks = name_disks(tmp_path / "home", 2, 2)
    flow = eu.Flow("write")
    flow.chain(eu.generate("integers", rows=10), eu.write("x", disks=disks, copies=3))
    with pytest.raises(eu.UsageError, match="3 copies need 3 disks, and 2 are named"):
        flow.go()
