"""Collective sessions: writers send pieces to the owners of stripes, which may die or hang."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu
from euphrates._files.sessions import StripedSession
from striped_cases import make_home

STRIPE = 2 << 20
PIECE = 3_240
WRITERS = 4
FORK = multiprocessing.get_context("fork")
SECONDS_MAX = 60


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path, 4)


def begin(home: Path, writers: int = WRITERS) -> StripedSession:
    return eu.striped_session("f", writers, data=2, collective=True, home=home)


def read(home: Path) -> bytes:
    with eu.open_striped("f", home=home) as file:
        assert file.damages == []
        return file.read()


def left(home: Path) -> list[str]:
    """What is staged on the disks and in the home, beside the catalog and published files."""
    staged = [path for disk in home.parent.glob("d?") for path in (disk / ".staging").glob("*")]
    return [str(path) for path in [*staged, *home.glob("sessions/*")]]


def pieces_of(content: bytes, number: int) -> list[tuple[int, bytes]]:
    """Every fourth piece of the content, with its offset."""
    offsets = range(number * PIECE, len(content), WRITERS * PIECE)
    return [(at, content[at : at + PIECE]) for at in offsets]


def fill(session: StripedSession, number: int, content: bytes, ready: Any = None) -> None:
    with session.writer(number) as file:
        if ready is not None:
            ready.wait()
        for at, piece in pieces_of(content, number):
            file.pwrite(piece, at)


def fill_and_die(
    session: StripedSession, number: int, content: bytes, ready: Any, written: int
) -> None:
    """Is killed after this number of pieces; what it has sent by then is at the owners."""
    file = session.writer(number)
    ready.wait()
    for at, piece in pieces_of(content, number)[:written]:
        file.pwrite(piece, at)
    os.kill(os.getpid(), signal.SIGKILL)


def run(*calls: tuple[Any, ...]) -> list[int | None]:
    """Calls each in a process of its own, and returns their exit codes."""
    processes = [FORK.Process(target=call, args=args) for call, *args in calls]
    for process in processes:
        process.start()
    for process in processes:
        process.join(SECONDS_MAX)
    return [process.exitcode for process in processes]


def test_processes_that_share_all_stripes_write_one_file(home: Path) -> None:
    content = random.Random(1).randbytes(20 * STRIPE + 12_345)
    ready = FORK.Barrier(WRITERS, timeout=SECONDS_MAX)
    with begin(home) as session:
        calls = [(fill, session, number, content, ready) for number in range(WRITERS)]
        assert run(*calls) == [0] * WRITERS
        assert session.missing == []
    assert read(home) == content
    assert left(home) == []


@pytest.mark.parametrize("seed", range(12))
def test_writer_that_is_killed_leaves_the_old_or_the_new_version(home: Path, seed: int) -> None:
    choose = random.Random(seed)
    with eu.open_striped("f", "wb", data=2, home=home) as file:
        file.write(b"old" * 1_000_000)
    content = choose.randbytes(choose.choice([STRIPE // 2, 9 * STRIPE + 77]))
    victim = choose.randrange(WRITERS)
    written = choose.randrange(len(pieces_of(content, victim)) + 1)
    ready = FORK.Barrier(WRITERS, timeout=SECONDS_MAX)
    session = begin(home)
    calls: list[tuple[Any, ...]] = [
        (fill, session, number, content, ready) for number in range(WRITERS)
    ]
    calls[victim] = (fill_and_die, session, victim, content, ready, written)
    codes = run(*calls)
    assert codes == [-signal.SIGKILL if at == victim else 0 for at in range(WRITERS)], seed
    with pytest.raises(eu.UsageError, match=f"writer {victim} of {WRITERS} has not ended"):
        session.commit()
    assert read(home) == b"old" * 1_000_000
    # Another process takes its number, and writes other bytes.
    other = bytearray(content)
    for at, piece in pieces_of(content, victim):
        other[at : at + len(piece)] = bytes(byte ^ 255 for byte in piece)
    assert run((fill, session, victim, bytes(other))) == [0]
    try:
        session.commit()
    except eu.FlowError as error:
        assert f"writer {victim} was replaced after it had" in str(error), (seed, error)
        session.abandon()
        assert read(home) == b"old" * 1_000_000
    else:
        assert read(home) == other, seed
    assert left(home) == []


def test_owner_that_hangs_is_not_waited_for_longer_than_its_limit(home: Path) -> None:
    content = random.Random(3).randbytes(8 * STRIPE)
    session = begin(home)
    opened, stopped = FORK.Barrier(2, timeout=SECONDS_MAX), FORK.Event()
    process = FORK.Process(target=fill_in_steps, args=(session, 1, content, opened, stopped))
    process.start()
    opened.wait()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    calls = [(fill, session, number, content) for number in range(WRITERS) if number != 1]
    assert run(*calls) == [0] * 3
    os.kill(process.pid, signal.SIGCONT)
    stopped.set()
    process.join(SECONDS_MAX)
    assert process.exitcode == 0
    session.commit()
    assert read(home) == content
    assert left(home) == []


def fill_in_steps(
    session: StripedSession, number: int, content: bytes, opened: Any, may_go_on: Any
) -> None:
    with session.writer(number) as file:
        opened.wait()
        assert may_go_on.wait(SECONDS_MAX)
        for at, piece in pieces_of(content, number):
            file.pwrite(piece, at)


def test_sockets_are_those_of_one_user_and_garbage_is_refused(tmp_path: Path) -> None:
    # The address of a socket has 108 bytes.
    home = make_home(tmp_path / ("long" * 30), 4)
    content = random.Random(4).randbytes(2 * STRIPE)
    with begin(home, 2) as session:
        files = [session.writer(number) for number in range(2)]
        folder = next(path for path in (home / "sessions").iterdir() if path.is_dir())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        sockets = sorted(folder.glob("*.socket"))
        assert [stat.S_IMODE(path.stat().st_mode) for path in sockets] == [0o600] * 2
        descriptor = os.open(folder, os.O_RDONLY)
        for garbage in (b"", b"GET / HTTP/1.1\r\n\r\n", b"EUPIECE1" + b"\xff" * 100):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.settimeout(SECONDS_MAX)
                stranger.connect(f"/proc/self/fd/{descriptor}/{sockets[0].name}")
                stranger.sendall(garbage)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(100) == b""
        os.close(descriptor)
        half = PIECE // 2
        for at in range(0, len(content), half):
            files[at // half % 2].pwrite(content[at : at + half], at)
        for file in files:
            file.close()
    assert read(home) == content


def test_pieces_beyond_the_memory_of_an_owner_go_to_logs(home: Path) -> None:
    content = random.Random(5).randbytes(10 * STRIPE)
    with begin(home) as session:
        files = [session.writer(number, memory=STRIPE + 1) for number in range(WRITERS)]
        for number, file in enumerate(files):
            for at, piece in pieces_of(content, number):
                file.pwrite(piece, at)
        for file in files:
            file.close()
    assert read(home) == content
    with pytest.raises(eu.UsageError, match="memory"):
        session.writer(0, memory=0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_and_sockets_of_a_writer_end_with_it(home: Path) -> None:
    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    content = random.Random(6).randbytes(4 * STRIPE)
    counts = []
    for _ in range(3):
        with begin(home) as session:
            files = [session.writer(number) for number in range(WRITERS)]
            for number, file in enumerate(files):
                for at, piece in pieces_of(content, number):
                    file.pwrite(piece, at)
            for file in files:
                file.close()
        counts.append(held())
    assert counts[1] == counts[2], counts
