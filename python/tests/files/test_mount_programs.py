"""Random operations on a mounted file against an array, HDF5, and `fio`, which checks itself."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import euphrates as eu
from mount_cases import missing, mounted
from striped_cases import make_home

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
OPERATIONS = int(os.environ.get("EUPHRATES_MOUNT_OPERATIONS", "400"))
"""`make torture` has a million."""
SEED = int(os.environ.get("EUPHRATES_MOUNT_SEED", "1"))
BYTES_MAX = 4_000_000
"""Of the file: four stripes of `SMALL`."""
SMALL = ("--data=1", "--parity=1")
"""Stripes of a block: a version is published quickly."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path, 6)


@pytest.fixture
def mount(home: Path, tmp_path: Path) -> Iterator[Path]:
    with mounted(home, tmp_path / "mnt", *SMALL) as one:
        yield one.folder
        # Why the mount ended, or an operation failed.
        print("".join(one.messages), "exit code", one.process.poll())


class Mirrored:
    """A file of the mount, and an array; each operation changes or compares both."""

    def __init__(self, path: Path, choose: random.Random) -> None:
        self.path, self.choose = path, choose
        self.expected = bytearray()
        self.file = os.open(path, os.O_RDWR | os.O_CREAT)

    def range(self, behind: int) -> tuple[int, int]:
        """An offset, and a length: often short, and sometimes of several blocks."""
        choose = self.choose
        at = choose.randrange(behind + 1)
        if choose.randrange(3) == 0:
            at = min(at // (1 << 20) * (1 << 20) + choose.randrange(3) - 1, behind)
        longest = choose.choice([10, 5_000, 5_000, 100_000, 1_500_000])
        return max(at, 0), choose.randrange(longest)

    def step(self) -> str:
        """Does one operation on both, and says which."""
        kind = self.choose.choices(
            ("pread", "pwrite", "truncate", "fsync", "reopen"), (500, 440, 50, 3, 7)
        )[0]
        if kind == "pread":
            at, length = self.range(len(self.expected) + 100)
            got = os.pread(self.file, length, at)
            assert got == self.expected[at : at + length], f"pread of {length} bytes at {at}"
            return f"pread {length} at {at}"
        if kind == "pwrite":
            at, length = self.range(min(len(self.expected) + 200_000, BYTES_MAX))
            data = self.choose.randbytes(length)
            assert os.pwrite(self.file, data, at) == length
            if length > 0:
                gap = max(at - len(self.expected), 0)
                self.expected += bytes(gap)
                self.expected[at : at + length] = data
            return f"pwrite {length} at {at}"
        if kind == "truncate":
            size = self.choose.randrange(BYTES_MAX)
            os.ftruncate(self.file, size)
            del self.expected[size:]
            self.expected += bytes(size - len(self.expected))
            return f"truncate to {size}"
        if kind == "fsync":
            os.fsync(self.file)
        else:
            os.close(self.file)
            self.file = os.open(self.path, os.O_RDWR)
        size = os.fstat(self.file).st_size
        assert size == len(self.expected), f"{size} bytes after {kind}, not {len(self.expected)}"
        return kind


def test_random_operations_agree_with_an_array(home: Path, mount: Path) -> None:
    mirrored = Mirrored(mount / "f", random.Random(SEED))
    history: list[str] = []
    try:
        for at in range(OPERATIONS):
            history.append(mirrored.step())
            if at % 200 == 199:
                assert (mount / "f").read_bytes() == mirrored.expected
    except (AssertionError, OSError) as error:
        last = "; ".join(history[-20:])
        pytest.fail(f"seed {SEED}, operation {len(history)}: {error}; before it: {last}")
    finally:
        with contextlib.suppress(OSError):
            os.close(mirrored.file)
    with eu.open_striped("f", home=home) as file:
        assert file.read() == mirrored.expected


def test_hdf5_file_is_written_and_read_in_place(home: Path, mount: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    plain = mount.parent / "plain.h5"
    numbers = list(range(300_000))
    for path in (plain, mount / "f.h5"):
        with h5py.File(path, "w", track_order=True) as file:
            file.create_dataset("numbers", data=numbers, chunks=(10_000,), dtype="i8")
            file["numbers"].attrs["unit"] = "m"
        with h5py.File(path, "r+") as file:
            file["numbers"][150_000:150_010] = -1
            file.create_group("later").create_dataset("ones", data=[1] * 1000, compression="gzip")
        with h5py.File(path) as file:
            numbers_read = file["numbers"][:].tolist()
            assert numbers_read == [*numbers[:150_000], *[-1] * 10, *numbers[150_010:]]
            assert file["later/ones"][:].sum() == 1000
            assert file["numbers"].attrs["unit"] == "m"
    with eu.open_striped("f.h5", home=home) as file:
        assert file.read() == plain.read_bytes()


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
@pytest.mark.parametrize("order", ["write", "randrw"])
def test_fio_verifies_what_it_wrote(mount: Path, order: str) -> None:
    command = ["fio", "--name=verify", f"--filename={mount / 'f'}", f"--rw={order}", "--size=6M"]
    sizes = ["--bsrange=4k-256k", "--blockalign=4k", "--ioengine=psync", "--end_fsync=1"]
    checks = ["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--randseed=7"]
    done = subprocess.run(
        [*command, *sizes, *checks, "--minimal"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=mount.parent,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
