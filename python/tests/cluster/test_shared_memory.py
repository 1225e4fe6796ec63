"""Batches between local workers in shared memory: the same results as without it, and nothing that
stays behind.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from cluster_harness import processes, workers_of

ROWS = 400_000
FILE = "memfd:euphrates-batches"
QUERIES = {
    "sort": "select * from t order by key",
    "join": "select t.key, other.text from t join t as other on t.key = other.n order by t.key",
    "group by": "select part, count(*) as rows, max(text) as last from t group by part order by 1",
    "window": "select key, row_number() over (partition by part order by key) from t order by 1",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    n = range(ROWS)
    table = pa.table({
        "n": pa.array(n),
        "key": pa.array([number * 7919 % ROWS for number in n]),
        "part": pa.array([number * 31 % 20_011 for number in n]),
        "text": pa.array([f"row {number} " * 5 for number in n]),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("shared") / "table.parquet"
    pq.write_table(table, path, row_group_size=ROWS // 8)
    return str(path)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[eu.Cluster, list[int]]]:
    """A cluster, and the process ids of its workers."""
    before = set(workers_of(os.getpid()).values())
    with processes(3) as cluster:
        yield cluster, sorted(set(workers_of(os.getpid()).values()) - before)


@pytest.fixture(scope="module")
def unshared() -> Iterator[eu.Cluster]:
    os.environ["EUPHRATES_SHARED_MEMORY"] = "off"
    try:
        with processes(3) as cluster:
            yield cluster
    finally:
        del os.environ["EUPHRATES_SHARED_MEMORY"]


def run(query: str, path: str, cluster: eu.Cluster) -> pa.Table:
    return eu.sql(query, t=path).to_pyarrow(cluster=cluster)


def mapped(process: int) -> bool:
    return FILE in Path(f"/proc/{process}/maps").read_text()


def open_files(workers: list[int]) -> int:
    return sum(len(os.listdir(f"/proc/{worker}/fd")) for worker in workers)


@pytest.mark.parametrize("name", list(QUERIES))
def test_results_are_the_same_with_and_without_it(
    name: str, path: str, shared: tuple[eu.Cluster, list[int]], unshared: eu.Cluster
) -> None:
    cluster, _ = shared
    found = run(QUERIES[name], path, cluster)
    assert found.num_rows > 20_000
    assert found.equals(run(QUERIES[name], path, unshared))


def test_workers_map_slabs_while_a_flow_runs_and_keep_nothing(
    path: str, shared: tuple[eu.Cluster, list[int]]
) -> None:
    cluster, workers = shared
    assert len(workers) == 3
    run(QUERIES["sort"], path, cluster)
    before = open_files(workers)
    ended, seen = threading.Event(), False

    def flows() -> None:
        for _ in range(10):
            run(QUERIES["sort"], path, cluster)
        ended.set()

    thread = threading.Thread(target=flows)
    thread.start()
    while not ended.is_set():
        seen = seen or any(mapped(worker) for worker in workers)
        ended.wait(0.001)
    thread.join()
    assert seen
    # The lanes of the last flow end behind it.
    assert becomes(lambda: not any(mapped(worker) for worker in workers))
    assert becomes(lambda: open_files(workers) <= before)


def test_programs_of_a_worker_inherit_no_slab(
    path: str, shared: tuple[eu.Cluster, list[int]]
) -> None:
    cluster, _ = shared

    def files(batch: eu.Batch) -> pa.RecordBatch:
        folder = Path("/proc/self/fd")
        links = [str(file.readlink()) for file in folder.iterdir() if file.is_symlink()]
        own = Path("/proc/self/maps").read_text()
        return pa.record_batch({"slabs": [sum(FILE in one for one in [*links, own])]})

    flow = eu.Flow("files")
    flow.chain(eu.scan(path), eu.sort("key"), flow.place(eu.map(files), per_worker=1), eu.collect())
    found = flow.go(cluster=cluster, progress=False).collected().to_pydict()
    assert len(found["slabs"]) > 3 and not any(found["slabs"])


def becomes(is_so: Callable[[], bool]) -> bool:
    for _ in range(6000):
        if is_so():
            return True
        threading.Event().wait(0.01)
    return False
