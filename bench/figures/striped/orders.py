"""The order of requests of eight clients at eight servers (Isaila et al., Clusterfile, Figs 2 and
3).

Each of eight processes transfers 32 MiB, as much to each of eight workers, which serve one
throttled disk each. A client has a file at each disk, as a subfile of Clusterfile is at its I/O
server, so the placement is fixed. A *schedule block* is what a client transfers to one server
before it turns to the next. With `first` all clients begin at the first server and go round, which
is the order of offsets in a striped file; with `random` they draw the server; with `hash` client i
begins at server i. They wait for each transfer before the next, or have four in flight; workers
serve waiting requests in the order of the same name. With `late` a client does not choose: it has a
request at each server, and the workers decide which to serve first.

Disks are read and written in blocks of 1 MiB. A smaller schedule block is a part of one: the
client collects it in memory, or takes it from there. A larger one is several blocks at once.

The servers are equal; one has a quarter of its rate; or one after the other pauses, for the time of
eight blocks, in which each takes nine times as long (as in `crates/sim/src/stripes/orders.rs`).
*Late placement* is a file over all disks, each block of which the writer places when it writes it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figure import COLOURS
from served import served

import euphrates as eu
import rig

TITLE = "The order of requests: eight clients at eight served disks, by schedule block"
PANELS = 3
RATE, SLOW = 16_000_000, 0.25
SIZE = "700MB"
ROUNDS = 4
CLIENTS = SERVERS = 8
MIB = 1 << 20
PART = 4 * MIB
"""The bytes of a client at each server."""
LARGE = 4 * PART
BLOCKS = (4 << 10, 256 << 10, MIB, 4 * MIB)
FIXED = ("first", "random", "hash")
ORDERS = (*FIXED, "late")
WAYS = ("written", "read")
PAUSED = 9
PAUSE_SECONDS = 8 * MIB / RATE
SECONDS_MAX = 120


@dataclass(frozen=True)
class Case:
    """What is measured: `client` is the order in which clients request, `late` if they have one
    request at each server, or `placed` if blocks are placed when they are written.
    """

    way: str
    state: str
    client: str
    block: int = MIB
    in_flight: int = 1
    served: str = ""
    part: int = PART

    @property
    def order(self) -> str:
        """The order of the workers."""
        fixed = self.client if self.client in FIXED else "late"
        return self.served or fixed

    def __str__(self) -> str:
        flight = f", {self.in_flight} in flight" if self.client in FIXED else ""
        each = f", {SERVERS * self.part // MIB} MiB each" if self.part != PART else ""
        size = f"{self.block >> 10} KiB{each}"
        return f"{self.way}, {self.state}, {self.client} served {self.order}, {size}{flight}"


def missing() -> str | None:
    return rig.missing("disks")


def cases() -> Iterator[Case]:
    """All of a round."""
    for way in WAYS:
        for block in BLOCKS:
            yield from (Case(way, "equal", order, block) for order in ORDERS)
        for order in FIXED:
            yield Case(way, "equal", order, in_flight=4)
            yield Case(way, "equal", "late", served=order)
        yield from (Case(way, "slow", order) for order in (*ORDERS, "placed"))
        yield Case(way, "slow", "placed", part=LARGE)
        yield from (Case(way, "pause", order) for order in ("hash", "late"))
        yield from (Case(way, "pause", "hash", in_flight=some) for some in (4, 8))
        yield Case(way, "pause", "late", served="hash")


class Subfile:
    """What a client has at one server; one transfer at a time, as between any two in the paper."""

    def __init__(self, file: eu.StripedFile, case: Case, content: bytes) -> None:
        self.file, self.case, self.content = file, case, content
        self.turn = threading.Lock()
        self.at = 0

    def transfer(self) -> None:
        """Transfers the next schedule block. Reads go from the end to the beginning: consecutive
        ones would be read ahead.
        """
        size = self.case.block
        with self.turn:
            self.at += size
            if self.case.way == "read":
                assert self.file.pread(size, PART - self.at) == self.content
                return
            self.file.pwrite(self.content, self.at - size)
            if self.at % MIB == 0:
                expect_written(self.file)

    def transfer_all(self) -> None:
        for _ in range(PART // self.case.block):
            self.transfer()


def expect_written(file: eu.StripedFile) -> None:
    """Waits until all blocks are on disks, which a file does before it is cut."""
    end = file.size
    file.truncate(end + MIB)
    file.truncate(end)


def content(number: int, server: int, size: int) -> bytes:
    return bytes([number * SERVERS + server + 1]) * size


def servers(case: Case, number: int) -> list[int]:
    """The servers of a client's transfers, in order."""
    steps = PART // case.block
    in_turn = [at % SERVERS for at in range(SERVERS * steps)]
    if case.client == "hash":
        return [(number + server) % SERVERS for server in in_turn]
    if case.client == "random":
        random.Random(number).shuffle(in_turn)
    return in_turn


