"""Several workers in one process: the queues between them, and what they do about a slow one."""

from __future__ import annotations

import threading
from collections import Counter

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


class Stuck(eu.Module):
    """Its first instance stands still until the others have had all the rest."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.rest_is_done = threading.Event()
        self.lock = threading.Lock()
        self.held = 0

    def count(self, instance: int, rows: int) -> None:
        with self.lock:
            self.seen[instance] += rows
            others = sum(self.seen.values()) - self.seen[0]
            if self.held and others + self.held == ROWS:
                self.rest_is_done.set()

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            if ports.instance == 0:
                with self.lock:
                    self.held = batch.num_rows
                self.count(0, batch.num_rows)
                while not self.rest_is_done.wait(0.01):
                    ports.check()
            else:
                self.count(ports.instance, batch.num_rows)
            ports.put(batch)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_consumer_that_stands_still_stalls_nobody(workers: int) -> None:
    stuck = Stuck()
    flow = eu.Flow("stuck")
    numbers = flow.place(eu.generate("integers", rows=ROWS), count=4)
    flow.chain(numbers, flow.place(stuck, count=4), eu.count(), eu.collect())
    report = flow.go(workers=workers)
    assert report.collected().to_pylist() == [{"count": ROWS}]
    assert stuck.seen[0] == stuck.held, "it has begun one batch, and kept none from the others"


def test_runs_stay_in_order_between_workers() -> None:
    flow = eu.Flow("ordered")
    numbers = flow.place(eu.generate("integers", rows=ROWS), count=4)
    flow.chain(
        numbers, flow.place(eu.sort([{"column": "n", "descending": True}]), count=4), eu.collect()
    )
    table = flow.go(workers=4).collected().to_pydict()
    assert table["n"] == list(range(ROWS - 1, -1, -1))


def test_what_makes_no_sense_is_refused() -> None:
    flow = eu.Flow("none")
    flow.chain(eu.generate("integers", rows=1), eu.collect())
    with pytest.raises(eu.UsageError, match="workers is 0"):
        flow.go(workers=0)
    with pytest.raises(eu.UsageError, match="did you mean `static`"):
        flow.go(queues="statik")
