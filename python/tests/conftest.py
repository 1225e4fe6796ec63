"""What the tests share."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu
import rig
from kept import Kept

RAY_LABELS = [{"zone": "a"}, {"zone": "b", "disk": "fast"}]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Collections and scratch of a test are its own."""
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / "home"))


@pytest.fixture
def collected() -> Callable[..., eu.Table]:
    """Runs a chain of modules and gives what came out of it."""

    def run(*modules: Any, **options: Any) -> eu.Table:
        flow = eu.Flow("test")
        flow.chain(*modules, eu.collect())
        return flow.go(**options).collected()

    return run


@pytest.fixture(scope="session")
def ray_keys() -> Iterator[None]:
    """Ray makes a token in the home of whoever has none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield


@pytest.fixture(scope="session")
def ray_nodes(ray_keys: None) -> Iterator[rig.RayCluster]:
    """A Ray cluster of two nodes on this machine, which nobody harms."""
    with rig.RayCluster(2, labels=RAY_LABELS, logs=True) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    cluster = Kept(tmp_path_factory.mktemp("kept"), 4)
    try:
        yield cluster
        assert cluster.ps() == []
    finally:
        cluster.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Kept]:
    """One whose workers may be killed."""
    cluster = Kept(tmp_path, 2)
    try:
        yield cluster
    finally:
        cluster.close()
