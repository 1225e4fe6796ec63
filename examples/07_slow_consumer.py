"""One of four consumers is five times slower. Dividing the work in advance, all wait for it; a
distributed queue gives it what it can take.

    python examples/07_slow_consumer.py
"""

import time

import euphrates as eu


class Work(eu.Module):
    """Takes 20 ms for a batch; its first instance 100 ms."""

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            time.sleep(0.1 if ports.instance == 0 else 0.02)
            ports.put(batch)


def seconds(**options: str) -> float:
    flow = eu.Flow("slow consumer")
    batches = eu.generate("integers", rows=200 * 65_536)
    flow.chain(flow.place(batches, count=4), flow.place(Work(), count=4), eu.count(), eu.collect())
    return flow.go(workers=4, **options).seconds


static = seconds(queues="static")
ours = seconds()
print(f"divided in advance {static:.1f} s, by a distributed queue {ours:.1f} s")
print(f"all four at their own speed, added up: {200 / (3 / 0.02 + 1 / 0.1):.1f} s")
