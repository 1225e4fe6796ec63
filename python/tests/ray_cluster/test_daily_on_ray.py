"""The daily tasks on Ray, with an object store at an endpoint of its own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import euphrates as eu
import rig
from daily_inputs import write
from daily_runs import ON_CLUSTERS, check, importable_models, run_on
from rig import ray as rays
from s3_server import S3Server, s3_session  # noqa: F401

pytestmark = pytest.mark.skipif(rays.missing() is not None, reason=rays.missing() or "")


@pytest.fixture(scope="module")
def cluster(
    ray_nodes: rig.RayCluster,
    s3_session: S3Server,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[eu.Cluster]:
    """Workers on Ray's nodes, in whose environment are the keys of the store."""
    ray = importlib.import_module("ray")
    keys = {"LAKE_ENDPOINT": s3_session.endpoint, "LAKE_ID": "test", "LAKE_KEY": "test"}
    code = tmp_path_factory.mktemp("code")
    with importable_models(code) as path, pytest.MonkeyPatch.context() as patch:
        for name, value in keys.items():
            patch.setenv(name, value)
        environment = {"env_vars": {**keys, "PYTHONPATH": path}}
        ray.init(**ray_nodes.driver(), runtime_env=environment, log_to_driver=False)
        try:
            with eu.Cluster.ray() as opened:
                yield opened
        finally:
            ray.shutdown()


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [*ON_CLUSTERS, "two_stores"])
def test_a_task_is_the_same_on_ray(
    inputs: Path,
    name: str,
    cluster: eu.Cluster,
    s3_session: S3Server,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "two_stores":
        s3_session.clear()
        s3_session.put("prices.parquet", (inputs / "prices.parquet").read_bytes())
    run_on(cluster, name, inputs, monkeypatch)
    monkeypatch.undo()
    if name == "two_stores":
        (inputs / "high.parquet").write_bytes(s3_session.get("high.parquet"))
        assert eu.query(inputs / "high.parquet").to_pydict()["price"] == [6]
    else:
        check(name, inputs, capsys.readouterr().out)
