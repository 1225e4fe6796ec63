"""Leftovers of runs that did not finish, and the commands that remove them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import euphrates as eu
import rig
from test_failure import EUPHRATES, wait_for


def staged(folder: Path) -> list[Path]:
    return list(folder.glob(".*"))


def saving(path: Path) -> subprocess.Popen:
    """A process that is writing a large file."""
    code = f"""
import euphrates as eu
flow = eu.Flow("endless")
flow.chain(eu.generate("records", rows=10**11), eu.save({str(path)!r}))
flow.go()
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: any(file.stat().st_size > 0 for file in staged(path.parent)))
    return process


def small(path: Path) -> None:
    flow = eu.Flow("small")
    flow.chain(eu.generate("integers", rows=10), eu.save(str(path)))
    flow.go()


def test_orphaned_staged_file_is_removed_by_the_next_output(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    process = saving(folder / "large.dat")
    process.kill()
    process.wait()
    assert len(staged(folder)) == 1
    mine = folder / ".download.part"
    mine.write_text("somebody else's")
    small(folder / "small.parquet")
    assert staged(folder) == [mine]
    assert not (folder / "large.dat").exists()


@pytest.mark.parametrize("next_flow", ["count", "save", "write"])
def test_orphaned_collection_is_removed_by_the_next_flow(next_flow: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    code = f"""
import euphrates as eu
flow = eu.Flow("endless")
flow.chain(eu.generate("records", rows=10**11), eu.write("large"))
flow.go(home={str(home)!r})
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    staging = home / "data" / ".staging"
    wait_for(lambda: any(file.stat().st_size > 0 for file in staging.rglob("*.arrow")))
    sinks = {
        "count": [eu.count(), eu.collect()],
        "save": [eu.save(str(tmp_path / "small.csv"), overwrite=True)],
        "write": [eu.write("small", overwrite=True)],
    }

    def run() -> None:
        flow = eu.Flow("small")
        flow.chain(eu.generate("integers", rows=10), *sinks[next_flow])
        flow.go(home=home)

    run()
    assert any(staging.rglob("*.arrow")), "what the living have in the making stays"
    process.kill()
    process.wait()
    run()
    assert not any(staging.rglob("*.*"))


def test_staged_files_of_live_runs_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    process = saving(folder / "large.dat")
    small(folder / "small.parquet")
    assert len(staged(folder)) == 1
    process.send_signal(signal.SIGINT)
    assert process.wait() != 0
    assert staged(folder) == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signalled_run_is_cleaned_up(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command = [EUPHRATES, "gensort", "1000000000", str(folder / "data")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    wait_for(lambda: staged(folder))
    process.send_signal(getattr(signal, name))
    assert process.wait() == 130, process.stderr.read()
    assert os.listdir(folder) == []


def test_named_pipe_output_is_not_replaced(tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    small(source)
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    command = [
        EUPHRATES,
        "sort",
        str(source),
        "-o",
        str(link),
        "--by",
        "n",
        "--output-format",
        "csv",
    ]
    run = subprocess.run([*command, "--overwrite"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "copy-out" in run.stderr
    assert link.is_symlink()


def test_duplicate_output_names_are_rejected_before_writing(tmp_path: Path) -> None:
    flow = eu.Flow("twice")
    tee = flow.place(eu.tee())
    flow.attach(flow.place(eu.generate("integers", rows=10)), tee)
    for _ in range(2):
        flow.attach(tee, flow.place(eu.save(str(tmp_path / "same.parquet"))))
    with pytest.raises(eu.UsageError, match="is made by two modules"):
        flow.go()
    assert not list(tmp_path.glob("*same*"))


needs_syscalls = pytest.mark.skipif(
    rig.missing("syscalls") is not None, reason=str(rig.missing("syscalls"))
)


def run(home: Path, command: list[str | Path], fault: Callable[[rig.Call], str]) -> rig.Run:
    with rig.Syscalls([home]) as syscalls:
        return syscalls.run([EUPHRATES, *command], fault)


def collection_of(home: Path, rows: int) -> Path:
    """A flow that replaces a collection by that many numbers."""
    flow = eu.Flow("numbers")
    flow.chain(eu.generate("integers", rows=rows), eu.write("c", overwrite=True))
    path = home / f"{rows}.json"
    path.write_text(flow.to_json())
    return path


def rows_of(name: str) -> int:
    flow = eu.Flow("count")
    flow.chain(eu.read(name), eu.count(), eu.collect())
    return int(flow.go(progress=False).collected().to_pylist()[0]["count"])


def segments(home: Path) -> set[Path]:
    return set((home / "data").rglob("*.arrow"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a collection of ten numbers."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("EUPHRATES_HOME", str(home))
    subprocess.run([EUPHRATES, "run", collection_of(home, 10)], check=True)
    return home


def fails_syncs_of_versions() -> Callable[[rig.Call], str]:
    """Fails the first sync of the catalog's folder after a version was renamed into it."""
    seen: list[str] = []

    def fault(call: rig.Call) -> str:
        is_version = call.kind == "rename" and call.paths[-1].endswith(".v/0000000002.json")
        is_sync = call.kind == "fsync" and call.paths[0].endswith("/.v")
        if is_version or (seen == ["shown"] and is_sync):
            seen.append("failed" if is_sync else "shown")
        return "EIO" if is_sync and seen[-1:] == ["failed"] and len(seen) == 2 else "pass"

    return fault


@needs_syscalls
@pytest.mark.parametrize("command", ["run", "rm"])
def test_unsynced_version_is_reported_and_old_version_kept(command: str, home: Path) -> None:
    old = segments(home)
    words: list[str | Path] = ["rm", "c"] if command == "rm" else ["run", collection_of(home, 20)]
    failed = run(home, words, fails_syncs_of_versions())
    assert len(failed.hit) == 1 and failed.returncode == 4, failed.stderr
    assert "collection `c` is complete and visible, but may not survive" in failed.stderr
    # After a power failure the previous version might be the newest.
    assert old <= segments(home)
    if command == "run":
        assert rows_of("c") == 20
    assert "gc` syncs it once more" in failed.stderr or "`overwrite=True`" in failed.stderr
    subprocess.run([EUPHRATES, "gc"], check=True, capture_output=True)
    assert not old & segments(home)
    listed = subprocess.run([EUPHRATES, "ls"], check=True, capture_output=True, text=True).stdout
    assert ("c" in listed.split()) == (command == "run")


@needs_syscalls
def test_version_lost_in_a_power_failure_leaves_nothing(home: Path) -> None:
    old = segments(home)
    assert run(home, ["run", collection_of(home, 20)], fails_syncs_of_versions()).returncode == 4
    (home / "catalog/c/.v/0000000002.json").unlink()
    assert rows_of("c") == 10
    subprocess.run([EUPHRATES, "gc"], check=True, capture_output=True)
    assert segments(home) == old and rows_of("c") == 10


@needs_syscalls
def test_unremovable_segments_are_found_by_the_next_gc(
    home: Path,
) -> None:
    old = segments(home)

    def dies(call: rig.Call) -> str:
        is_moved = call.kind == "rename" and "/@" in call.paths[-1]
        return "kill-after" if is_moved else "pass"

    run(home, ["run", collection_of(home, 20)], dies)
    assert segments(home) > old
    refuses = lambda call: (  # noqa: E731
        "EIO" if call.kind == "unlink" and call.paths[0].endswith(".arrow") else "pass"
    )
    assert run(home, ["gc"], refuses).hit
    assert segments(home) > old
    subprocess.run([EUPHRATES, "gc"], check=True, capture_output=True)
    assert segments(home) == old and rows_of("c") == 10


@needs_syscalls
def test_gc_removes_records_of_unpublished_outputs(home: Path, tmp_path: Path) -> None:
    flow = eu.Flow("resumed")
    flow.chain(eu.generate("integers", rows=10), eu.save(str(tmp_path / "a.csv")))
    path = tmp_path / "flow.json"
    path.write_text(flow.to_json())
    is_note = lambda call: call.kind == "rename" and "/made/" in call.paths[-1]  # noqa: E731
    run(home, ["run", path, "--resume"], lambda call: "kill-after" if is_note(call) else "pass")
    made = home / "made"
    assert len(list(made.iterdir())) == 1
    subprocess.run([EUPHRATES, "gc", tmp_path], check=True, capture_output=True)
    assert list(made.iterdir()) == []
    subprocess.run([EUPHRATES, "run", path, "--resume"], check=True, capture_output=True)
    subprocess.run([EUPHRATES, "gc", tmp_path], check=True, capture_output=True)
    again = subprocess.run(
        [EUPHRATES, "run", path, "--resume"], check=True, capture_output=True, text=True
    )
    assert "nothing was left to do" in again.stderr
