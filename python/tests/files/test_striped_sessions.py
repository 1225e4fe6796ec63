"""Sessions in which several writers fill one striped file."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import euphrates as eu
from euphrates._files.sessions import StripedSession
from striped_cases import make_home

STRIPE = 4 << 20


@pytest.fixture(params=[False, True], ids=["shares", "collective"], autouse=True)
def each_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is of both kinds of sessions."""
    begin = functools.partial(eu.striped_session, collective=request.param)
    monkeypatch.setattr(eu, "striped_session", begin)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path, 6)


def left(home: Path) -> list[str]:
    """What is staged on the disks and in the home, beside the catalog and published files."""
    staged = [path for disk in home.parent.glob("d?") for path in (disk / ".staging").glob("*")]
    return [str(path) for path in [*staged, *home.glob("sessions/*")]]


def read(home: Path, name: str) -> bytes:
    with eu.open_striped(name, home=home) as file:
        assert file.damages == []
        return file.read()


def fill(session: StripedSession, number: int, content: bytes, offset: int) -> None:
    with session.writer(number) as file:
        assert file.pwrite(content, offset) == len(content)


def test_processes_fill_ranges_that_share_stripes(home: Path) -> None:
    content = random.Random(1).randbytes(19_000_001)
    bounds = [0, 3_000_000, 3_000_001, 9_500_000, 17_000_000, len(content)]
    fork = multiprocessing.get_context("fork")
    with eu.striped_session("f", 5, home=home) as session:
        cuts = list(enumerate(zip(bounds, bounds[1:], strict=False)))
        arguments = [(session, at, content[begin:end], begin) for at, (begin, end) in cuts]
        processes = [fork.Process(target=fill, args=one) for one in arguments]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert session.missing == []
        with pytest.raises(eu.UsageError, match="no striped file"):
            eu.open_striped("f", home=home)
    assert read(home, "f") == content
    assert left(home) == []


def test_program_that_got_the_session_pickled_writes_and_may_not_commit(home: Path) -> None:
    program = (
        "import pickle, sys, euphrates as eu\n"
        "session = pickle.load(sys.stdin.buffer)\n"
        "with session.writer(0) as file:\n"
        "    file.pwrite(b'abc', 1)\n"
        "try:\n"
        "    session.commit()\n"
        "except eu.UsageError as error:\n"
        "    print(error)\n"
    )
    with eu.striped_session("f", 1, home=home) as session:
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=pickle.dumps(session),
            capture_output=True,
            check=True,
        )
        assert b"begun by another process" in done.stdout
    assert read(home, "f") == b"\0abc"


def test_threads_fill_interleaved_pieces(home: Path) -> None:
    content = random.Random(2).randbytes(6 * 3_240 * 700)
    with eu.striped_session("f", 6, data=2, home=home) as session:

        def write(number: int) -> None:
            pieces = [content[at : at + 3_240] for at in range(0, len(content), 3_240)]
            with session.writer(number) as file:
                view = file.view(3_240 * number, 3_240, 6 * 3_240, 700)
                assert view.pwrite(b"".join(pieces[number::6])) == 3_240 * 700

        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert read(home, "f") == content
    assert left(home) == []


