"""What a process waits for at exit: files and file systems that native code alone holds."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs

from euphrates._files.exits import EXIT_WAIT_SECONDS, wait_for_native_holders
from euphrates._files.filesystem import EuphratesFileSystem
from striped_cases import make_home


class Clock:
    """Virtual time, which `sleep` advances; at `then` the holder is dropped."""

    def __init__(self, holders: list[object], then: float) -> None:
        self.now, self.holders, self.then = 0.0, holders, then

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self.then:
            self.holders.clear()


def files_of(home: Path) -> EuphratesFileSystem:
    return EuphratesFileSystem(data=1, parity=1, home=str(home), skip_instance_cache=True)


def native_holder(files: EuphratesFileSystem) -> object:
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files))


def test_exit_waits_for_what_native_code_holds(tmp_path: Path) -> None:
    holders = [native_holder(files_of(make_home(tmp_path, 3)))]
    clock = Clock(holders, then=EXIT_WAIT_SECONDS / 2)
    wait_for_native_holders(clock.sleep, clock)
    assert EXIT_WAIT_SECONDS / 2 <= clock.now < EXIT_WAIT_SECONDS


def test_exit_waits_for_a_bounded_time(tmp_path: Path) -> None:
    holders = [native_holder(files_of(make_home(tmp_path, 3)))]
    clock = Clock(holders, then=float("inf"))
    wait_for_native_holders(clock.sleep, clock)
    assert EXIT_WAIT_SECONDS <= clock.now < 2 * EXIT_WAIT_SECONDS


def test_exit_does_not_wait_for_what_the_program_holds(tmp_path: Path) -> None:
    files = files_of(make_home(tmp_path, 3))
    files.pipe("digits", b"0123456789")
    held = [files, files.open("digits")]
    clock = Clock([], then=float("inf"))
    wait_for_native_holders(clock.sleep, clock)
    assert clock.now == 0 and held[1].read(3) == b"012"
