"""Partitions: whole groups of records, each to a free instance; and the sorts built on them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import euphrates as eu

ROWS = 200_000
SEED = 20
LITTLE = "96MiB"
"""A memory budget smaller than the large tables here."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[eu.Cluster]:
    with eu.Cluster.processes(2) as cluster:
        yield cluster


def table(rows: int = ROWS, keys: int = 1000, width: int = 8) -> pa.Table:
    """Numbers with keys, one of which has half of all records."""
    choose = random.Random(SEED)
    key = [0 if choose.random() < 0.5 else choose.randrange(keys) for _ in range(rows)]
    return pa.table({"k": key, "n": range(rows), "text": ["x" * width] * rows})


def partitioned(data: pa.Table, partition: Any, *rest: Any) -> eu.Flow:
    flow = eu.Flow("partitioned")
    flow.chain(eu.from_arrow(data), partition, *rest, eu.collect())
    return flow


def seen(part: Any) -> pa.Table:
    """The keys of a partition, and its number of records."""
    keys = pa.table(part).column("k").combine_chunks()
    return pa.table({"keys": [keys.unique().to_pylist()], "rows": [len(keys)]})


SEEN = pa.schema([("keys", pa.list_(pa.int64())), ("rows", pa.int64())])
SEEING = eu.map(seen, schema=SEEN)


