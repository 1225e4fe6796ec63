"""Several workers in one process: the queues between them, with slow and dead instances."""

from __future__ import annotations

import threading
from collections import Counter
from typing import ClassVar

import pytest

import euphrates as eu

ROWS = 2_000_000
WAYS = [None, "late_binding", "static", "round_robin", "shortest", "credit", "sparrow"]


@pytest.mark.parametrize("queues", WAYS)
@pytest.mark.parametrize(("producers", "consumers"), [(4, 4), (1, 4), (4, 1)])
def test_every_record_arrives_once(queues: str | None, producers: int, consumers: int) -> None:
    flow = eu.Flow("spread")
    numbers = flow.place(eu.generate("integers", rows=ROWS), count=producers)
    kept = flow.place(eu.filter("n % 1000 = 0"), count=consumers)
    flow.chain(numbers, kept, eu.collect())
    table = flow.go(workers=4, queues=queues).collected().to_pydict()
    assert sorted(table["n"]) == list(range(0, ROWS, 1000))


class NeverGets(eu.Module):
    """Its first instance reads no input, and does not end before the rest is done."""

    seen: ClassVar[Counter[int]] = Counter()
    rest_is_done = threading.Event()
    lock = threading.Lock()

    def run(self, ports: eu.Ports) -> None:
        while ports.instance == 0 and not NeverGets.rest_is_done.wait(0.01):
            ports.check()
        if ports.instance == 0:
            return
        for batch in ports:
            with NeverGets.lock:
                NeverGets.seen[ports.instance] += batch.num_rows
                if sum(NeverGets.seen.values()) == ROWS:
                    NeverGets.rest_is_done.set()
            ports.put(batch)


@pytest.mark.parametrize("workers", [1, 4])
def test_records_bypass_a_consumer_that_never_reads(workers: int) -> None:
    NeverGets.seen.clear()
    NeverGets.rest_is_done.clear()
    flow = eu.Flow("never")
    numbers = flow.place(eu.generate("integers", rows=ROWS), count=4)
    flow.chain(numbers, flow.place(NeverGets(), count=4), eu.count(), eu.collect())
    assert flow.go(workers=workers).collected().to_pylist() == [{"count": ROWS}]


class Dies(eu.Module):
    """Its second instance fails with a batch taken; the first leaves some for it."""

    has_died = threading.Event()

    def run(self, ports: eu.Ports) -> None:
        for number, batch in enumerate(ports):
            if ports.instance == 1 and number == 1:
                Dies.has_died.set()
                raise RuntimeError("out of luck")
            ports.put(batch)
            while ports.instance == 0 and not Dies.has_died.wait(0.01):
                ports.check()


@pytest.mark.parametrize("queues", WAYS)
def test_dead_producer_fails_the_flow_without_a_hang(queues: str | None) -> None:
    Dies.has_died.clear()
    flow = eu.Flow("dies")
    numbers = flow.place(eu.generate("integers", rows=ROWS), count=2)
    passed = flow.place(Dies(), count=2, id="dies")
    flow.chain(numbers, passed, flow.place(eu.filter("n >= 0"), count=3), eu.collect())
    with pytest.raises(eu.FlowError, match="out of luck") as failed:
        flow.go(workers=2, queues=queues)
    assert "dies.1" in str(failed.value)


def test_order_losing_queue_is_rejected_before_the_run() -> None:
    flow = eu.Flow("pairs")
    numbers = flow.place(eu.generate("integers", rows=ROWS, order=True), count=2)
    kept = flow.place(eu.filter("n % 2 = 0"), count=2)
    flow.attach(numbers, kept, queue="pairwise")
    flow.attach(kept, flow.place(eu.collect()))
    with pytest.raises(eu.UsageError, match="loses the order") as refused:
        flow.go()
    assert "leave out queue" in str(refused.value)


class Stuck(eu.Module):
    """Its first instance blocks until the others have processed the rest."""

    # A class attribute, because every instance works on a copy of the object.
    seen: ClassVar[Counter[int]] = Counter()
    rest_is_done = threading.Event()
    lock = threading.Lock()

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            with Stuck.lock:
                Stuck.seen[ports.instance] += batch.num_rows
                if sum(Stuck.seen.values()) == ROWS:
                    Stuck.rest_is_done.set()
            while ports.instance == 0 and not Stuck.rest_is_done.wait(0.01):
                ports.check()
            ports.put(batch)


@pytest.mark.parametrize("workers", [1, 4])
def test_stopped_consumer_stalls_no_peer(workers: int) -> None:
    Stuck.seen.clear()
    Stuck.rest_is_done.clear()
    flow = eu.Flow("stuck")
    numbers = flow.place(eu.generate("integers", rows=ROWS), count=4)
    flow.chain(numbers, flow.place(Stuck(), count=4), eu.count(), eu.collect())
    report = flow.go(workers=workers)
    assert report.collected().to_pylist() == [{"count": ROWS}]


def test_runs_stay_in_order_between_workers() -> None:
    flow = eu.Flow("ordered")
    numbers = flow.place(eu.generate("integers", rows=ROWS), count=4)
    flow.chain(
        numbers, flow.place(eu.sort([{"column": "n", "descending": True}]), count=4), eu.collect()
    )
    table = flow.go(workers=4).collected().to_pydict()
    assert table["n"] == list(range(ROWS - 1, -1, -1))


def test_invalid_queue_options_are_rejected() -> None:
    flow = eu.Flow("none")
    flow.chain(eu.generate("integers", rows=1), eu.collect())
    with pytest.raises(eu.UsageError, match="workers is 0"):
        flow.go(workers=0)
    with pytest.raises(eu.UsageError, match="did you mean `static`"):
        flow.go(queues="statik")
