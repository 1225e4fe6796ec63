"""Volumes on a mount: what file systems promise, programs that rely on it, and what others see."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mount_cases import EUPHRATES, Mount, missing, mounted
from striped_cases import make_home

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
VOLUME = ("--volume=tree", "--data=2", "--parity=1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path, 4)


@contextlib.contextmanager
def volume(home: Path, *options: str) -> Iterator[Mount]:
    with mounted(home, home.parent / "mnt", *VOLUME, *options) as mount:
        yield mount
        assert mount.process.poll() is None, mount.messages
        assert mount.end() == 0, mount.messages


def test_a_tree_is_the_same_after_a_remount(home: Path) -> None:
    with volume(home) as mount:
        root = mount.folder
        (root / "empty").mkdir()
        (root / "a/b").mkdir(parents=True)
        (root / "a/b/file").write_bytes(b"content" * 100_000)
        (root / "a/link").symlink_to("b/file")
        os.link(root / "a/b/file", root / "other")
        os.chown(root / "a/b/file", 1234, 2345)
        os.chmod(root / "a/b/file", 0o4751)
        os.utime(root / "a/b/file", ns=(-1_500_000_001, 1_600_000_000_123_456_789))
        os.setxattr(root / "other", "user.colour", b"blue")
        os.mkfifo(root / "fifo")
    with volume(home) as mount:
        root = mount.folder
        assert sorted(path.name for path in root.iterdir()) == ["a", "empty", "fifo", "other"]
        assert (root / "a/link").read_bytes() == b"content" * 100_000
        found = (root / "other").stat()
        assert found.st_ino == (root / "a/b/file").stat().st_ino
        assert (found.st_nlink, found.st_mode) == (2, 0o104751)
        assert (found.st_uid, found.st_gid) == (1234, 2345)
        assert (found.st_atime_ns, found.st_mtime_ns) == (
            -1_500_000_001,
            1_600_000_000_123_456_789,
        )
        assert os.getxattr(root / "a/b/file", "user.colour") == b"blue"
        assert os.listxattr(root / "a/b/file") == ["user.colour"]
        assert (root / "fifo").is_fifo()
        assert root.stat().st_nlink == 4


def test_renames_replace_and_move_folders_at_once(home: Path) -> None:
    with volume(home) as mount:
        root = mount.folder
        (root / "new").write_text("new")
        (root / "old").write_text("old")
        with (root / "old").open() as still:
            os.rename(root / "new", root / "old")
            assert (still.read(), (root / "old").read_text()) == ("old", "new")
        (root / "x/y").mkdir(parents=True)
        (root / "x/y/z").write_text("z")
        (root / "full/in").mkdir(parents=True)
        os.rename(root / "x", root / "moved")
        assert (root / "moved/y/z").read_text() == "z"
        for to, error in [("moved/y/in", 22), ("full", 39), ("old", 20)]:
            with pytest.raises(OSError) as refused:
                os.rename(root / "moved", root / to)
            assert refused.value.errno == error
        with pytest.raises(OSError):
            (root / "moved").rmdir()
        with pytest.raises(OSError):
            (root / "none").unlink()


def test_open_files_outlive_their_names(home: Path) -> None:
    with volume(home) as mount:
        path = mount.folder / "gone"
        with path.open("w+b") as file:
            file.write(b"before")
            file.flush()
            path.unlink()
            file.write(b" and after")
            file.flush()
            file.seek(0)
            assert (file.read(), os.fstat(file.fileno()).st_nlink) == (b"before and after", 0)
        assert not path.exists()


def test_holes_take_no_space_and_are_found(home: Path) -> None:
    with volume(home) as mount:
        path = mount.folder / "sparse"
        with path.open("w+b") as file:
            file.seek(1 << 40)
            file.write(b"end")
            file.flush()
            assert os.lseek(file.fileno(), 0, os.SEEK_DATA) == 1 << 40
            assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 0
            assert os.pread(file.fileno(), 4, 12345) == bytes(4)
        found = path.stat()
        assert (found.st_size, found.st_blocks) == ((1 << 40) + 3, 1)
        os.truncate(path, 10)
        assert path.read_bytes() == bytes(10)


def test_appends_and_memory_maps_see_each_other(home: Path) -> None:
    with volume(home) as mount:
        path = mount.folder / "file"
        ends = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(3)]
        for at in range(300):
            os.write(ends[at % 3], b"%4d" % at)
        assert path.read_bytes() == b"".join(b"%4d" % at for at in range(300))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
            shared[4:8] = b"maps"
            assert os.pread(file.fileno(), 8, 0) == b"   0maps"
            os.pwrite(file.fileno(), b"file", 8)
            assert shared[8:12] == b"file"
            shared.flush()
        for end in ends:
            os.close(end)
    with volume(home) as mount:
        assert (mount.folder / "file").read_bytes()[:16] == b"   0mapsfile   3"


def test_statfs_and_extended_attributes_of_other_kinds(home: Path) -> None:
    anyone = 2**32 - 1
    entries = [(1, 6, anyone), (2, 4, 1), (4, 4, anyone), (16, 4, anyone), (32, 4, anyone)]
    access_list = struct.pack("<I", 2)
    access_list += b"".join(struct.pack("<HHI", *entry) for entry in entries)
    with volume(home) as mount:
        found = os.statvfs(mount.folder)
        below = os.statvfs(home)
        ratio = (found.f_frsize * found.f_blocks) / (below.f_frsize * below.f_blocks)
        assert 0.66 < ratio < 0.67
        assert found.f_namemax == 255
        (mount.folder / "n").touch()
        with pytest.raises(OSError) as refused:
            os.setxattr(mount.folder / "n", "system.posix_acl_access", access_list)
        assert refused.value.errno == 95
        with pytest.raises(OSError) as refused:
            (mount.folder / ("n" * 256)).touch()
        assert refused.value.errno == 36


def test_one_mount_writes_and_others_read_the_checkpoint(home: Path, tmp_path: Path) -> None:
    command = [EUPHRATES, "mount", str(tmp_path / "second"), "--home", str(home), *VOLUME]
    (tmp_path / "second").mkdir()
    unknown = subprocess.run([*command, "--read-only"], capture_output=True, text=True)
    assert unknown.returncode == 2 and "there is no volume `tree`" in unknown.stderr
    with volume(home) as mount:
        (mount.folder / "first").write_text("1")
    with volume(home) as mount:
        (mount.folder / "second").write_text("2")
        refused = subprocess.run(command, capture_output=True, text=True)
        assert refused.returncode != 0
        assert f"is mounted for writing by process {mount.process.pid} on host" in refused.stderr
        with mounted(home, tmp_path / "third", *VOLUME, "--read-only") as reader:
            assert [path.name for path in reader.folder.iterdir()] == ["first"]
            with pytest.raises(OSError) as read_only:
                (reader.folder / "third").touch()
            assert read_only.value.errno == 30
    with mounted(home, tmp_path / "third", *VOLUME, "--read-only") as reader:
        assert sorted(path.name for path in reader.folder.iterdir()) == ["first", "second"]


def test_tar_unpacks_and_packs_the_same_tree(home: Path, tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "support"
    archive = tmp_path / "tree.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(source, "support")
    with volume(home) as mount:
        subprocess.run(["tar", "-xpf", str(archive), "-C", str(mount.folder)], check=True)
    with volume(home) as mount:
        compared = ["tar", "--compare", "-f", str(archive), "-C", str(mount.folder)]
        subprocess.run(compared, check=True)


def git(folder: Path, *words: str) -> str:
    settings = ["core.fsync=all", "user.name=n", "user.email=e@example.org", "gc.auto=0"]
    flags = [flag for setting in settings for flag in ("-c", setting)]
    command = ["git", *flags, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commits(folder: Path, count: int, first: int) -> Iterator[str]:
    for number in range(first, first + count):
        for name in range(4):
            path = folder / f"d{number % 3}" / f"f{name}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{number} {name}\n" * 400)
        git(folder, "add", ".")
        git(folder, "commit", "-qm", f"change {number}")
        yield git(folder, "rev-parse", "HEAD")


def sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_git_repository_is_whole_after_a_kill(home: Path) -> None:
    made: list[str] = []
    synced = 0
    for round in range(4):
        with mounted(home, home.parent / "mnt", *VOLUME) as mount:
            repository = mount.folder / "repository"
            if round == 0:
                repository.mkdir()
                git(repository, "init", "-q")
            else:
                git(repository, "fsck", "--strict")
                for lock in (repository / ".git").rglob("*.lock"):
                    lock.unlink()
                # git does not sync the rename of a branch, so later commits may be lost.
                head = made.index(git(repository, "rev-parse", "HEAD"))
                assert head + 1 >= synced
                made = made[: head + 1]
                git(repository, "reset", "-q", "--hard")
                assert git(repository, "status", "--porcelain") == ""
            made.extend(commits(repository, 3, round * 10))
            sync(repository)
            synced = len(made)
            made.extend(commits(repository, round, round * 10 + 5))
            (repository / "half").write_text("written")
            mount.kill()
    with volume(home) as mount:
        repository = mount.folder / "repository"
        git(repository, "fsck", "--strict")
        for lock in (repository / ".git").rglob("*.lock"):
            lock.unlink()
        git(repository, "gc", "-q", "--prune=now")
        assert int(git(repository, "rev-list", "--count", "HEAD")) >= synced


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite_keeps_what_it_has_committed(home: Path, journal: str) -> None:
    inserted = 0
    for _round in range(3):
        with mounted(home, home.parent / "mnt", *VOLUME) as mount, database(mount) as base:
            base.execute(f"pragma journal_mode = {journal}")
            base.execute("pragma synchronous = full")
            assert base.execute("pragma integrity_check").fetchall() == [("ok",)]
            base.execute("create table if not exists n (i integer primary key, t text)")
            base.commit()
            (count,) = base.execute("select count(*) from n").fetchone()
            assert count == inserted
            for _ in range(40):
                rows = [(inserted + at, "x" * 3000) for at in range(10)]
                base.executemany("insert into n values (?, ?)", rows)
                base.commit()
                inserted += 10
            base.execute("update n set t = 'uncommitted'")
            mount.kill()
            with contextlib.suppress(sqlite3.Error):
                base.rollback()
    with volume(home) as mount, database(mount) as base:
        assert base.execute("pragma integrity_check").fetchall() == [("ok",)]
        count = base.execute("select count(*) from n where length(t) = 3000").fetchone()
        assert count == (inserted,)


def database(mount: Mount) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(mount.folder / "data.db"))


WRITER = """
import os, sys
root, number = sys.argv[1], int(sys.argv[2])
while True:
    with open(f"{root}/new", "wb") as file:
        file.write(b"%d" % number * (number % 70 * 300 + 1))
    os.rename(f"{root}/new", f"{root}/{number}")
    if os.path.exists(f"{root}/{number - 30}"):
        os.unlink(f"{root}/{number - 30}")
    if number % 20 == 0:
        folder = os.open(root, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        print(number, flush=True)
    number += 1
"""


def test_a_kill_at_any_moment_leaves_a_prefix_of_the_operations(home: Path) -> None:
    first = 0
    for syncs in [3, 11, 1, 6]:
        with mounted(home, home.parent / "mnt", *VOLUME) as mount:
            command = [sys.executable, "-c", WRITER, str(mount.folder), str(first)]
            program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert program.stdout is not None
            synced = [int(program.stdout.readline()) for _ in range(syncs)][-1]
            mount.kill()
            program.kill()
            program.wait()
        with mounted(home, home.parent / "mnt", *VOLUME) as mount:
            names = {path.name for path in mount.folder.iterdir()} - {"new"}
            numbers = sorted(int(name) for name in names)
            last = numbers[-1]
            assert last >= synced
            # The oldest is removed behind the rename of the newest.
            assert numbers in (
                list(range(max(last - 29, 0), last + 1)),
                list(range(max(last - 30, 0), last + 1)),
            )
            for number in numbers:
                expected = b"%d" % number * (number % 70 * 300 + 1)
                assert (mount.folder / str(number)).read_bytes() == expected
            first = last + 1
            mount.kill()


def test_loss_of_a_disk_loses_no_file(home: Path) -> None:
    with volume(home) as mount:
        for number in range(20):
            (mount.folder / str(number)).write_bytes(b"%d" % number * (number * 20_000))
    shutil.rmtree(home.parent / "d2")
    with volume(home) as mount:
        mount.wait_for("missing disks: d2")
        for number in range(20):
            assert (mount.folder / str(number)).read_bytes() == b"%d" % number * (number * 20_000)
        (mount.folder / "more").write_text("more")


def test_make_builds_only_what_has_changed(home: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("no make")
    with volume(home) as mount:
        root = mount.folder
        (root / "Makefile").write_text("out: in\n\tcat in > out\n")
        (root / "in").write_text("1")

        def make() -> str:
            command = ["make", "-C", str(root)]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        assert "cat" in make()
        assert "up to date" in make()
        os.utime(root / "in", ns=(2 * 10**18, 2 * 10**18))
        assert "cat" in make()
