"""Striped files as a file system: unmodified programs on a mount that each test starts."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import filecmp
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import euphrates as eu
from mount_cases import EUPHRATES, WAIT, Mount, missing, mounted, until
from striped_cases import make_home

LONG = random.Random(1).randbytes(9_000_000)
"""More than two stripes of 4 MiB."""


pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path, 6)


@pytest.fixture
def mount(home: Path, tmp_path: Path) -> Iterator[Path]:
    with mounted(home, tmp_path / "mnt") as one:
        yield one.folder


def run(command: Sequence[str | Path]) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def content(home: Path, name: str) -> bytes:
    with eu.open_striped(name, home=home) as file:
        return file.read()


def test_random_operations_agree_with_a_plain_folder(mount: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    choose = random.Random(3)
    names = ["a", "b", "c.txt", ".hidden", "name with blanks"]
    for _ in range(120):
        name, other = choose.sample(names, 2)
        action = choose.randrange(6)
        seed, at = choose.random(), choose.randrange(5_000_000)
        size = choose.choice([0, 10, 5000, 5_000_000])
        outcomes = []
        for folder in (plain, mount):
            try:
                outcomes.append(change(folder, action, (name, other), (seed, at, size)))
            except OSError as error:
                outcomes.append(error.errno)
        assert outcomes[0] == outcomes[1], (action, name, other, at, size)
        assert sorted(os.listdir(mount)) == sorted(os.listdir(plain))
    for name in os.listdir(plain):
        assert (mount / name).read_bytes() == (plain / name).read_bytes()


def change(
    folder: Path, action: int, names: tuple[str, str], case: tuple[float, int, int]
) -> object:
    seed, at, size = case
    path = folder / names[0]
    data = random.Random(seed).randbytes(size)
    if action == 0:
        return path.write_bytes(data)
    if action == 1:
        with path.open("r+b", buffering=0) as file:
            file.seek(at)
            file.write(data)
            file.seek(0)
            return file.read()
    if action == 2:
        with path.open("ab") as file:
            file.write(data)
        return path.stat().st_size
    if action == 3:
        os.truncate(path, at)
        return path.read_bytes()
    if action == 4:
        os.replace(path, folder / names[1])
    else:
        path.unlink()
    return None


def test_cp_dd_tar_and_cmp_copy_trees_byte_for_byte(mount: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub/deep").mkdir(parents=True)
    choose = random.Random(5)
    for at, size in enumerate([0, 1, 4095, 70_000, 1 << 20, (4 << 20) + 1]):
        (tree / f"sub/{at}").write_bytes(choose.randbytes(size))
    (tree / "sub/deep/.dot=1").write_bytes(LONG)
    run(["cp", "-r", tree, mount / "copy"])
    run(["diff", "-r", tree, mount / "copy"])
    run(["tar", "-cf", mount / "tree.tar", "-C", tree, "."])
    (mount / "out").mkdir()
    run(["tar", "-xf", mount / "tree.tar", "-C", mount / "out"])
    run(["diff", "-r", tree, mount / "out"])
    source, target = tree / "sub/deep/.dot=1", mount / "dd"
    run(["dd", f"if={source}", f"of={target}", "bs=7001"])
    run(["dd", f"if={source}", f"of={target}", "bs=1M", "seek=1", "conv=notrunc"])
    expected = LONG[: 1 << 20] + LONG
    assert target.read_bytes() == expected
    run(["sh", "-c", f"cat {target} {target} > {mount / 'twice'}"])
    assert filecmp.cmp(target, mount / "dd", shallow=False)
    assert (mount / "twice").read_bytes() == expected * 2
    run(["rm", "-r", mount / "copy", mount / "out"])
    assert sorted(os.listdir(mount)) == ["dd", "tree.tar", "twice"]


def test_what_is_closed_or_synced_is_a_version_for_other_programs(home: Path, mount: Path) -> None:
    with (mount / "f").open("wb", buffering=0) as file:
        file.write(b"first")
        assert (mount / "f").read_bytes() == b"first", "programs of the mount see it"
        with pytest.raises(eu.UsageError, match="no striped file"):
            eu.open_striped("f", home=home)
        os.fsync(file.fileno())
        assert content(home, "f") == b"first"
        file.write(b" second")
        assert content(home, "f") == b"first"
    assert content(home, "f") == b"first second"
    with (mount / "f").open("rb") as old, eu.open_striped("f", "wb", home=home) as file:
        file.write(b"of python")
        file.close()
        assert (mount / "f").read_bytes() == b"of python"
        assert os.fstat(old.fileno()).st_size == len(old.read()) == len(b"first second")
    assert (mount / "f").stat().st_size == len(b"of python")


def test_lost_update_is_an_error_at_close(home: Path, mount: Path) -> None:
    (mount / "f").write_bytes(b"base")
    file = os.open(mount / "f", os.O_RDWR)
    os.write(file, b"mine")
    with eu.open_striped("f", "wb", home=home) as other:
        other.write(b"theirs")
    with pytest.raises(OSError, match=r"Input/output|Stale"):
        os.close(file)
    assert (mount / "f").read_bytes() == b"theirs"
    late = os.open(mount / "f", os.O_RDWR)
    with eu.open_striped("f", "wb", home=home) as other:
        other.write(b"again")
    with pytest.raises(OSError, match="Stale"):
        os.write(late, b"mine")
    os.close(late)
    assert content(home, "f") == b"again"


def test_programs_that_write_one_file_together_lose_nothing(home: Path, mount: Path) -> None:
    code = "import os, sys; f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); at = int(sys.argv[2])"
    code += "; [os.pwrite(f, bytes([at]) * 1000, (n * 4 + at) * 1000) for n in range(500)]"
    path = str(mount / "shared")
    ranks = [subprocess.Popen([sys.executable, "-c", code, path, str(at)]) for at in range(4)]
    assert [rank.wait(WAIT) for rank in ranks] == [0] * 4
    expected = b"".join(bytes([at]) * 1000 for at in range(4)) * 500
    assert content(home, "shared") == expected


def test_exclusive_creation_append_and_truncation(home: Path, mount: Path) -> None:
    path = mount / "f"
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    with pytest.raises(FileExistsError):
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.ftruncate(file, 10)
    os.close(file)
    with eu.open_striped("f", "r+b", home=home) as other:
        other.pwrite(b"longer", 10)
    appended = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(appended, b"!")
    os.posix_fallocate(appended, 0, 20)
    os.close(appended)
    assert path.read_bytes() == bytes(10) + b"longer!" + bytes(3)
    os.truncate(path, 12)
    assert content(home, "f") == bytes(10) + b"lo"
    (mount / "empty").touch()
    os.sync()
    until(lambda: any(one.name == "empty" for one in os.scandir(mount)))
    assert (mount / "empty").read_bytes() == b""


def test_removed_file_stays_readable_where_it_is_open(home: Path, mount: Path) -> None:
    (mount / "f").write_bytes(LONG)
    with (mount / "f").open("rb") as read, (mount / "f").open("r+b", buffering=0) as changed:
        (mount / "f").unlink()
        assert not (mount / "f").exists()
        changed.write(b"new")
        changed.seek(0)
        assert changed.read(8) == b"new" + LONG[3:8]
        assert read.read() == LONG
    assert os.listdir(mount) == []
    with pytest.raises(eu.UsageError, match="no striped file"):
        eu.open_striped("f", home=home)


def test_folders_are_what_names_have_in_common(home: Path, mount: Path) -> None:
    with eu.open_striped("a/b/f", "wb", home=home) as file:
        file.write(b"deep")
    assert [one for one, _, _ in os.walk(mount)] == [str(mount / one) for one in ("", "a", "a/b")]
    with pytest.raises(FileNotFoundError):
        (mount / "x/y").write_bytes(b"")
    (mount / "x").mkdir()
    with pytest.raises(FileExistsError):
        (mount / "x").mkdir()
    with pytest.raises(OSError, match="not empty"):
        (mount / "a").rmdir()
    with pytest.raises(IsADirectoryError):
        (mount / "a/b").read_bytes()
    (mount / "a/open").touch()
    os.rename(mount / "a", mount / "x/new")
    assert content(home, "x/new/b/f") == b"deep"
    (mount / "x/new/b/f").unlink()
    assert os.listdir(mount / "x/new/b") == []
    (mount / "x/new/b").rmdir()
    assert os.listdir(mount / "x/new") == ["open"]
    with pytest.raises(OSError, match="too long"):
        (mount / ("n" * 220)).touch()


def test_maps_show_the_bytes_of_the_version(mount: Path) -> None:
    (mount / "f").write_bytes(LONG)
    for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
        with (mount / "f").open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ)
            assert view[:] == LONG
            view.close()


def test_fio_finds_every_checksum(mount: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    common = ["fio", "--name=v", f"--directory={mount}", "--size=12m", "--verify=crc32c"]
    common += ["--output-format=json", "--ioengine=psync", "--fallocate=none"]
    common += ["--verify_state_save=0"]
    for way in (["--rw=write", "--bs=300k"], ["--rw=randwrite", "--bs=16k", "--numjobs=2"]):
        found = json.loads(run([*common, *way]))
        assert all(job["error"] == 0 for job in found["jobs"])


def test_reads_go_on_when_a_disk_is_lost(home: Path, mount: Path, tmp_path: Path) -> None:
    (mount / "f").write_bytes(LONG)
    shutil.rmtree(tmp_path / "d2")
    assert (mount / "f").read_bytes() == LONG
    (mount / "g").write_bytes(LONG)
    assert (mount / "g").read_bytes() == LONG
    shutil.rmtree(tmp_path / "d3")
    shutil.rmtree(tmp_path / "d4")
    with pytest.raises(OSError, match="Input/output"):
        (mount / "f").read_bytes()
    assert os.statvfs(mount).f_blocks > 0


def test_home_that_disappears_is_an_error(home: Path, mount: Path) -> None:
    (mount / "f").write_bytes(b"there")
    home.rename(home.parent / "elsewhere")
    home.mkdir()
    for use in (lambda: (mount / "f").read_bytes(), lambda: os.listdir(mount)):
        with pytest.raises(OSError, match="Input/output"):
            use()
    assert not list(home.iterdir()), "nothing is made in its place"


def test_home_that_does_not_answer_is_an_error_within_the_timeout(tmp_path: Path) -> None:
    """The home lies on a file system of which nobody answers the requests."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a device that does not answer")
    home = make_home(tmp_path, 6)
    libc = ctypes.CDLL(None, use_errno=True)
    with mounted(home, tmp_path / "mnt", "--timeout", "0.5") as mount:
        (mount.folder / "f").write_bytes(b"there")
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
        assert libc.mount(b"silent", str(home).encode(), b"fuse.silent", 6, options) == 0
        try:
            began = time.monotonic()
            with pytest.raises(OSError, match="Input/output"):
                (mount.folder / "f").read_bytes()
            assert time.monotonic() - began < 10
            # Until no thread is left; then the mount ends.
            while mount.process.poll() is None and time.monotonic() - began < WAIT:
                with pytest.raises(OSError):
                    os.stat(mount.folder / "f")
                if "does not answer" in "".join(mount.messages):
                    break
            mount.wait_for("does not answer")
        finally:
            os.close(device)
            libc.umount2(str(home).encode(), 2)
        assert mount.process.wait(WAIT) == 4


