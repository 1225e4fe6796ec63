"""Striped files as Python file objects."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import euphrates as eu
from striped_cases import make_home

LONG = random.Random(1).randbytes(9_000_000)
"""More than two stripes of 4 MiB."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path, 6)


def put(home: Path, name: str, content: bytes, **layout: int) -> None:
    with eu.open_striped(name, "wb", home=home, **layout) as file:
        assert file.write(content) == len(content)


def test_file_object_behaves_like_a_plain_binary_file(home: Path, tmp_path: Path) -> None:
    put(home, "f", LONG)
    (tmp_path / "plain").write_bytes(LONG)
    choose = random.Random(2)
    with open(tmp_path / "plain", "r+b") as plain, eu.open_striped("f", "r+b", home=home) as ours:
        for _ in range(150):
            at, whence = choose.choice([(choose.randrange(9_100_000), 0), (0, 1), (-1000, 2)])
            assert ours.seek(at, whence) == plain.seek(at, whence)
            action, count = choose.randrange(4), choose.choice([0, 1, 1000, 300_000, 5_000_000])
            if action == 0:
                content = choose.randbytes(count)
                assert ours.write(content) == plain.write(content)
            elif action == 1:
                target, expected = bytearray(count), bytearray(count)
                assert ours.readinto(target) == plain.readinto(expected)
                assert target == expected
            elif action == 2:
                assert ours.read(count) == plain.read(count)
            elif choose.randrange(4) == 0:
                assert ours.truncate() == plain.truncate()
            assert ours.tell() == plain.tell()
        assert ours.size == plain.seek(0, 2)
    assert eu.open_striped("f", home=home).read() == (tmp_path / "plain").read_bytes()


def test_sequential_reads_of_any_size_give_every_byte(home: Path) -> None:
    put(home, "f", LONG)
    for size in (1 << 16, 999_999, 5_000_000):
        with eu.open_striped("f", home=home) as file:
            parts = []
            while part := file.read(size):
                parts.append(part)
            assert b"".join(parts) == LONG
    with io.BufferedReader(eu.open_striped("f", home=home)) as file:
        assert file.readline() == LONG[: LONG.index(b"\n") + 1]


def test_any_buffer_can_be_read_into_and_written(home: Path) -> None:
    numbers = np.arange(100_000)
    with eu.open_striped("f", "wb", home=home) as file:
        assert file.write(numbers) == numbers.nbytes
        assert file.write(memoryview(b"more")) == 4
    with eu.open_striped("f", home=home) as file:
        back = np.empty_like(numbers)
        assert file.readinto(back) == numbers.nbytes
        assert np.array_equal(back, numbers)
        with pytest.raises(TypeError):
            file.readinto(b"read-only")
        # NumPy's own error, as for plain files.
        with pytest.raises(ValueError, match="contiguous"):
            file.readinto(np.empty((4, 4))[:, ::2])


def test_threads_read_one_file_at_once(home: Path) -> None:
    put(home, "f", LONG)
    wrong = []
    with eu.open_striped("f", home=home) as file:

        def read(seed: int) -> None:
            choose = random.Random(seed)
            for _ in range(40):
                at, count = choose.randrange(len(LONG)), choose.randrange(2_000_000)
                if file.pread(count, at) != LONG[at : at + count]:
                    wrong.append((at, count))

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert not wrong


def test_a_version_is_visible_when_it_is_closed_and_not_before(home: Path) -> None:
    put(home, "f", b"old")
    reader = eu.open_striped("f", home=home)
    with eu.open_striped("f", "wb", home=home) as writer:
        writer.write(b"newer")
        assert eu.open_striped("f", home=home).read() == b"old"
    assert (reader.read(), eu.open_striped("f", home=home).read()) == (b"old", b"newer")
    with pytest.raises(ZeroDivisionError), eu.open_striped("f", "r+b", home=home) as writer:
        writer.write(b"lost")
        raise ZeroDivisionError
    assert eu.open_striped("f", home=home).read() == b"newer"
    with pytest.warns(ResourceWarning, match="was not closed"):
        eu.open_striped("f", "wb", home=home).__del__()
    assert eu.open_striped("f", home=home).read() == b"newer"


def test_any_parity_disks_may_be_lost(home: Path, tmp_path: Path) -> None:
    put(home, "f", LONG, data=3, parity=2)
    for lost in ("d1", "d4"):
        (tmp_path / lost).rename(tmp_path / f"away-{lost}")
    with eu.open_striped("f", home=home) as file:
        assert file.read() == LONG
        assert any("d1" in damage or "d4" in damage for damage in file.damages)
    (tmp_path / "d0").rename(tmp_path / "away-d0")
    with pytest.raises(eu.CorruptError, match="stripe 0 of striped file `f` is lost"):
        eu.open_striped("f", home=home).read()


