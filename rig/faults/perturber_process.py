"""The process of a perturber. Started by file name, so that it works within milliseconds.

It prints "ready" once it works, and ends by itself only with `--seconds`.
"""

from __future__ import annotations

import argparse
import itertools
import mmap
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

PAGE = mmap.PAGESIZE
SPAN_BYTES_MAX = 64 << 20
HOT_SECONDS = 1.0
for_ever = float("inf")


def turns(on: float, off: float, seconds: float) -> Iterator[float]:
    """Yields the end of each working period; advancing sleeps through the idle period."""
    start = time.monotonic()
    last = start + (seconds or for_ever)
    for turn in itertools.count():
        begin = start + turn * (on + off)
        end = min(last, begin + on) if on else last
        if begin >= last:
            return
        time.sleep(max(0.0, begin - time.monotonic()))
        if time.monotonic() < end:  # a working period that passed during the sleep is skipped
            yield end
        if end == last:
            return


def ready() -> None:
    print("ready", flush=True)


def competitor(way: str, target: str, depth: int, request: int, ends: Ends) -> None:
    """`depth` threads that transfer one file past the page cache, each every depth-th request."""
    read = way == "competitor-read"
    file, span = open_device(target) if read else open_scratch(target, request)
    move = os.preadv if read else os.pwritev
    requests = max(depth, span // request)

    def stream(first: int) -> None:
        buffer = mmap.mmap(-1, request)
        numbers = itertools.cycle(range(first, requests, depth))
        for end in ends():
            while time.monotonic() < end:
                move(file, [buffer], next(numbers) * request)

    threads = [threading.Thread(target=stream, args=[first]) for first in range(depth)]
    ready()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def open_device(path: str) -> tuple[int, int]:
    """Opens the device itself: the disk may hold no data to read."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    return file, os.lseek(file, 0, os.SEEK_END)


def open_scratch(folder: str, request: int) -> tuple[int, int]:
    """Opens an unnamed file of a quarter of the free space."""
    free = os.statvfs(folder)
    span = min(SPAN_BYTES_MAX, free.f_bavail * free.f_frsize // 4)
    span = max(1, span // request) * request
    file, path = tempfile.mkstemp(dir=folder, prefix=".euphrates-rig-")
    os.unlink(path)
    direct = os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_DIRECT)
    os.posix_fallocate(direct, 0, span)
    return direct, span


def cpu_hog(cpu: int, ends: Ends) -> None:
    os.sched_setaffinity(0, {cpu})
    ready()
    for end in ends():
        while time.monotonic() < end:
            for _ in range(10_000):
                pass


def memory_hog(size: int, ends: Ends) -> None:
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    for turn, end in enumerate(ends()):
        held = mmap.mmap(-1, size)
        touch(held, size)
        if turn == 0:
            ready()
        while time.monotonic() < end:
            time.sleep(min(HOT_SECONDS, max(0.0, end - time.monotonic())))
            touch(held, size)
        held.close()


def touch(held: mmap.mmap, size: int) -> None:
    for place in range(0, size, PAGE):
        held[place] = 1


def pause(pid: int, ends: Ends) -> None:
    for turn, end in enumerate(ends()):
        os.kill(pid, signal.SIGSTOP)
        if turn == 0:
            ready()
        if end == for_ever:
            signal.pause()
        time.sleep(max(0.0, end - time.monotonic()))
        os.kill(pid, signal.SIGCONT)


Ends = Callable[[], Iterator[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for time_ in ("--on", "--off", "--seconds"):
        parser.add_argument(time_, type=float, default=0.0)
    parser.add_argument("what")
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args()

    def ends() -> Iterator[float]:
        return turns(given.on, given.off, given.seconds)

    if given.what.startswith("competitor-"):
        target, depth, request = given.arguments
        competitor(given.what, target, int(depth), int(request), ends)
    else:
        kinds = {"cpu-hog": cpu_hog, "memory-hog": memory_hog, "pause": pause}
        kinds[given.what](int(given.arguments[0]), ends)


if __name__ == "__main__":
    main()