def test_signal_unmounts_and_open_files_can_still_be_written(home: Path, tmp_path: Path) -> None:
    with mounted(home, tmp_path / "mnt") as mount:
        assert mount.end() == 0
        assert not os.path.ismount(mount.folder)
    with mounted(home, tmp_path / "mnt") as mount:
        file = os.open(mount.folder / "late", os.O_CREAT | os.O_WRONLY)
        os.write(file, b"early")
        mount.process.send_signal(signal.SIGINT)
        mount.wait_for("is unmounted, but in use: 1 file")
        assert not os.path.ismount(mount.folder)
        os.write(file, b" and late")
        os.close(file)
        assert mount.process.wait(WAIT) == 0, mount.messages
        assert content(home, "late") == b"early and late"
    with mounted(home, tmp_path / "mnt") as mount:
        file = os.open(mount.folder / "late", os.O_WRONLY | os.O_TRUNC)
        os.write(file, b"dropped")
        mount.process.send_signal(signal.SIGTERM)
        mount.wait_for("in use")
        mount.process.send_signal(signal.SIGTERM)
        assert mount.process.wait(WAIT) == 0
        with pytest.raises(OSError):
            os.write(file, b"x")
        with contextlib.suppress(OSError):
            os.close(file)
        assert content(home, "late") == b"early and late"