def test_bad_input_is_a_typed_error_and_equal_width_a_warning(home: Path) -> None:
    for wrong in ({"data": 0}, {"parity": -1}, {"data": 1.5}, {"data": 6, "parity": 1}):
        with pytest.raises(eu.UsageError):
            eu.open_striped("f", "wb", home=home, **wrong)
    with pytest.raises(eu.UsageError, match="needs 7 disks, and there are 6 disks"):
        eu.open_striped("f", "wb", data=5, parity=2, home=home)
    with pytest.warns(UserWarning, match="pace of the slowest disk") as warned:
        eu.open_striped("f", "wb", data=5, parity=1, home=home).abandon()
    assert [one.filename for one in warned] == [__file__]
    for mode in ("r", "w", "ab", "rt"):
        with pytest.raises(eu.UsageError, match="mode"):
            eu.open_striped("f", mode, home=home)
    with pytest.raises(eu.UsageError, match="no striped file named"):
        eu.open_striped("absent", "r+b", home=home)
    with pytest.raises(eu.UsageError, match="no disk"):
        eu.open_striped("f", "wb", disks=["d0", "d1", "d2", "d3", "d9"], home=home)
    put(home, "f", b"1")
    with pytest.raises(eu.UsageError, match="already"):
        eu.open_striped("f", "xb", home=home)
    file = eu.open_striped("f", home=home)
    with pytest.raises(io.UnsupportedOperation):
        file.write(b"1")
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_names_are_shared_with_collections(home: Path) -> None:
    put(home, "f", b"1")
    flow = eu.Flow()
    flow.chain(eu.read("f"), eu.collect())
    with pytest.raises(eu.UsageError, match="is a striped file"):
        flow.go(home=home)
    flow = eu.Flow()
    flow.chain(eu.from_arrow({"n": [1]}), eu.write("f", overwrite=True))
    with pytest.raises(eu.UsageError, match="is a striped file"):
        flow.go(home=home)
    flow = eu.Flow()
    flow.chain(eu.from_arrow({"n": [1]}), eu.write("c"))
    flow.go(home=home)
    with pytest.raises(eu.UsageError, match="is a collection"):
        eu.open_striped("c", "wb", home=home)
    assert eu.open_striped("f", home=home).read() == b"1"


KILLS = 200 if os.environ.get("EUPHRATES_TORTURE") else 8
WRITER = """
import sys, euphrates as eu
content = sys.argv[2].encode() * 3_000_000
print("begun", flush=True)
for version in range(1000):
    with eu.open_striped("f", "wb", home=sys.argv[1]) as file:
        for at in range(0, len(content), 100_000):
            file.write(content[at : at + 100_000])
"""


def test_killed_writer_leaves_the_old_or_the_new_version(home: Path, tmp_path: Path) -> None:
    put(home, "f", b"0" * 3_000_000)
    before, choose = b"0", random.Random(4)
    for number in range(KILLS):
        letter = "abcdefghijklmnopqrstuvwxyz"[number % 26]
        command = [sys.executable, "-c", WRITER, str(home), letter]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(choose.uniform(0, 0.1))
            writer.send_signal(signal.SIGKILL)
        content = eu.open_striped("f", home=home).read()
        assert content[:1] in (before, letter.encode())
        before = content[:1]
        assert content == before * 3_000_000
    put(home, "f", b"1")
    euphrates = Path(sys.executable).with_name("euphrates")
    environment = {**os.environ, "EUPHRATES_HOME": str(home)}
    subprocess.run([euphrates, "gc"], env=environment, check=True, capture_output=True)
    left = [path for at in range(6) for path in (tmp_path / f"d{at}").rglob("*.blocks")]
    assert len(left) == 5, "what killed writers have staged is removed"


def test_forked_child_is_told_to_open_the_file_itself(home: Path) -> None:
    put(home, "f", LONG)
    file = eu.open_striped("f", home=home)
    file.read(100)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            file.read(100)
        except eu.UsageError:
            with eu.open_striped("f", home=home) as own:
                code = 0 if own.read() == LONG else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_pandas_reads_and_writes_through_the_file_object(home: Path) -> None:
    frame = pd.DataFrame({"n": range(1000), "text": [str(at) for at in range(1000)]})
    with eu.open_striped("frame", "wb", home=home) as file:
        frame.to_parquet(file)
    with eu.open_striped("frame", home=home) as file:
        assert pd.read_parquet(file).equals(frame)
