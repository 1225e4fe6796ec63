"""Random operations on a volume and on a local folder: both have to be equal, also after kills.

`EUPHRATES_VOLUME_OPERATIONS=1000000` does a million, `EUPHRATES_VOLUME_SEED` selects others.
"""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mount_cases import Mount, missing
from striped_cases import make_home

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
OPERATIONS = int(os.environ.get("EUPHRATES_VOLUME_OPERATIONS", "10000"))
SEED = int(os.environ.get("EUPHRATES_VOLUME_SEED", "1"))
REMOUNT_EVERY = max(2500, OPERATIONS // 100)
BYTES_MAX = 300_000
VOLUME = ("--volume=tree", "--data=2", "--parity=1")


class Twins:
    """A folder of the mount and a local one; each operation is done in both."""

    def __init__(self, one: Path, other: Path, choose: random.Random) -> None:
        self.roots = (one, other)
        self.choose = choose
        self.counts: dict[str, int] = {}

    def both(self, act: Callable[[Path], object]) -> None:
        """The same result, or the same error."""

        def tried(root: Path) -> object:
            try:
                return act(root)
            except OSError as error:
                return ("error", error.errno)

        first, second = (tried(root) for root in self.roots)
        assert first == second

    def name(self) -> str:
        depth = self.choose.choice([1, 1, 2, 2, 3])
        return "/".join(self.choose.choice("abcd") for _ in range(depth))

    def range(self) -> tuple[int, int]:
        longest = self.choose.choice([10, 5000, 5000, 60_000])
        return self.choose.randrange(BYTES_MAX), self.choose.randrange(1, longest)

    def step(self) -> None:
        kinds = [
            (self.write, 20),
            (self.read, 20),
            (self.append, 5),
            (self.truncate, 6),
            (self.punch, 4),
            (self.write_map, 4),
            (self.make_file, 6),
            (self.make_folder, 4),
            (self.rename, 8),
            (self.link, 4),
            (self.symlink, 3),
            (self.unlink, 4),
            (self.remove_folder, 3),
            (self.change, 4),
            (self.stat, 8),
            (self.list, 4),
            (self.sync, 1),
        ]
        acts, weights = zip(*kinds, strict=True)
        act = self.choose.choices(acts, weights)[0]
        self.counts[act.__name__] = self.counts.get(act.__name__, 0) + 1
        act()

    def opened(self, flags: int, act: Callable[[int], object]) -> None:
        name = self.name()

        def do(root: Path) -> object:
            descriptor = os.open(root / name, flags, 0o644)
            try:
                return act(descriptor)
            finally:
                os.close(descriptor)

        self.both(do)

    def write(self) -> None:
        (at, count), byte = self.range(), self.choose.randrange(256)
        data = bytes([byte]) * count
        self.opened(os.O_WRONLY, lambda descriptor: os.pwrite(descriptor, data, at))

    def append(self) -> None:
        data = bytes([self.choose.randrange(256)]) * self.choose.randrange(1, 5000)
        self.opened(os.O_WRONLY | os.O_APPEND, lambda descriptor: os.write(descriptor, data))

    def read(self) -> None:
        at, count = self.range()
        self.opened(os.O_RDONLY, lambda descriptor: os.pread(descriptor, count, at))

    def truncate(self) -> None:
        bytes_ = self.choose.randrange(BYTES_MAX)
        self.opened(os.O_WRONLY, lambda descriptor: os.ftruncate(descriptor, bytes_))

    def punch(self) -> None:
        at, count = self.range()

        def fill(descriptor: int) -> None:
            # A hole that a local file system may not have: zeros within the file.
            end = min(at + count, os.fstat(descriptor).st_size)
            if end > at:
                os.pwrite(descriptor, bytes(end - at), at)

        self.opened(os.O_WRONLY, fill)

    def write_map(self) -> None:
        at, count = self.range()
        byte = bytes([self.choose.randrange(256)])

        def write(descriptor: int) -> None:
            length = os.fstat(descriptor).st_size
            if length > at:
                with mmap.mmap(descriptor, length) as shared:
                    shared[at : at + count] = byte * len(shared[at : at + count])

        self.opened(os.O_RDWR, write)

    def make_file(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | self.choose.choice([0, os.O_EXCL, os.O_TRUNC])
        self.opened(flags, lambda descriptor: os.fstat(descriptor).st_size)

    def make_folder(self) -> None:
        name = self.name()
        self.both(lambda root: (root / name).mkdir())

    def rename(self) -> None:
        one, other = self.name(), self.name()
        self.both(lambda root: os.rename(root / one, root / other))

    def link(self) -> None:
        one, other = self.name(), self.name()
        self.both(lambda root: os.link(root / one, root / other, follow_symlinks=False))

    def symlink(self) -> None:
        to, name = self.name(), self.name()
        self.both(lambda root: os.symlink(to, root / name))

    def unlink(self) -> None:
        name = self.name()
        self.both(lambda root: os.unlink(root / name))

    def remove_folder(self) -> None:
        name = self.name()
        self.both(lambda root: os.rmdir(root / name))

    def change(self) -> None:
        name, mode = self.name(), self.choose.randrange(0o1000) | 0o700
        time = self.choose.randrange(2**60)
        self.both(lambda root: os.chmod(root / name, mode))
        self.both(lambda root: os.utime(root / name, ns=(time, time + 1)))

    def stat(self) -> None:
        name = self.name()
        self.both(lambda root: facts(root / name))

    def list(self) -> None:
        name = self.name()
        self.both(lambda root: sorted(os.listdir(root / name)))

    def sync(self) -> None:
        self.opened(os.O_RDONLY, os.fsync)

    def compare(self) -> None:
        for root, folders, files in os.walk(self.roots[1]):
            below = Path(root).relative_to(self.roots[1])
            twin = self.roots[0] / below
            assert sorted(os.listdir(twin)) == sorted([*folders, *files])
            for name in [*folders, *files]:
                assert facts(twin / name) == facts(Path(root) / name)
                path = Path(root) / name
                if path.is_symlink():
                    assert os.readlink(twin / name) == os.readlink(path)
                elif path.is_file():
                    assert (twin / name).read_bytes() == path.read_bytes(), below / name


def facts(path: Path) -> tuple[int, ...]:
    found = os.lstat(path)
    folder = (found.st_mode & 0o170000) == 0o040000
    # Folders have no links on some file systems, and lengths of their own.
    return (found.st_mode, *((0, 0) if folder else (found.st_nlink, found.st_size)))


def test_random_operations_equal_those_of_a_local_folder(tmp_path: Path) -> None:
    home, local = make_home(tmp_path, 4), tmp_path / "local"
    local.mkdir()
    choose = random.Random(SEED)
    mount = Mount(home, tmp_path / "mnt", *VOLUME)
    try:
        twins = Twins(mount.folder, local, choose)
        for number in range(OPERATIONS):
            try:
                twins.step()
            except AssertionError as error:
                raise AssertionError(f"operation {number} of seed {SEED}") from error
            if number % REMOUNT_EVERY == REMOUNT_EVERY - 1:
                twins.compare()
                descriptor = os.open(mount.folder, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
                if choose.randrange(2) == 0:
                    mount.kill()
                else:
                    assert mount.end() == 0, mount.messages
                mount = Mount(home, tmp_path / "mnt", *VOLUME)
                twins.compare()
        twins.compare()
        print(f"{OPERATIONS} operations: {twins.counts}")
    finally:
        print("".join(mount.messages), "exit code", mount.process.poll())
        mount.kill()
