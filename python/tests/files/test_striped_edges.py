"""Striped files where disks, homes, offsets or processes are not as they should be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import fsspec
import pytest

import euphrates as eu
from striped_cases import make_home

CONTENT = bytes(range(256)) * 40_000
"""More than two stripes of 4 MiB."""


def put(home: Path | str, name: str, content: bytes = CONTENT, data: int = 4) -> None:
    with eu.open_striped(name, "wb", data=data, home=home) as file:
        assert file.write(content) == len(content)


def test_folder_with_two_disk_names_is_a_usage_error(tmp_path: Path) -> None:
    home = make_home(tmp_path, 3)
    disks = json.loads((home / "disks.json").read_text())
    disks[2]["folder"] = f"{tmp_path}/d0/../d1"
    (home / "disks.json").write_text(json.dumps(disks))
    for at in range(2):
        (tmp_path / f"d{at}").mkdir()
    with pytest.raises(eu.UsageError, match="`d1` and `d2` have one folder"):
        eu.open_striped("f", "wb", data=2, home=home)


def test_offset_beyond_any_file_is_a_usage_error(tmp_path: Path) -> None:
    with eu.open_striped("f", "wb", home=make_home(tmp_path, 6)) as file:
        for offset in (1 << 50, 1 << 60, (1 << 64) - 1):
            with pytest.raises(eu.UsageError, match="at most"):
                file.truncate(offset)
            with pytest.raises(eu.UsageError, match="at most"):
                file.pwrite(b"x", offset)
        file.write(b"content")
    assert eu.open_striped("f", home=tmp_path / "home").read() == b"content"


def test_closed_file_keeps_no_descriptor(tmp_path: Path) -> None:
    home = make_home(tmp_path, 6)
    put(home, "f")
    before = len(os.listdir("/proc/self/fd"))
    closed = [eu.open_striped("f", home=home) for _ in range(3)]
    assert len(os.listdir("/proc/self/fd")) > before
    for file in closed:
        file.read(1000)
        file.close()
        assert file.closed and file.damages == []
        with pytest.raises(ValueError, match="closed"):
            file.pread(1, 0)
    # Requests that were in flight at `close` end first.
    deadline = time.monotonic() + 30
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_disk_that_cannot_be_used_stops_no_file_of_the_others(tmp_path: Path) -> None:
    home = make_home(tmp_path, 6)
    (tmp_path / "d3").write_text("no folder")
    put(home, "f")
    assert eu.open_striped("f", home=home).read() == CONTENT
    with pytest.raises(eu.EuphratesError, match="d3"):
        eu.open_striped("g", "wb", data=5, home=home)


def test_missing_folder_of_a_disk_with_files_is_not_made_anew(tmp_path: Path) -> None:
    home = make_home(tmp_path, 6)
    put(home, "f")
    shutil.rmtree(tmp_path / "d2")
    put(home, "g", data=2)
    with eu.open_striped("f", "r+b", home=home) as file:
        file.pwrite(b"changed", 0)
    with pytest.raises(eu.EuphratesError, match="`d2`, which has files, is missing"):
        eu.open_striped("h", "wb", data=5, home=home)
    assert not (tmp_path / "d2").exists()


@pytest.mark.parametrize("end", ["/", "/../home", "/."])
def test_spellings_of_a_home_are_one_home(tmp_path: Path, end: str) -> None:
    home = make_home(tmp_path, 6)
    put(str(home) + end, "f")
    link = tmp_path / "link"
    link.symlink_to(home)
    put(link, "g")
    copies = {path.name for path in tmp_path.glob("d*/*/.v/*.json")}
    assert len(copies) == 1, "all copies of manifests have the tag of one home"


def read_by_a_child(home: Path, within: int) -> int:
    """The exit code of a forked child: 0 if it has read the file within these seconds."""
    child = os.fork()
    if child == 0:
        signal.alarm(within)
        code = 1
        try:
            with eu.open_striped("f", home=home) as own:
                code = 0 if own.read() == CONTENT else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("mode", ["rb", "wb"])
def test_forked_child_opens_files_itself_while_the_parent_is_busy(
    tmp_path: Path, mode: str
) -> None:
    home = make_home(tmp_path, 6)
    put(home, "f")
    for at in range(12):
        with eu.open_striped("f" if mode == "rb" else "busy", mode, home=home) as file:
            file.read(5_000_000) if mode == "rb" else file.write(CONTENT)
            time.sleep(at * 0.0005)
            assert read_by_a_child(home, within=20) == 0
            file.abandon()


def test_child_that_is_forked_while_threads_read_reads_itself(tmp_path: Path) -> None:
    home = make_home(tmp_path, 6)
    put(home, "f")
    is_over = threading.Event()

    def read_on() -> None:
        while not is_over.is_set():
            with eu.open_striped("f", home=home) as file:
                while file.read(1 << 20):
                    pass

    readers = [threading.Thread(target=read_on) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(15):
            assert read_by_a_child(home, within=40) == 0
    finally:
        is_over.set()
        for reader in readers:
            reader.join()


def test_exchanged_folders_of_disks_are_a_usage_error_and_no_damage(tmp_path: Path) -> None:
    home = make_home(tmp_path, 6)
    put(home, "f")
    disks = json.loads((home / "disks.json").read_text())
    swapped = [dict(disk) for disk in disks]
    swapped[1]["folder"], swapped[4]["folder"] = disks[4]["folder"], disks[1]["folder"]
    (home / "disks.json").write_text(json.dumps(swapped))
    for mode in ("rb", "wb", "r+b"):
        with pytest.raises(eu.UsageError, match=r"`d1`, .*, is that of disk `d4`") as wrong:
            eu.open_striped("f", mode, home=home)
        assert "disks.json" in (wrong.value.remedy or "")
    (home / "disks.json").write_text(json.dumps(disks))
    with eu.open_striped("f", home=home) as file:
        assert file.read() == CONTENT and file.damages == []


def test_offsets_and_buffers_of_wrong_types_are_type_errors(tmp_path: Path) -> None:
    home = make_home(tmp_path, 6)
    put(home, "f", b"content")
    with eu.open_striped("f", home=home) as file:
        with pytest.raises(TypeError):
            file.seek(1.5)  # type: ignore[arg-type]
        for buffer in (b"", b"123", 7):
            with pytest.raises(TypeError):
                file.readinto(buffer)
        assert file.tell() == 0


def test_missing_file_is_reported_without_the_names_of_all_others(tmp_path: Path) -> None:
    home = make_home(tmp_path, 2)
    files = fsspec.filesystem(
        "euphrates", data=1, parity=0, home=str(home), skip_instance_cache=True
    )
    for at in range(25):
        files.pipe(f"a/{at}", b"1")
    files.pipe("b/c/monday", b"1")
    files.pipe("gone/x", b"1")
    files.rm("gone/x")
    with pytest.raises(eu.UsageError) as wrong:
        eu.open_striped("a/none", home=home)
    assert "a/7" not in str(wrong.value) and "file ls" in str(wrong.value)
    with pytest.raises(eu.UsageError, match="did you mean `b/c/monday`"):
        eu.open_striped("b/c/mondey", home=home)
    assert files.ls("", detail=False) == ["a", "b"]
    assert files.ls("b", detail=False) == ["b/c"]
    assert files.ls("b/c", detail=False) == ["b/c/monday"]
    assert not files.exists("gone") and not files.exists("a/none") and files.isdir("b")
    assert len(files.find("")) == 26


def test_blocks_of_lines_are_read_at_delimiters(tmp_path: Path) -> None:
    home = str(make_home(tmp_path, 2))
    files = fsspec.filesystem("euphrates", data=1, parity=0, home=home, skip_instance_cache=True)
    files.pipe("lines", b"one\ntwo\nthree\n")
    assert files.read_block("lines", 2, 4, delimiter=b"\n") == b"two\n"
    assert files.read_block("lines", 0, None) == b"one\ntwo\nthree\n"
