"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each test its own home for collections and scratch."""
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / "home"))


@pytest.fixture
def collected() -> Callable[..., eu.Table]:
    """Runs a chain of modules and returns the collected table."""

    def run(*modules: Any, **options: Any) -> eu.Table:
        flow = eu.Flow("test")
        flow.chain(*modules, eu.collect())
        return flow.go(**options).collected()

    return run
