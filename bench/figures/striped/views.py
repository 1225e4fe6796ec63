"""Views and sessions of striped files against contiguous writing, on throttled disks.

Strided: nine writers fill a file of BTIO's geometry. A plane has 243 rows of three pieces of 3,240
bytes; each writer has three cells, one in each third of the planes, and each cell is a nested
view. Nine threads write through one open file, or nine processes in a session; against the same
writers with a ninth of the file each. Processes count from when all of them have started, as MPI
programs do. The processes leave their pieces to the commit (shares), or send them to the owners of
stripes (collective).

Checkpoint: eight processes write 50 MB each, into one shared file by a session, or a file each.
The ranges of the shared file are whole stripes, or end anywhere; the latter also collectively.

Six disks, in stripes of 4 + 1 blocks; used past the page cache.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figure import COLOURS
from striped import RATE, ROUNDS, WRITE_DISKS, Home, remove

import euphrates as eu
import rig

TITLE = "Strided views and shared checkpoints against contiguous files, on six throttled disks"
PANELS = 2
SIZE = "1500MB"
PIECE, THIRD = 3_240, 81
ROW = 3 * PIECE
PLANE = 3 * THIRD * ROW
WRITERS, PROCESSES = 9, 8
PLANES = 27
STRIPE = 4 << 20
SECONDS_MAX = 120
BYTES, CUT, QUICK_BYTES = 12 * STRIPE, 50_000_000, 4 * STRIPE
STRIDED = ("threads", "processes")
COLLECTIVE = "collective"
STRIDED_MOST, SHARED_LEAST = 1.15, 0.9
COLLECTIVE_MOST = 1.0


def missing() -> str | None:
    return rig.missing("disks")


def cells(writer: int, planes: int) -> list[tuple[int, ...]]:
    """The three cells of a writer, as arguments of `view`: no two are in one third of an axis."""
    across, down = writer % 3, writer // 3
    return [
        (
            at * planes // 3 * PLANE + (down + at) % 3 * THIRD * ROW + (across + at) % 3 * PIECE,
            *(PIECE, ROW, THIRD, PLANE, planes // 3),
        )
        for at in range(3)
    ]


def fill(file: eu.StripedFile, writer: int, planes: int, strided: bool) -> None:
    """Writes a ninth of the file: three cells, or what is contiguous."""
    part = bytes([writer + 1]) * (planes // 3 * THIRD * PIECE)
    if not strided:
        for at in range(3):
            file.pwrite(part, (3 * writer + at) * len(part))
        return
    for cell in cells(writer, planes):
        file.view(*cell).pwrite(part)


def expected(planes: int) -> bytes:
    """The strided file."""
    thirds = []
    for at in range(3):
        rows = [b""] * 3
        for down in range(3):
            owners = {(w % 3 + at) % 3: w for w in range(9) if (w // 3 + at) % 3 == down}
            rows[down] = b"".join(bytes([owners[across] + 1]) * PIECE for across in range(3))
        thirds.append(b"".join(row * THIRD for row in rows) * (planes // 3))
    return b"".join(thirds)


def by_threads(home: Path, planes: int, strided: bool) -> None:
    with eu.open_striped("f", "wb", home=home) as file:
        together(threading.Thread, fill, [(file, at, planes, strided) for at in range(WRITERS)])


def by_processes(
    home: Path,
    planes: int,
    strided: bool,
    collective: bool = False,
    commits: list[float] | None = None,
) -> float:
    """The seconds from when all processes are ready until the commit has ended.

    Those of the commit are appended to `commits`.
    """
    fork = multiprocessing.get_context("fork")
    ready = fork.Barrier(WRITERS + 1, timeout=SECONDS_MAX)
    pipes = [fork.Pipe(duplex=False) for _ in range(WRITERS)]
    calls = [(ready, receive, at, planes, strided) for at, (receive, _) in enumerate(pipes)]
    processes = [fork.Process(target=fill_share, args=call) for call in calls]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    with eu.striped_session("f", WRITERS, collective=collective, home=home) as session:
        for _, send in pipes:
            send.send(session)
        ready.wait()
        closed = time.perf_counter()
    ended = time.perf_counter()
    if commits is not None:
        commits.append(ended - closed)
    for process in processes:
        process.join()
    return ended - began


def fill_share(ready: Any, receive: Any, writer: int, planes: int, strided: bool) -> None:
    ready.wait()
    with receive.recv().writer(writer) as file:
        fill(file, writer, planes, strided)
    ready.wait()


def together(kind: Any, call: Callable[..., None], arguments: list[tuple[Any, ...]]) -> None:
    """Calls it with each of the arguments, in threads or processes at once."""
    started = [kind(target=call, args=one) for one in arguments]
    for one in started:
        one.start()
    for one in started:
        one.join()
    assert all(getattr(one, "exitcode", 0) == 0 for one in started)


def shared(home: Path, length: int, collective: bool = False) -> None:
    with eu.striped_session("f", PROCESSES, collective=collective, home=home) as session:
        calls = [(session, at, length) for at in range(PROCESSES)]
        together(multiprocessing.get_context("fork").Process, write_share, calls)


def write_share(session: eu.StripedSession, number: int, length: int) -> None:
    with session.writer(number) as file:
        file.pwrite(bytes([number + 1]) * length, number * length)


def apart(home: Path, length: int) -> None:
    calls = [(home, at, length) for at in range(PROCESSES)]
    together(multiprocessing.get_context("fork").Process, write_own, calls)


def write_own(home: Path, number: int, length: int) -> None:
    with eu.open_striped(f"f{number}", "wb", home=home) as file:
        file.write(bytes([number + 1]) * length)


def seconds(call: Callable[..., float | None], *arguments: Any) -> float:
    """What a call says that it took, or else its time."""
    began = time.perf_counter()
    took = call(*arguments)
    return time.perf_counter() - began if took is None else took


def content(home: Path) -> bytes:
    with eu.open_striped("f", home=home) as file:
        return file.read()


def measure(quick: bool) -> dict[str, Any]:
    length = QUICK_BYTES if quick else BYTES
    times: dict[str, list[float]] = {}
    commits: dict[str, list[float]] = {"processes": [], COLLECTIVE: []}
    with ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        home = Home(folder / "home", made.enter_context(rig.Disks(WRITE_DISKS, RATE, size=SIZE)))
        whole = expected(PLANES)

        def timed(name: str, call: Callable[..., float | None], *arguments: Any) -> None:
            took = seconds(call, home.folder, *arguments)
            times.setdefault(name, []).append(took)
            print(f"    {name}: {took:.2f} s", flush=True)

        for _ in range(1 if quick else ROUNDS):
            for kind, call in zip(STRIDED, (by_threads, by_processes)):
                timed(f"contiguous, {kind}", call, PLANES, False)
                of_kind = (False, commits[kind]) if kind in commits else ()
                timed(f"strided, {kind}", call, PLANES, True, *of_kind)
                assert content(home.folder) == whole
                remove(home.folder, ["f"])
            timed(f"strided, {COLLECTIVE}", by_processes, PLANES, True, True, commits[COLLECTIVE])
            assert content(home.folder) == whole
            remove(home.folder, ["f"])
            timed("file each", apart, length)
            remove(home.folder, [f"f{at}" for at in range(PROCESSES)])
            cut = length * CUT // BYTES
            for name, size, collective in (
                ("shared, whole stripes", length, False),
                ("shared", cut, False),
                ("shared, collective", cut, True),
            ):
                timed(name, shared, size, collective)
                ranges = [bytes([at + 1]) * size for at in range(PROCESSES)]
                assert content(home.folder) == b"".join(ranges)
                remove(home.folder, ["f"])
    return {
        "seconds": times,
        "commit seconds": commits,
        "rate": RATE,
        "strided bytes": PLANE * PLANES,
        "bytes each": length,
    }


def of(results: dict[str, Any], name: str) -> float:
    """The median time."""
    seconds: float = statistics.median(results["seconds"][name])
    return seconds


def ratio(results: dict[str, Any], kind: str) -> float:
    return of(results, f"strided, {kind}") / of(results, f"contiguous, {kind}")


def claims(results: dict[str, Any]) -> Any:
    for kind in STRIDED:
        times = ratio(results, kind)
        claim = f"strided views, nine {kind}: {times:.2f} times contiguous (at most {STRIDED_MOST})"
        yield claim, times <= STRIDED_MOST
    times = of(results, f"strided, {COLLECTIVE}") / of(results, "strided, processes")
    claim = f"strided views, collective: {times:.2f} times shares (at most {COLLECTIVE_MOST})"
    yield claim, times <= COLLECTIVE_MOST
    cut = CUT / BYTES
    for name, bytes_ in (
        ("shared, whole stripes", 1.0),
        ("shared", cut),
        ("shared, collective", cut),
    ):
        part = bytes_ * of(results, "file each") / of(results, name)
        claim = f"checkpoint, {name}: {part:.2f} of a file each (at least {SHARED_LEAST})"
        yield claim, part >= SHARED_LEAST


def draw(axes: Any, results: dict[str, Any]) -> None:
    groups = [
        [f"{how}, {kind}" for kind in STRIDED for how in ("contiguous", "strided")]
        + [f"strided, {COLLECTIVE}"],
        ["file each", "shared, whole stripes", "shared", "shared, collective"],
    ]
    for one, names, title in zip(axes, groups, ("nine writers", "checkpoint of eight")):
        for at, name in enumerate(names):
            plain = name.startswith(("contiguous", "file each"))
            one.bar(at, of(results, name), color=COLOURS["shortest" if plain else "graduated"])
            one.text(at, of(results, name), f"{of(results, name):.2f}", ha="center", va="bottom")
        labels = [name.replace(", ", ",\n") for name in names]
        one.set_xticks(range(len(names)), labels, fontsize=8)
        one.set_ylabel("seconds")
        one.set_title(title, fontsize=9)
