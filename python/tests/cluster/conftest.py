"""Clusters that the tests of this folder share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import cluster_harness as clusters
import euphrates as eu
from cluster_harness import is_alive, workers_of
from persistent_cluster import PersistentCluster


@pytest.fixture(scope="module")
def persistent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PersistentCluster]:
    cluster = PersistentCluster(tmp_path_factory.mktemp("persistent"), 4)
    try:
        yield cluster
        assert cluster.ps() == []
    finally:
        cluster.close()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[PersistentCluster]:
    """A persistent cluster whose workers a test may kill."""
    cluster = PersistentCluster(tmp_path, 2)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster() -> Iterator[eu.Cluster]:
    """Three worker processes; none is left after close."""
    with clusters.processes(3) as started:
        pids = workers_of(os.getpid()).values()
        yield started
    assert not any(map(is_alive, pids))
