"""Two consumers take batches at their own pace; three others resume in the middle of the epoch."""

import multiprocessing
import time

import euphrates as eu

ROWS, SIZE = 20_000, 100


def consume(consumer: eu.Consumer, seconds: float, batches: int | None, results) -> None:
    """Processes this number of batches, or all that are left, each in this time."""
    seen = []
    for batch in consumer:
        seen += batch["n"].to_pylist()
        time.sleep(seconds)
        if batches is not None and len(seen) >= batches * SIZE:
            consumer.acknowledge()  # Otherwise another consumer gets the last batch, too.
            break
    results.put((consumer.number, seen, consumer.state_dict()))


def run(consumers: eu.Split, seconds: list[float], batches: int | None) -> list:
    """What the consumers have seen, each in a process of its own, and their states."""
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    for consumer in consumers:
        arguments = (consumer, seconds[consumer.number], batches, results)
        fork.Process(target=consume, args=arguments).start()
    return [results.get() for _ in consumers]


if __name__ == "__main__":
    rows = eu.query(eu.generate("integers", rows=ROWS)).shuffle(seed=1, by="n")
    with rows.split(2, batch_size=SIZE, resumable=True) as consumers:
        first = run(consumers, [0.001, 0.01], batches=20)
    states = [state for _, _, state in first]
    with rows.split(3, batch_size=SIZE, state=states) as consumers:
        rest = run(consumers, [0.001, 0.001, 0.01], batches=None)
    for number, seen, _ in rest:
        print(f"consumer {number} got {len(seen) // SIZE} batches")
    assert sorted(n for _, seen, _ in first + rest for n in seen) == list(range(ROWS))