def test_random_sessions_are_like_a_plain_array(home: Path) -> None:
    choose = random.Random(3)
    for case in range(12):
        writers = choose.randrange(1, 5)
        size = choose.choice([1, 1000, STRIPE // 2, STRIPE, 3 * STRIPE + 5])
        cuts = sorted({0, size, *(choose.randrange(size) for _ in range(3 * writers))})
        ranges = list(zip(cuts, cuts[1:], strict=False))
        choose.shuffle(ranges)
        content = bytearray(size)
        with eu.striped_session(f"f{case}", writers, data=2, home=home) as session:
            files = [session.writer(number) for number in range(writers)]
            for at, (begin, end) in enumerate(ranges):
                if choose.randrange(5) == 0:
                    continue
                part = choose.randbytes(end - begin)
                content[begin:end] = part
                written = begin
                while written < end:
                    count = choose.choice([1 << 20, end - written])
                    piece = part[written - begin : written - begin + count]
                    files[at % writers].pwrite(piece, written)
                    written += len(piece)
                if choose.randrange(4) == 0:
                    files[at % writers].pwrite(part[:100], begin)
            length = max((file.size for file in files), default=0)
            for file in files:
                file.close()
        assert read(home, f"f{case}") == content[:length], case


def test_missing_writers_are_named_and_may_still_end(home: Path) -> None:
    session = eu.striped_session("f", 4, home=home)
    for number in (0, 2):
        fill(session, number, b"x", number)
    assert session.missing == [1, 3]
    with pytest.raises(eu.UsageError, match="writers 1, 3 of 4 have not ended") as error:
        session.commit()
    assert error.value.remedy
    fill(session, 1, b"x", 1)
    fill(session, 3, b"x", 3)
    session.commit()
    assert read(home, "f") == b"xxxx"
    with pytest.raises(eu.UsageError, match="has ended"):
        session.writer(0)


@pytest.mark.parametrize("size", [10, STRIPE, 2 * STRIPE + 10])
def test_bytes_of_two_writers_are_refused_by_name(home: Path, size: int) -> None:
    session = eu.striped_session("f", 3, home=home)
    fill(session, 0, b"a" * size, 0)
    fill(session, 2, b"b" * size, size - 1)
    fill(session, 1, b"", 0)
    with pytest.raises(eu.UsageError, match="writers 0 and 2 have both written"):
        session.commit()
    session.abandon()
    assert left(home) == []


def test_writer_that_fails_can_be_replaced_and_one_that_ended_cannot(home: Path) -> None:
    session = eu.striped_session("f", 1, home=home)
    with pytest.raises(ValueError, match="broken"), session.writer(0) as file:
        file.pwrite(b"wrong" * 2_000_000, 0)
        raise ValueError("broken")
    fill(session, 0, b"right", 0)
    with pytest.raises(eu.UsageError, match="writer 0 has ended already"):
        session.writer(0)
    with pytest.raises(eu.UsageError, match="no writer 1 of 1"):
        session.writer(1)
    session.commit()
    assert read(home, "f") == b"right"
    assert left(home) == []


def test_of_two_sessions_the_first_commit_wins(home: Path) -> None:
    first, second = (eu.striped_session("f", 1, home=home) for _ in range(2))
    fill(first, 0, b"first" * 1_000_000, 0)
    fill(second, 0, b"second" * 1_000_000, 0)
    second.commit()
    with pytest.raises(eu.FlowError, match="another writer"):
        first.commit()
    first.abandon()
    assert read(home, "f") == b"second" * 1_000_000
    assert left(home) == []


def test_session_of_a_killed_process_leaves_nothing_after_gc(home: Path) -> None:
    program = (
        "import os, signal, sys, euphrates as eu\n"
        "session = eu.striped_session('f', 2, home=sys.argv[1])\n"
        "with session.writer(0) as file:\n"
        "    file.pwrite(b'a' * 9_000_000, 0)\n"
        "file = session.writer(1)\n"
        "file.pwrite(b'b' * 9_000_000, 9_000_000)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(home)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert left(home) != []
    environment = {**os.environ, "EUPHRATES_HOME": str(home)}
    gc = [str(Path(sys.executable).with_name("euphrates")), "gc"]
    subprocess.run(gc, env=environment, check=True, capture_output=True)
    assert left(home) == [] and not (home / "sessions").exists()
    assert [path for disk in home.parent.glob("d?") for path in disk.glob("f/*")] == []


def test_open_session_survives_the_start_of_other_programs(home: Path) -> None:
    session = eu.striped_session("f", 1, home=home)
    fill(session, 0, b"kept" * 3_000_000, 0)
    environment = {**os.environ, "EUPHRATES_HOME": str(home)}
    gc = [str(Path(sys.executable).with_name("euphrates")), "gc"]
    subprocess.run(gc, env=environment, check=True, capture_output=True)
    with eu.open_striped("g", "wb", home=home) as file:
        file.write(b"another")
    session.commit()
    assert read(home, "f") == b"kept" * 3_000_000


def test_session_replaces_the_version_before_and_frees_its_space(home: Path) -> None:
    with eu.open_striped("f", "wb", home=home) as file:
        file.write(b"old" * 5_000_000)
    with eu.striped_session("f", 2, home=home) as session:
        fill(session, 0, b"n" * 5_000_000, 0)
        fill(session, 1, b"w" * 5_000_000, 5_000_000)
        assert read(home, "f")[:3] == b"old"
    assert read(home, "f") == b"n" * 5_000_000 + b"w" * 5_000_000
    blocks = [path for disk in home.parent.glob("d?") for path in disk.rglob("*.blocks")]
    assert sum(path.stat().st_size for path in blocks) < 16_000_000


def test_shares_on_a_lost_disk_are_restored(home: Path) -> None:
    session = eu.striped_session("f", 2, home=home)
    content = random.Random(4).randbytes(20_000_000)
    fill(session, 0, content[:11_000_000], 0)
    fill(session, 1, content[11_000_000:], 11_000_000)
    (home.parent / "d2").rename(home.parent / "lost")
    session.commit()
    with eu.open_striped("f", home=home) as file:
        assert file.read() == content


def test_pieces_beyond_the_memory_of_a_writer_are_those_written_last(home: Path) -> None:
    # 100 MB in stripes of which no writer fills one: the first pieces leave memory for the log.
    content = bytearray(random.Random(5).randbytes(25 * STRIPE))
    half = STRIPE // 2
    with eu.striped_session("f", 2, home=home) as session:
        for number in range(2):
            with session.writer(number) as file:
                for at in range(number * half, len(content), STRIPE):
                    file.pwrite(bytes(half), at)
                for at in range(number * half, len(content), STRIPE):
                    file.pwrite(content[at : at + half], at)
    assert read(home, "f") == content
    assert left(home) == []


def test_wrong_numbers_are_usage_errors(home: Path) -> None:
    for writers in (0, -1, 1.5, True):
        with pytest.raises(eu.UsageError, match="writers"):
            eu.striped_session("f", writers, home=home)  # type: ignore[arg-type]
    with pytest.raises(eu.UsageError, match="needs 5 disks"):
        eu.striped_session("f", 2, disks=["d0"], home=home)
    assert left(home) == []
