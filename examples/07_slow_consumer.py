"""One of four consumers is five times slower. With a static division all wait for it; a distributed
queue gives it only what it can process.
"""

import time

import euphrates as eu


class Work(eu.Module):
    """Sleeps 20 ms per batch; its first instance sleeps 100 ms."""

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            time.sleep(0.1 if ports.instance == 0 else 0.02)
            ports.put(batch)


flow = eu.Flow("slow consumer")
batches = flow.place(eu.generate("integers", rows=200 * 65_536), count=4)
flow.chain(batches, flow.place(Work(), count=4), eu.count(), eu.collect())

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    static = flow.go(workers=4, queues="static").seconds
    ours = flow.go(workers=4).seconds
    print(f"divided in advance: {static:.1f} s; by a distributed queue: {ours:.1f} s")
    print(f"the speeds of all four, added up: {200 / (3 / 0.02 + 1 / 0.1):.1f} s")