def in_order(case: Case, number: int, subfiles: list[Subfile]) -> None:
    turns, turn = iter(servers(case, number)), threading.Lock()

    def work(_: int) -> None:
        while True:
            with turn:
                server = next(turns, None)
            if server is None:
                return
            subfiles[server].transfer()

    at_once(work, range(case.in_flight))


def at_once(call: Callable[[Any], None], each: Any) -> None:
    """Calls it with each in a thread of its own."""
    with ThreadPoolExecutor(len(each)) as pool:
        list(pool.map(call, each))


def transfer_subfiles(number: int, ready: Any, case: Case, home: str) -> tuple[float, float]:
    """One client's transfers: when they have begun, and ended."""
    with ExitStack() as opened:
        subfiles = []
        for server in range(SERVERS):
            name = f"c{number}.s{server}"
            mode = "rb" if case.way == "read" else "wb"
            shape = {} if mode == "rb" else {"data": 1, "parity": 0, "disks": [f"d{server}"]}
            file = eu.open_striped(name, mode, home=home, **shape)
            opened.callback(file.abandon)
            subfiles.append(Subfile(file, case, content(number, server, case.block)))
        ready.wait()
        began = time.perf_counter()
        if case.client == "late":
            at_once(Subfile.transfer_all, subfiles)
        else:
            in_order(case, number, subfiles)
        ended = time.perf_counter()
        ready.wait()
        return began, ended


