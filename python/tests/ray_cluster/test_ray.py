"""Flows on Ray: real clusters of several nodes on this machine, if Ray is installed.

The tests share one cluster, whose driver is the test process. `test_ray_programs.py` damages
clusters.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu
import functions
import rig
from cluster_harness import wait_for
from euphrates import ray as on_ray
from ray_labels import RAY_LABELS
from rig import ray as rays

pytestmark = pytest.mark.skipif(rays.missing() is not None, reason=rays.missing() or "")


@pytest.fixture(scope="module")
def ray(ray_nodes: rig.RayCluster) -> Iterator[Any]:
    """Ray, initialised."""
    ray = importlib.import_module("ray")
    ray.init(**ray_nodes.driver(), logging_level="error", log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def cluster(ray: Any) -> Iterator[eu.Cluster]:
    with eu.Cluster.ray() as cluster:
        yield cluster


# Equal output


def filtered(run: Callable[..., eu.Report], folder: Path) -> eu.Report:
    numbers = eu.scan(folder / "in.parquet")
    return run(numbers, eu.filter("n % 3 = 0"), eu.count(), eu.collect())


def sorted_file(run: Callable[..., eu.Report], folder: Path) -> eu.Report:
    run(eu.scan(folder / "in.parquet"), eu.sort(["n desc"]), eu.save(folder / "out.parquet"))
    return run(eu.scan(folder / "out.parquet", order=True), eu.collect())


def closure(run: Callable[..., eu.Report], folder: Path) -> eu.Report:
    seven = 7

    def added(batch: eu.Batch) -> Any:
        table = batch.to_polars()
        return table.with_columns(n=table["n"] + seven)

    return run(eu.scan(folder / "in.parquet"), added, eu.sort(["n"]), eu.collect())


def collection(run: Callable[..., eu.Report], folder: Path) -> eu.Report:
    run(eu.scan(folder / "in.parquet"), eu.filter("n < 1000"), eu.write("kept"))
    return run(eu.read("kept"), eu.sort(["n"]), eu.collect())


def limited(run: Callable[..., eu.Report], folder: Path) -> eu.Report:
    return run(eu.scan(folder / "in.parquet", order=True), eu.limit(10), eu.collect())


@pytest.mark.parametrize("flow", [filtered, sorted_file, closure, collection, limited])
def test_flow_output_is_the_same_on_ray(
    flow: Callable[..., eu.Report], cluster: eu.Cluster, tmp_path: Path
) -> None:
    found = []
    with eu.Cluster.processes(2) as processes:
        for where in (None, processes, cluster):
            folder = tmp_path / str(len(found))
            folder.mkdir()

            def run(*modules: Any, where: Any = where, folder: Path = folder) -> eu.Report:
                flow = eu.Flow("same")
                flow.chain(*modules)
                return flow.go(cluster=where, home=folder / "home")

            numbers = eu.generate("integers", rows=100_000, order=True)
            run(numbers, eu.save(folder / "in.parquet"), where=None)
            found.append(flow(run, folder).collected().to_pydict())
    assert found[0] == found[1] == found[2]
    assert next(iter(found[0].values()))


# Properties of workers


def test_workers_report_ray_node_properties(ray: Any, cluster: eu.Cluster) -> None:
    alive = {node["NodeID"]: node for node in ray.nodes()}
    assert len(cluster.workers) == len(alive) == 2
    for worker in cluster.workers:
        labels = dict(label.split("=") for label in worker.labels)
        node = alive[labels.pop("ray.io/node-id")]
        assert labels in RAY_LABELS
        assert worker.name == f"{node['NodeManagerHostname']}-{node['NodeID'][:6]}"
        assert worker.cores == 1
        assert worker.memory_bytes == sum(
            node["Resources"][kind] for kind in ("memory", "object_store_memory")
        )


@pytest.mark.parametrize("zone", ["a", "b"])
def test_modules_are_placed_by_ray_labels(ray: Any, cluster: eu.Cluster, zone: str) -> None:
    def worker(batch: eu.Batch) -> Any:
        import polars

        # User code runs in a child of the worker.
        at = os.getppid()
        return polars.DataFrame({"worker": [at] * len(batch)}, {"worker": polars.Int64})

    flow = eu.Flow("placed")
    numbers = flow.place(eu.generate("integers", rows=10))
    placed = flow.attach(numbers, flow.place(worker, workers=f"zone={zone}"))
    flow.chain(placed, eu.collect())
    [found] = set(flow.go(cluster=cluster).collected().to_pydict()["worker"])
    [node] = [node["NodeID"] for node in ray.nodes() if node["Labels"]["zone"] == zone]
    assert found in [process_of(ray, name) for name in actors(ray) if name.endswith(node[:6])]


def test_function_using_ray_joins_its_workers_cluster(ray: Any, cluster: eu.Cluster) -> None:
    def address(batch: eu.Batch) -> Any:
        import polars
        import ray

        at = ray.get_runtime_context().gcs_address
        return polars.DataFrame({"at": [at] * len(batch)}, {"at": polars.String})

    flow = eu.Flow("uses ray")
    asking = flow.place(eu.map(address, schema={"at": "string"}), count=1)
    flow.chain(eu.generate("integers", rows=10), asking, eu.collect())
    found = set(flow.go(cluster=cluster).collected().to_pydict()["at"])
    assert found == {ray.get_runtime_context().gcs_address}


def node_of(name: str, **more: Any) -> dict[str, Any]:
    """A node as Ray describes it."""
    told = {"NodeID": name * 8, "Alive": True, "NodeName": "10.0.0.7", "Labels": {}}
    own = {"NodeManagerHostname": name, "NodeManagerAddress": "10.0.0.7"}
    return {**told, **own, "Resources": {"CPU": 4.0, "memory": 6e9}, **more}


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, ["one", "two"]),
        ({"zone": "a"}, ["one"]),
        ({"zone": "!a"}, ["two"]),
        ({"zone": "in(a, b)"}, ["one", "two"]),
        ({"zone": "!in(a,c)"}, ["two"]),
        ({"disk": "!slow"}, ["one", "two"]),
        ({"zone": "b", "disk": "fast"}, ["two"]),
    ],
)
def test_node_selection_follows_ray(selector: dict[str, str], chosen: list[str]) -> None:
    nodes = [
        node_of("two", Labels=RAY_LABELS[1]),
        node_of("one", Labels=RAY_LABELS[0]),
        node_of("dead", Alive=False),
        node_of("head", Resources={"memory": 6e9}, Labels=RAY_LABELS[0]),
    ]
    assert [place.name for place in on_ray._places(nodes, None, selector, None)] == chosen


def test_worker_names_are_readable_and_unique() -> None:
    nodes = [
        node_of(
            "gpu box", Resources={"CPU": 2.5, "GPU": 1.0, "memory": 5, "object_store_memory": 3}
        ),
        node_of("twin", NodeID="aaaaaaaa"),
        node_of("twin", NodeID="bbbbbbbb"),
        node_of("vm", NodeName="given/by owner"),
        node_of("master", NodeID="cccccccc"),
    ]
    first, *others = on_ray._places(nodes, None, {}, None)
    names = ["gpu-box", "master-cccccc", "twin-aaaaaa", "twin-bbbbbb"]
    assert [place.name for place in others] == names
    assert first.name == "given-by-owner"
    box = others[0]
    assert (box.labels, box.cores, box.memory_bytes) == (("gpu",), 2, 8)
    assert [place.cores for place in on_ray._places(nodes, 2, {}, 7)] == [7, 7]


# Ray's state is preserved


def actors(ray: Any) -> list[str]:
    return [name for name in ray.util.list_named_actors() if name.startswith("euphrates-")]


def counted(**options: Any) -> list[dict[str, Any]]:
    flow = eu.Flow("count things")
    flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
    return flow.go(progress=False, **options).collected().to_pylist()


@pytest.mark.parametrize("words", ["ray", "ray:auto", "ray:{}"])
def test_cluster_given_as_a_word_is_opened(ray: Any, words: str) -> None:
    before = set(actors(ray))
    address = ray.get_runtime_context().gcs_address
    assert counted(cluster=words.format(address)) == [{"count": 1000}]
    assert ray.is_initialized()
    wait_for(lambda: set(actors(ray)) <= before)


def test_actors_have_readable_names_and_end_with_their_cluster(ray: Any) -> None:
    before = set(actors(ray))
    with eu.Cluster.ray(workers=1) as cluster:
        (name,) = set(actors(ray)) - before
        assert re.fullmatch(rf"euphrates-[0-9a-f]{{4}}-{cluster.workers[0].name}", name)
    cluster.close()
    wait_for(lambda: set(actors(ray)) <= before)
    del cluster
    forgotten = eu.Cluster.ray(workers=1)
    assert len(set(actors(ray)) - before) == 1
    del forgotten
    wait_for(lambda: set(actors(ray)) <= before)


# Invalid requests


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"workers": 3}, eu.ResourceError, "Ray has 2, wanted are 3"),
        ({"label_selector": {"zone": "c"}}, eu.ResourceError, "select: Ray has 0, wanted are 1"),
        ({"workers": 0}, eu.UsageError, "workers is 0"),
        ({"cores": 0}, eu.UsageError, "cores is 0"),
        ({"address": "10.0.0.9:1"}, eu.UsageError, "not at 10.0.0.9:1"),
        ({"address": "ray://10.0.0.9:1"}, eu.UsageError, "Ray Client"),
        ({"channel_security": "none"}, eu.UsageError, "channel security"),
        ({"runtime_env": {"working_dir": "."}}, eu.UsageError, "runtime_env"),
        ({"timeout": 0}, eu.ResourceError, r"Ray node .*, Ray node .* within 0 seconds"),
    ],
)
def test_invalid_ray_clusters_are_rejected(
    ray: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = set(actors(ray))
    with pytest.raises(error, match=message):
        eu.Cluster.ray(**options)
    wait_for(lambda: set(actors(ray)) <= before)


STRANGE = {
    "No module named 'euphrates'": """raise ModuleNotFoundError("No module named 'euphrates'")""",
    "it has euphrates 0.0.9, and": "__version__ = '0.0.9'",
}


@pytest.mark.parametrize("told", STRANGE)
def test_node_without_the_package_is_named(ray: Any, told: str, tmp_path: Path) -> None:
    (tmp_path / "euphrates.py").write_text(STRANGE[told])
    with pytest.raises(eu.ResourceError, match=told) as failed:
        eu.Cluster.ray(runtime_env={"env_vars": {"PYTHONPATH": str(tmp_path)}})
    assert "Ray node" in (failed.value.place or "") and "127.0.0." in (failed.value.place or "")
    assert 'runtime_env={"pip"' in (failed.value.remedy or "")


def test_missing_or_old_ray_names_the_remedy(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "__version__", "2.53.1")
    with pytest.raises(eu.UsageError, match=r"Ray is 2.53.1; 2.54 is needed") as old:
        eu.Cluster.ray()
    assert "pip install" in (old.value.remedy or "")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(eu.UsageError, match="Ray cannot be imported"):
        eu.Cluster.ray()


def test_insecure_ray_is_warned_about_once(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "_warned", False)
    monkeypatch.delenv("RAY_AUTH_MODE")
    with pytest.warns(UserWarning, match="RAY_AUTH_MODE is not `token`") as told:
        for _ in range(2):
            with pytest.raises(eu.ResourceError):
                eu.Cluster.ray(workers=99)
    assert len(told) == 1


# Failure


def test_user_exception_is_reraised_unchanged(cluster: eu.Cluster) -> None:
    def raising(batch: eu.Batch) -> eu.Batch:
        if len(batch):
            raise LookupError("seven is right out")
        return batch

    flow = eu.Flow("raises")
    flow.chain(eu.generate("integers", rows=10), raising, eu.collect())
    with pytest.raises(eu.FlowError, match="LookupError: seven is right out") as failed:
        flow.go(cluster=cluster)
    assert 'raise LookupError("seven is right out")' in str(failed.value)
    assert any(worker.name in str(failed.value) for worker in cluster.workers)


def test_unpicklable_function_is_named_with_the_reason(cluster: eu.Cluster) -> None:
    flow = eu.Flow("locked")
    kept = flow.place(eu.map(functions.keeping_a_lock()), id="keeps_a_lock")
    flow.chain(eu.generate("integers", rows=10), kept, eu.collect())
    with pytest.raises(eu.UsageError, match=r"cannot pickle '_thread\.lock'") as refused:
        flow.go(cluster=cluster)
    assert "keeps_a_lock" in str(refused.value) and "locked" in str(refused.value)


def until_over(folder: Path) -> Callable[[eu.Batch], eu.Batch]:
    """Reports the process that has a batch in the folder, and holds the batch until the folder has
    `over`.
    """

    def waiting(batch: eu.Batch) -> eu.Batch:
        if len(batch):
            (folder / str(os.getpid())).touch()
            while not (folder / "over").exists():
                pass
        return batch

    return waiting


def process_of(ray: Any, actor: str) -> int:
    asked = ray.get_actor(actor).__ray_call__.remote(lambda _: os.getpid())
    return int(ray.get(asked))


def test_repeatable_flow_survives_a_killed_worker(ray: Any, tmp_path: Path) -> None:
    rows, before = 1_000_000, set(actors(ray))
    with eu.Cluster.ray() as cluster:
        flow = eu.Flow("goes on")
        numbers = flow.place(eu.generate("integers", rows=rows))
        waits = flow.attach(numbers, flow.place(until_over(tmp_path), per_worker=1))
        flow.chain(waits, eu.collect())
        running = flow.start(cluster=cluster)
        wait_for(lambda: len([*tmp_path.iterdir()]) == 2)
        victim = sorted(set(actors(ray)) - before)[0]
        name = victim.split("-", 2)[2]
        os.kill(process_of(ray, victim), signal.SIGKILL)
        (tmp_path / "over").touch()
        report = running.finish()
        assert sorted(report.collected().to_pydict()["n"]) == list(range(rows))
        assert f"{name} was lost" in str(report)
        assert name not in [worker.name for worker in cluster.workers]
        assert counted(cluster=cluster) == [{"count": 1000}]


@pytest.mark.parametrize("how", ["ray.kill", "kill -9"])
def test_dead_actor_fails_the_flow_and_is_cleaned_up(ray: Any, how: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    before = set(actors(ray))
    with eu.Cluster.ray() as cluster:
        flow = eu.Flow("dies")
        # A single-use source cannot restart.
        batches = pa.table({"n": range(100_000)}).to_batches(max_chunksize=10_000)
        stream = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
        numbers = flow.place(eu.from_arrow(stream))
        waits = flow.attach(numbers, flow.place(until_over(tmp_path), per_worker=1))
        flow.chain(waits, eu.save(out / "all.parquet"))
        running = flow.start(cluster=cluster)
        wait_for(lambda: len([*tmp_path.iterdir()]) == 3)
        victim = sorted(set(actors(ray)) - before)[0]
        name = victim.split("-", 2)[2]
        if how == "ray.kill":
            ray.kill(ray.get_actor(victim))
        else:
            os.kill(process_of(ray, victim), signal.SIGKILL)
        (tmp_path / "over").touch()
        with pytest.raises(eu.ResourceError, match=f"worker {name} is lost"):
            running.finish()
        (left,) = cluster.workers
        assert left.name != name
        # The next output removes files staged by dead workers.
        numbers = eu.Flow("numbers")
        save = eu.save(out / "numbers.parquet", overwrite=True)
        numbers.chain(eu.generate("integers", rows=10), save)

        def is_clean() -> bool:
            numbers.go(cluster=cluster)
            return [path.name for path in out.iterdir()] == ["numbers.parquet"]

        wait_for(is_clean)
