"""The same flows in this program, on local processes, and on workers that join over TCP, with
identical output that matches other engines.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cluster_cases
import cluster_harness as clusters
import euphrates as eu
import functions
from cluster_cases import CASES, Case

Rows = list[dict[str, tuple[int, int]]]
"""Rows in and out by flow and module."""


@pytest.fixture(scope="module", params=clusters.KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[eu.Cluster]:
    """One cluster of each kind for all tests."""
    with clusters.started(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


@pytest.fixture(scope="module")
def data(tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("input")
    cluster_cases.make_input(folder)
    return folder


@pytest.fixture(scope="module")
def embedded(data: Path, tmp_path_factory: Any) -> Callable[[Case], Rows]:
    """Row counts of a flow in this program."""

    @functools.cache
    def run(case: Case) -> Rows:
        return ran(case, data, tmp_path_factory.mktemp("embedded"), cluster="embedded")

    return run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_output_is_the_same_on_every_cluster(
    case: Case,
    cluster: eu.Cluster,
    embedded: Callable[[Case], Rows],
    data: Path,
    tmp_path: Path,
) -> None:
    rows = ran(case, data, tmp_path, cluster=cluster)
    assert rows == embedded(case) or not case.same_rows
    assert not clusters.staged(tmp_path)


def ran(case: Case, data: Path, own: Path, **options: Any) -> Rows:
    """Runs a case and checks its output."""
    options = {"home": own / "home", **case.options, **options}
    reports = [flow.go(**options) for flow in case.flows(data, own)]
    same(case.got(reports[-1], own), case.expected(data), case.ordered)
    return [{at.id: (at.rows_in, at.rows_out) for at in report.modules} for report in reports]


def same(got: pa.Table, expected: pa.Table, ordered: bool) -> None:
    assert got.column_names == expected.column_names
    got = got.cast(expected.schema).combine_chunks()
    if not ordered:
        flat = [field.name for field in expected.schema if not pa.types.is_nested(field.type)]
        by = [(name, "ascending") for name in flat]
        got, expected = got.sort_by(by), expected.sort_by(by)
    assert got.num_rows == expected.num_rows
    assert got.equals(expected)


def where(cluster: eu.Cluster, **placing: Any) -> Counter[int]:
    """The number of instances that each process has of a module placed this way."""
    flow = eu.Flow("where")
    flow.chain(flow.place(functions.WorkerIdentity(), **placing), eu.collect())
    return Counter(flow.go(cluster=cluster).collected().to_pydict()["pid"])


def test_instances_run_on_their_workers(cluster: eu.Cluster) -> None:
    workers = cluster.workers
    everywhere = where(cluster, per_worker=2)
    assert set(everywhere.values()) == {2} and len(everywhere) == len(workers)
    assert os.getpid() not in everywhere
    [*at] = (where(cluster, workers=worker.name, count=1) for worker in workers)
    assert sum(at, Counter()) == Counter(set(everywhere))
    assert where(cluster, workers=["w1", "w0"], per_worker=1) == at[0] + at[1]
    for label in {label for worker in workers for label in worker.labels}:
        labelled = [one for one, worker in zip(at, workers) if label in worker.labels]
        assert where(cluster, workers=[label], per_worker=1) == sum(labelled, Counter())
    with pytest.raises(eu.UsageError, match="no worker or label named `w9`") as refused:
        where(cluster, workers=["w9"])
    assert "w0" in str(refused.value)


def test_slowed_worker_changes_no_output(cluster: eu.Cluster) -> None:
    rows = 3_000_000
    flow = eu.Flow("slowed")
    asked = flow.place(eu.map(functions.pid), per_worker=1)
    flow.chain(eu.generate("integers", rows=rows), asked, eu.collect())
    report = flow.go(cluster=cluster, perturb=eu.perturb(worker="w1", share=0.9))
    assert sorted(report.collected().to_pydict()["n"]) == list(range(rows))
    assert "perturbed: " in str(report)


def test_held_link_changes_no_output_and_peers_take_the_work(cluster: eu.Cluster) -> None:
    rows = 3_000_000
    flow = eu.Flow("held")
    numbers = flow.place(eu.generate("integers", rows=rows), count=1, workers=["w0"])
    flow.attach(numbers, flow.place(eu.filter("n >= 0"), per_worker=1))
    flow.attach("filter_1", flow.place(eu.count(), count=1, workers=["w0"]))
    flow.attach("count_1", flow.place(eu.collect()))
    report = flow.go(cluster=cluster, perturb=eu.perturb(link="w0>w1", rate="2MB/s"))
    assert sum(report.collected().to_pydict()["count"]) == rows
    assert "perturbed: link w0>w1: held to 2MB/s" in str(report)
    for wrong in ("w0", "w0>w0", "w0>w9"):
        with pytest.raises(eu.UsageError, match=r"no link|no worker"):
            flow.go(cluster=cluster, perturb=eu.perturb(link=wrong, rate="2MB/s"))
    with pytest.raises(eu.UsageError, match="in one process, which has no links"):
        flow.go(perturb=eu.perturb(link="w0>w1", rate="2MB/s"))


def test_perturbing_an_unknown_worker_is_rejected(cluster: eu.Cluster) -> None:
    flow = eu.Flow("slowed")
    flow.chain(eu.generate("integers", rows=10), eu.collect())
    with pytest.raises(eu.UsageError, match="w9"):
        flow.go(cluster=cluster, perturb=eu.perturb(worker="w9", share=0.9))


def test_program_side_data_stays_in_the_program(cluster: eu.Cluster, tmp_path: Path) -> None:
    numbers = tmp_path / "in.csv"
    numbers.write_text("n\n" + "".join(f"{n}\n" for n in range(50_000)))
    out = tmp_path / "out"
    os.mkfifo(out)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(out.read_text()))
    reader.start()
    flow = eu.Flow("copies")
    even = eu.filter("n % 2 = 0")
    flow.chain(eu.copy_in("csv", path=numbers), even, eu.copy_out("csv", path=out))
    flow.go(cluster=cluster)
    reader.join(30)
    assert heard == ["n\n" + "".join(f"{n}\n" for n in range(0, 50_000, 2))]


def test_cluster_lists_its_workers() -> None:
    with pytest.raises(eu.UsageError, match="workers is 0"):
        eu.Cluster.processes(0)


def test_direct_construction_names_the_constructors() -> None:
    with pytest.raises(eu.UsageError, match=r"Cluster\.processes\(2\)"):
        eu.Cluster(2)  # type: ignore[arg-type]


def test_source_function_runs_in_the_program(cluster: eu.Cluster) -> None:
    called_in = []

    def table() -> pa.Table:
        called_in.append(os.getpid())
        return pa.table({"n": [3, 1, 2]})

    flow = eu.Flow("from a function")
    flow.chain(eu.from_arrow(table), eu.sort(["n"]), eu.collect())
    assert flow.go(cluster=cluster).collected().to_pydict() == {"n": [1, 2, 3]}
    assert called_in == [os.getpid()]