def refused(home: Path, folder: Path, *options: str) -> str:
    command = [EUPHRATES, "mount", str(folder), "--home", str(home)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_killed_mount_leaves_the_old_version_and_a_clear_message(
    home: Path, tmp_path: Path
) -> None:
    mount = Mount(home, tmp_path / "mnt")
    try:
        (mount.folder / "f").write_bytes(b"old")
        file = os.open(mount.folder / "f", os.O_WRONLY | os.O_TRUNC)
        os.write(file, LONG)
        mount.process.kill()
        mount.process.wait(WAIT)
        with pytest.raises(OSError) as failed:
            os.close(file)
        assert failed.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
        told = refused(home, mount.folder)
        assert "a process that was killed" in told and "umount -l" in told
    finally:
        mount.kill()
    assert content(home, "f") == b"old"
    with mounted(home, tmp_path / "mnt") as again:
        assert (again.folder / "f").read_bytes() == b"old"
        assert "mounted already" in refused(home, again.folder)


def test_bad_folders_and_layouts_are_usage_errors(home: Path, tmp_path: Path) -> None:
    assert "is not empty" in refused(home, tmp_path)
    assert "there is no folder" in refused(home, tmp_path / "none")
    (tmp_path / "mnt").mkdir()
    assert "needs 9 disks" in refused(home, tmp_path / "mnt", "--data", "8")
    assert "no such time" in refused(home, tmp_path / "mnt", "--timeout", "0")


def test_read_only_mount_refuses_changes(home: Path, tmp_path: Path) -> None:
    with eu.open_striped("f", "wb", home=home) as file:
        file.write(b"kept")
    with mounted(home, tmp_path / "mnt", "--read-only") as mount:
        assert (mount.folder / "f").read_bytes() == b"kept"
        with pytest.raises(OSError, match="Read-only"):
            (mount.folder / "f").write_bytes(b"")
