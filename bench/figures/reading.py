"""Reading a large file: with `read` into a small buffer, mapped, and with O_DIRECT as Euphrates
does.

Berkeley NOW, 6.3 and Figure 9: on the machine of 1997 `read` held every record twice, in the file
system's cache and in the program, and the sort paged when it read more than a third of the memory;
a mapped file with `madvise` did not. Here memory is ample, and the cost of reading is compared:
wall seconds, processor seconds, and bytes left in the page cache, which evict other programs' data.
Each way reads the same file with a cold cache, and counts line ends, as any consumer would scan its
input once. The ways take turns.

    read      64 KiB at a time into one buffer
    mmap      mapped, `MADV_SEQUENTIAL`, and pages released after use, as in the paper; the kernel
              may keep released pages
    O_DIRECT  1 MiB at a time by 4 threads with a buffer each, as a disk of Euphrates does

Mapping may be faster; Euphrates does not map, because truncating a mapped file kills the program.
The claim is at least the rate of `read`, and an unchanged page cache.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from figure import COLOURS

TITLE = "Berkeley NOW, figure 9: a cold file by read, mapped, and past the page cache"
PANELS = 3
BYTES = 2_000_000_000
QUICK_BYTES = 200_000_000
ROUNDS = 5
BUFFER = 64 << 10
REQUEST = 1 << 20
REQUESTS = 4
SLOWER_MAX = 1.05
CACHED_MAX = 0.01


def write(path: Path, bytes_: int) -> int:
    """A file of random bytes, cut to a whole number of requests."""
    bytes_ -= bytes_ % REQUEST
    noise = np.random.default_rng(1).bytes(REQUEST)
    with open(path, "wb") as file:
        for _ in range(bytes_ // REQUEST):
            file.write(noise)
        os.fsync(file.fileno())
    return bytes_


def looked_at(part: Any) -> int:
    """A consumer's work: it scans each byte once."""
    return int(np.count_nonzero(np.frombuffer(part, np.uint8) == 10))


def by_read(path: Path) -> int:
    found, buffer = 0, bytearray(BUFFER)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            found += looked_at(memoryview(buffer)[:count])
    return found


def by_mmap(path: Path) -> int:
    found = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        mapped.madvise(mmap.MADV_SEQUENTIAL)
        for at in range(0, len(mapped), REQUEST):
            part = np.frombuffer(mapped, np.uint8, min(REQUEST, len(mapped) - at), at)
            found += int(np.count_nonzero(part == 10))
            del part
            mapped.madvise(mmap.MADV_DONTNEED, at, REQUEST)
            os.posix_fadvise(file.fileno(), at, REQUEST, os.POSIX_FADV_DONTNEED)
    return found


def by_direct(path: Path) -> int:
    size, found, lock = path.stat().st_size, [0], threading.Lock()
    parts = iter(range(0, size, REQUEST))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)

    def work() -> None:
        # An anonymous mapping is page-aligned, as direct requests require.
        with mmap.mmap(-1, REQUEST) as buffer:
            while True:
                with lock:
                    at = next(parts, None)
                if at is None:
                    return
                os.preadv(descriptor, [buffer], at)
                here = looked_at(buffer)
                with lock:
                    found[0] += here

    threads = [threading.Thread(target=work) for _ in range(REQUESTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)
    return found[0]


WAYS: dict[str, Callable[[Path], int]] = {
    "read": by_read,
    "mmap": by_mmap,
    "O_DIRECT": by_direct,
}
COLOURS_OF = {"read": "#6e7781", "mmap": "#e3a008", "O_DIRECT": COLOURS["late_binding"]}


def cached(path: Path) -> float:
    """The part of a file that is in the page cache."""
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    seen = (ctypes.c_ubyte * pages)()
    library = ctypes.CDLL(None, use_errno=True)
    # Copy-on-write, because only writable memory has an address here; nothing is written.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(start))
        failed = library.mincore(address, ctypes.c_size_t(size), seen)
        del start
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(one & 1 for one in seen) / pages


def once(way: str, path: Path) -> dict[str, float]:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert cached(path) < CACHED_MAX, "the file is still in the page cache"
    began, computed = time.perf_counter(), time.process_time()
    found = WAYS[way](path)
    seconds, computed = time.perf_counter() - began, time.process_time() - computed
    return {"seconds": seconds, "computed": computed, "cached": cached(path), "found": found}


def measure(quick: bool) -> dict[str, Any]:
    rounds = 1 if quick else ROUNDS
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        bytes_ = write(path, QUICK_BYTES if quick else BYTES)
        for _ in range(rounds):
            for way in WAYS:
                runs[way].append(once(way, path))
    assert len({run["found"] for all_ in runs.values() for run in all_}) == 1
    results: dict[str, Any] = {"bytes": bytes_, "ways": {}}
    for way, all_ in runs.items():
        seconds = statistics.median(run["seconds"] for run in all_)
        results["ways"][way] = {
            "bytes_per_second": bytes_ / seconds,
            "computed_per_gb": statistics.median(run["computed"] for run in all_) * 1e9 / bytes_,
            "cached": statistics.median(run["cached"] for run in all_),
            "runs": all_,
        }
        print(f"    {way}: {bytes_ / seconds / 1e6:.0f} MB/s", flush=True)
    return results


def claims(results: dict[str, Any]) -> Any:
    ours, read, mapped = (
        results["ways"][way]["bytes_per_second"] for way in ("O_DIRECT", "read", "mmap")
    )
    told = f"past the page cache {ours / read:.2f} times as fast as by read"
    beside = f"mapped {mapped / read:.2f} times"
    yield f"{told} (at least {1 / SLOWER_MAX:.2f}); {beside}", ours * SLOWER_MAX >= read
    left = results["ways"]["O_DIRECT"]["cached"]
    yield f"{left:.1%} of the file are left in the page cache by ours", left <= CACHED_MAX


def draw(axes: Any, results: dict[str, Any]) -> None:
    panels: list[tuple[str, str, float]] = [
        ("bytes_per_second", "MB a second", 1e-6),
        ("computed_per_gb", "processor seconds a GB", 1),
        ("cached", "% of the file left in the page cache", 100),
    ]
    for axis, (what, label, factor) in zip(axes, panels):
        for at, (way, one) in enumerate(results["ways"].items()):
            bar = axis.bar(at, one[what] * factor, width=0.6, color=COLOURS_OF[way])
            axis.bar_label(bar, fmt="%.4g", fontsize="small", padding=2)
        axis.set_xticks(range(len(WAYS)), list(WAYS))
        axis.set_ylabel(label)
