"""Fixtures of tests that need a Ray cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

import rig
from ray_labels import RAY_LABELS


@pytest.fixture(scope="session")
def ray_keys() -> Iterator[None]:
    """Sets a token for Ray, which would otherwise create one in the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield


@pytest.fixture(scope="session")
def ray_nodes(ray_keys: None) -> Iterator[rig.RayCluster]:
    """A Ray cluster of two nodes on this machine, which tests must not damage."""
    with rig.RayCluster(2, labels=RAY_LABELS, logs=True) as nodes:
        yield nodes