def partitions(flow: eu.Flow, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = flow.go(**options).collected().to_pylist()
    return rows


@pytest.mark.parametrize("options", [{}, {"memory": LITTLE}, {"cores": 1}, {"queues": "static"}])
def test_equal_keys_are_in_one_partition(options: dict[str, Any]) -> None:
    data = table(2_000_000, width=20) if "memory" in options else table(1_000_000, width=40)
    rows = partitions(partitioned(data, eu.partition(["k"], together=True), SEEING), **options)
    keys = [key for row in rows for key in row["keys"]]
    assert len(rows) > 1, "one partition would prove nothing"
    assert keys == sorted(set(keys)), "each key once, in order"
    assert sum(row["rows"] for row in rows) == len(data)


BETWEEN: dict[str, list[Any]] = {
    "filter": [eu.filter("n >= 0")],
    "project": [eu.project(["n", "k"])],
    "sort": [eu.sort(["n desc"])],
    "map": [eu.map(lambda part: pa.table(part))],
    "all": [eu.sort(["n"]), eu.filter("n % 2 = 0"), eu.project(["k"])],
}


@pytest.mark.parametrize("between", BETWEEN)
def test_groups_stay_whole_behind_order_preserving_modules(between: str) -> None:
    data = table(1_000_000, width=10)
    flow = partitioned(data, eu.partition(["k"], together=True), *BETWEEN[between], SEEING)
    assert "keeps groups whole" in str(flow.explain())
    rows = partitions(flow)
    keys = [key for row in rows for key in row["keys"]]
    assert len(rows) > 1, "one partition would prove nothing"
    assert sorted(keys) == sorted(set(keys)), "each key once"
    assert sum(row["rows"] for row in rows) == len(data) // (2 if between == "all" else 1)


def test_emptied_partitions_are_skipped() -> None:
    few = eu.filter("k = 7 or k = 999")
    flow = partitioned(table(1_000_000, width=10), eu.partition(["k"], together=True), few, SEEING)
    assert [row["keys"] for row in partitions(flow)] == [[7], [999]]


def test_groups_stay_whole_across_processes(cluster: eu.Cluster) -> None:
    data = table(1_000_000, width=10)
    between = [eu.sort(["n desc"]), eu.filter("n >= 0")]
    flow = partitioned(data, eu.partition(["k"], together=True), *between, SEEING)
    rows = partitions(flow, cluster=cluster)
    keys = [key for row in rows for key in row["keys"]]
    assert len(rows) > 1
    assert sorted(keys) == sorted(set(keys))


def test_equal_keys_are_in_one_partition_across_processes(cluster: eu.Cluster) -> None:
    data = table(1_000_000, width=40)
    flow = partitioned(data, eu.partition(["k"], together=True), SEEING)
    rows = partitions(flow, cluster=cluster)
    keys = [key for row in rows for key in row["keys"]]
    assert len(rows) > 1
    assert keys == sorted(set(keys))
    assert sum(row["rows"] for row in rows) == len(data)


def test_first_and_last_partitions_are_small() -> None:
    flow = partitioned(table(2_000_000, width=40), eu.partition(["k"]), SEEING)
    sizes = [row["rows"] for row in partitions(flow, cores=2)]
    left = [sum(sizes[at:]) for at in range(len(sizes))]
    assert len(sizes) > 16
    # Each of two instances takes an eighth of the rest, up to sampling error.
    assert all(size < rows / 16 * 1.5 + 60_000 for size, rows in zip(sizes, left, strict=True))
    # And none takes more than it had before.
    taken = [sum(sizes[:at]) for at in range(len(sizes))]
    assert all(size < rows / 2 * 1.5 + 60_000 for size, rows in zip(sizes, taken, strict=True))
    assert max(sizes) > 2 * max(sizes[0], sizes[-2])


def test_partitions_of_wide_records_are_small_too() -> None:
    """Wide records are few: samples are taken by bytes."""
    width, rows = 100_000, 800
    flow = partitioned(table(rows, width=width), eu.partition(["n"]), SEEING)
    sizes = [row["rows"] for row in partitions(flow, cores=2)]
    assert sum(sizes) == rows
    assert max(sizes) * width < 24 << 20, sizes


def test_partitions_come_sorted() -> None:
    flow = partitioned(table(), eu.partition(["k", "n desc"]))
    rows = flow.go().collected().to_pylist()
    assert [(row["k"], -row["n"]) for row in rows] == sorted((row["k"], -row["n"]) for row in rows)
    assert len(rows) == ROWS


def test_explicit_sort_is_equivalent_to_sort() -> None:
    flow = eu.Flow("sorted")
    flow.chain(eu.generate("integers", rows=ROWS), eu.sort(["n desc"]), eu.collect())
    spelled = flow.spelled_out()
    document = json.loads(spelled.to_json())
    assert [node["id"] for node in document["modules"]] == [
        "generate_1",
        "sort_1_partition",
        "sort_1",
        "collect_1",
    ]
    assert "sort_1_partition → sort_1: keyed, whole partitions" in str(flow.explain())
    assert spelled.spelled_out().to_json() == spelled.to_json()
    assert spelled.go().collected().to_pylist() == flow.go().collected().to_pylist()
    assert "partition" in spelled.draw() and "eu.partition(" in spelled.code()


def test_sort_module_sorts_given_partitions() -> None:
    flow = partitioned(table(), eu.partition(["k"], together=True), eu.sort(["n desc"]))
    assert "sort_1_partition" not in str(flow.explain())
    rows = flow.go().collected().to_pylist()
    assert sorted(row["n"] for row in rows) == list(range(ROWS))
    runs = [0] + [at for at in range(1, ROWS) if rows[at - 1]["n"] < rows[at]["n"]] + [ROWS]
    keys = [{row["k"] for row in rows[a:b]} for a, b in zip(runs, runs[1:], strict=False)]
    assert sum(map(len, keys)) == len(set.union(*keys)), "no key is in two partitions"


def test_partitions_go_to_workers_without_intake(cluster: eu.Cluster) -> None:
    flow = eu.Flow("apart")
    source = flow.place(eu.generate("integers", rows=1_000_000))
    kept = flow.place(eu.partition(["n desc"]), workers=["w0"])
    counted = flow.place(eu.map(lambda part: part), workers=["w1"])
    flow.attach(source, kept)
    flow.attach(kept, counted)
    flow.attach(counted, flow.place(eu.collect()))
    got = pa.table(flow.go(cluster=cluster).collected())
    assert got.column("n").to_pylist() == list(range(999_999, -1, -1))


@pytest.mark.parametrize(
    "module", [eu.sort(["key"]), eu.aggregate(["key"], values={"n": "count()"})]
)
def test_worker_scratch_is_removed_with_the_flow(cluster: eu.Cluster, module: Any) -> None:
    """A worker may be killed as soon as the end is reported."""
    flow = eu.Flow("spilling")
    flow.chain(eu.generate("records", rows=1_500_000), module, eu.count(), eu.collect())
    report = flow.go(cluster=cluster, memory=LITTLE)
    left = list(Path(os.environ["EUPHRATES_HOME"], "scratch").iterdir())
    assert sum(one["spilled_bytes"] for one in json.loads(report.to_json())["modules"]) > 0
    assert left == []


def test_unequal_memory_does_not_change_partition_cuts(cluster: eu.Cluster) -> None:
    """Two instances share the memory of one process; one has a whole process's."""
    flow = eu.Flow("uneven")
    records = flow.place(eu.generate("records", rows=1_500_000), count=3)
    kept = flow.place(eu.partition(["key"]), count=3, id="kept")
    keys = eu.project(["key"])
    flow.chain(records, kept, flow.place(keys, count=3), eu.collect())
    report = flow.go(cluster=cluster, memory=LITTLE)
    told = {one["id"]: one["spilled_bytes"] for one in json.loads(report.to_json())["modules"]}
    assert told["kept"] > 100_000_000, "what fits would prove nothing"
    found = pa.table(report.collected()).column("key").combine_chunks().cast(pa.binary())
    assert len(pc.unique(found)) == len(found) == 1_500_000
    assert pc.all(pc.less_equal(found[:-1], found[1:])).as_py()


def test_module_class_gets_whole_partitions() -> None:
    class Largest(eu.Module):
        """The largest number of every key."""

        order = "keeps"

        def run(self, ports: Any) -> None:
            while (part := ports.get_partition()) is not None:
                groups = pa.table(part).group_by("k").aggregate([("n", "max")])
                ports.put(groups.select(["k", "n_max"]))

        def schemas(self, inputs: Any) -> Any:
            return [{"k": "int64", "n_max": "int64"}]

    data = table()
    flow = partitioned(data, eu.partition(["k"], together=True), Largest())
    got = pa.table(flow.go().collected()).sort_by("k")
    expected = data.group_by("k").aggregate([("n", "max")]).select(["k", "n_max"]).sort_by("k")
    assert got.equals(expected)


def test_module_may_stop_reading_partitions_early() -> None:
    rows = partitions(partitioned(table(), eu.partition(["n desc"]), eu.limit(3)))
    assert [row["n"] for row in rows] == [ROWS - 1, ROWS - 2, ROWS - 3]


def test_empty_input_gives_no_partition() -> None:
    assert partitions(partitioned(table(0), eu.partition(["k"]), SEEING)) == []


def test_partition_without_keys_is_rejected() -> None:
    with pytest.raises(eu.UsageError, match="`by` is empty"):
        partitioned(table(), eu.partition([])).check()
    with pytest.raises(eu.UsageError, match="did you mean `k`"):
        partitioned(table(), eu.partition(["kk"])).check()


def test_keyed_queue_accepts_only_partitions() -> None:
    flow = eu.Flow("wrong")
    source, sink = flow.place(eu.generate("integers", rows=10)), flow.place(eu.collect())
    flow.attach(source, sink, queue="keyed")
    with pytest.raises(eu.UsageError, match=r"keeps no partitions(.|\n)*place a `partition`"):
        flow.check()
    flow = eu.Flow("wrong")
    source, sink = flow.place(eu.partition(["n"])), flow.place(eu.collect())
    flow.attach(flow.place(eu.generate("integers", rows=10)), source)
    flow.attach(source, sink, queue="distributed")
    with pytest.raises(eu.UsageError, match=r"next free consumer(.|\n)*leave out queue"):
        flow.check()


def test_module_without_partitions_is_rejected() -> None:
    class Asks(eu.Module):
        def run(self, ports: Any) -> None:
            ports.get_partition()

    flow = partitioned(table(10), Asks())
    with pytest.raises(eu.FlowError, match="place a `partition` before"):
        flow.go()


def test_sort_command_prints_its_flow(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("n\n3\n1\n2\n")
    command = [str(Path(sys.executable).with_name("euphrates")), "sort", "in.csv", "-o", "out.csv"]
    printed = subprocess.run(
        [*command, "--by", "n", "--print"], cwd=tmp_path, capture_output=True, check=True, text=True
    )
    assert not (tmp_path / "out.csv").exists()
    (tmp_path / "sort.json").write_text(printed.stdout)
    assert '"partition"' in printed.stdout
    run = [command[0], "run", "sort.json"]
    subprocess.run(run, cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / "out.csv").read_text() == "n\n1\n2\n3\n"
