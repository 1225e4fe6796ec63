"""A studio server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from studio_server import Studio


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    (tmp_path / "project").mkdir()
    studio = Studio(tmp_path / "project", tmp_path / "home")
    yield studio
    for run in studio.ask("GET", "/api/runs"):
        if run["state"] == "running":
            studio.ask("POST", f"/api/runs/{run['id']}/stop", {})
    studio.end()