def transfer_placed(number: int, ready: Any, case: Case, home: str) -> tuple[float, float]:
    """The same of a file over all disks."""
    part = content(number, 0, MIB)
    mode = "rb" if case.way == "read" else "wb"
    shape = {} if mode == "rb" else {"data": 1, "parity": 0}
    with ExitStack() as opened:
        file = eu.open_striped(f"c{number}.{case.part}", mode, home=home, **shape)
        opened.callback(file.abandon)
        ready.wait()
        began = time.perf_counter()
        for _ in range(SERVERS * case.part // MIB):
            if mode == "rb":
                assert file.read(MIB) == part
            else:
                file.write(part)
        if mode == "wb":
            expect_written(file)
        ended = time.perf_counter()
        ready.wait()
        return began, ended


def store(number: int, _: Any, home: str) -> None:
    """Writes what a client reads."""
    for server in range(SERVERS):
        name, disks = f"c{number}.s{server}", [f"d{server}"]
        with eu.open_striped(name, "wb", data=1, parity=0, disks=disks, home=home) as file:
            file.write(content(number, server, PART))


def store_placed(number: int, _: Any, home: str, part: int) -> None:
    with eu.open_striped(f"c{number}.{part}", "wb", data=1, parity=0, home=home) as file:
        for _ in range(SERVERS * part // MIB):
            file.write(content(number, 0, MIB))


class Clients:
    """Eight processes, which keep their sessions with the workers from one call to the next."""

    def __init__(self) -> None:
        # A forked child would have the sessions of this process, without their threads.
        spawn = multiprocessing.get_context("spawn")
        self.ready = spawn.Barrier(CLIENTS + 1, timeout=SECONDS_MAX)
        pipes = [spawn.Pipe() for _ in range(CLIENTS)]
        self.pipes = [own for own, _ in pipes]
        calls = [(number, self.ready, other) for number, (_, other) in enumerate(pipes)]
        self.processes = [spawn.Process(target=client, args=one, daemon=True) for one in calls]

    def __enter__(self) -> Clients:
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
            process.join()

    def begin(self, call: Callable[..., Any], *arguments: Any) -> None:
        for pipe in self.pipes:
            pipe.send((call, arguments))

    def ended(self) -> list[Any]:
        """What the calls return."""
        return [pipe.recv() for pipe in self.pipes]

    def rate(self, case: Case, home: str, disks: list[rig.Disk]) -> float:
        """The throughput of all clients, in disks."""
        call = transfer_placed if case.client == "placed" else transfer_subfiles
        self.begin(call, case, home)
        with perturbed(case.state, disks):
            self.ready.wait()
            self.ready.wait()
        times = self.ended()
        seconds = max(ended for _, ended in times) - min(began for began, _ in times)
        return CLIENTS * SERVERS * case.part / seconds / RATE


def client(number: int, ready: Any, pipe: Any) -> None:
    """A process: makes the calls that it receives, until it is ended."""
    while True:
        call, arguments = pipe.recv()
        try:
            pipe.send(call(number, ready, *arguments))
        except BaseException:
            ready.abort()
            raise


@contextlib.contextmanager
def perturbed(state: str, disks: list[rig.Disk]) -> Iterator[None]:
    """The disks in this state; they are equal afterwards."""
    over = threading.Event()

    def pause() -> None:
        at = 0
        while not over.is_set():
            disk = disks[at % SERVERS]
            disk.set_rate(RATE / PAUSED)
            over.wait(PAUSE_SECONDS)
            disk.set_rate(RATE)
            at += 1

    pauses = threading.Thread(target=pause)
    if state == "slow":
        disks[-1].set_rate(RATE * SLOW)
    if state == "pause":
        pauses.start()
    try:
        yield
    finally:
        over.set()
        if state == "pause":
            pauses.join()
        disks[-1].set_rate(RATE)


def measure(quick: bool) -> dict[str, Any]:
    rates: dict[str, list[float]] = {}
    with ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        disks = list(made.enter_context(rig.Disks(SERVERS, rate=RATE, size=SIZE)))
        homes, clients = {}, made.enter_context(Clients())
        for order in ORDERS:
            # Each order has its own folder on each disk, and its own workers.
            named = [
                {"name": f"d{at}", "folder": str(disk.path / order), "mode": "direct"}
                for at, disk in enumerate(disks)
            ]
            words = ["--serve-order", order]
            homes[order] = made.enter_context(served(folder / order, named, SERVERS, words))
            clients.begin(store, homes[order])
            clients.ended()
        with perturbed("slow", disks):
            for part in (PART, LARGE):
                clients.begin(store_placed, homes["late"], part)
                clients.ended()
        for _ in range(1 if quick else ROUNDS):
            for case in cases():
                reached = clients.rate(case, homes[case.order], disks)
                rates.setdefault(str(case), []).append(reached)
                print(f"    {case}: {reached:.2f} disks", flush=True)
    return {"rates": rates, "rate": RATE, "slow": SLOW, "pause seconds": PAUSE_SECONDS}


def of(results: dict[str, Any], case: Case) -> float:
    """The median rate, in disks."""
    median: float = statistics.median(results["rates"][str(case)])
    return median


def claims(results: dict[str, Any]) -> Any:
    for way in WAYS:
        for block in BLOCKS:
            late, turn = (Case(way, "equal", order, block) for order in ("late", "hash"))
            part = of(results, late) / of(results, turn)
            size = f"{block >> 10} KiB"
            yield f"{way}, equal, {size}: late {part:.3f} of hash (at least 0.98)", part >= 0.98
        late, turn = (Case(way, "pause", order) for order in ("late", "hash"))
        times = of(results, late) / of(results, turn)
        yield f"{way}, wandering pause: late {times:.2f} times hash (at least 1.4)", times >= 1.4
        best = max(of(results, Case(way, "slow", order)) for order in FIXED)
        for part in (PART, LARGE):
            times = of(results, Case(way, "slow", "placed", part=part)) / best
            size = f"{SERVERS * part // MIB} MiB each"
            claim = f"late placement, {size}, {times:.2f} times the best order (at least 3)"
            yield f"{way}, one at 1/4: {claim}", times >= 3


def draw(axes: Any, results: dict[str, Any]) -> None:
    colours = dict(zip(ORDERS, ("static", "round_robin", "credit", "late_binding")))
    for one, way, number in zip(axes, WAYS, (2, 3)):
        for order in ORDERS:
            heights = [of(results, Case(way, "equal", order, block)) for block in BLOCKS]
            one.plot(range(len(BLOCKS)), heights, "o-", color=COLOURS[colours[order]], label=order)
        sizes = [f"{block >> 10}K" if block < MIB else f"{block >> 20}M" for block in BLOCKS]
        one.set_xticks(range(len(BLOCKS)), sizes)
        one.set_xlabel("schedule block")
        one.set_ylabel("bytes per second, in disks")
        one.set_ylim(0, SERVERS + 0.5)
        one.set_title(f"{way}, equal servers (Fig. {number})", fontsize=9)
    axes[0].legend(frameon=False, loc="lower right")
    bars(axes[2], results, colours)


def bars(one: Any, results: dict[str, Any], colours: dict[str, str]) -> None:
    """The unequal servers."""
    groups = [(way, state) for state in ("slow", "pause") for way in WAYS]
    for place, (way, state) in enumerate(groups):
        wanted = [Case(way, state, order) for order in ORDERS]
        wanted += [Case(way, state, "placed", part=part) for part in (PART, LARGE)]
        shown = [case for case in wanted if str(case) in results["rates"]]
        for at, case in enumerate(shown):
            where, height = place + (at - (len(shown) - 1) / 2) * 0.14, of(results, case)
            colour = COLOURS[colours.get(case.client, "bound")]
            is_placed = place == 0 and case.client == "placed"
            size = f"{SERVERS * case.part // MIB} MiB each"
            label = f"late placement, {size}" if is_placed else None
            strength = 0.5 if case.client == "placed" and case.part == PART else 1
            one.bar(where, height, width=0.13, color=colour, label=label, alpha=strength)
            if state == "pause" or case.client in ("late", "placed"):
                one.text(where, height, f"{height:.1f}", ha="center", va="bottom", fontsize=6)
    names = {"slow": "one at 1/4", "pause": "pause"}
    one.set_xticks(
        range(len(groups)), [f"{way},\n{names[state]}" for way, state in groups], fontsize=6
    )
    one.set_ylim(0, SERVERS + 2)
    one.set_title("unequal servers, blocks of 1 MiB", fontsize=9)
    one.legend(frameon=False, fontsize=7)
