"""Runs the daily tasks in this process, on a cluster."""

from __future__ import annotations

import contextlib
import functools
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu
from daily_inputs import MODEL, WEIGHTS

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "daily"


@contextlib.contextmanager
def importable_models(folder: Path) -> Iterator[str]:
    """Makes the user's module importable here and in programs that are started meanwhile, in a
    folder with the file that it reads. Yields their `PYTHONPATH`.
    """
    (folder / "models.py").write_text(MODEL)
    (folder / "weights.json").write_text(WEIGHTS)
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        patch.setenv("PYTHONPATH", path)
        patch.syspath_prepend(str(folder))
        patch.chdir(folder)
        sys.modules.pop("models", None)
        yield path


def run_on(cluster: eu.Cluster, name: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Runs a task in a folder, as if each of its flows had `cluster=`."""
    go: Callable[..., eu.Report] = eu.Flow.go
    patch.setattr(eu.Flow, "go", functools.partialmethod(_go, go, cluster))
    patch.chdir(folder)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def _go(
    flow: eu.Flow, go: Callable[..., eu.Report], cluster: eu.Cluster, *args: Any, **options: Any
) -> eu.Report:
    # The memory of a cluster is that of its workers.
    options.pop("memory", None)
    return go(flow, *args, **{"cluster": cluster, "home": "home", **options})


def check(name: str, folder: Path, printed: str) -> None:
    """Checks what a task has written, or printed."""

    def rows(path: str) -> list[dict[str, Any]]:
        return eu.query(folder / path).to_pylist()

    if name == "messy_csv":
        assert sorted(row["id"] for row in rows("clean")) == [1, 2, 3, 9]
        assert [row["line"] for row in rows("bad.parquet")] == [4]
    elif name == "large_join":
        found = [line.split() for line in printed.splitlines()[1:]]
        assert found == [["0", "a", "13"], ["1", "b", "9"]]
    elif name == "model":
        assert sorted(row["score"] for row in rows("scores.parquet")) == [1.0, 2.0]
        assert [row["text"] for row in rows("bad.json")] == ["unknown"]
    elif name == "logs":
        lines = (folder / "counts.csv").read_text().splitlines()
        hours = ["2024-01-02T10,200,1", "2024-01-02T10,404,1", "2024-01-02T11,200,2"]
        assert lines == ["hour,status,rows", *hours]
    elif name == "latest":
        found = {row["id"]: row["price"] for row in rows("latest.parquet")}
        assert found == {1: 6, 2: 5}
    elif name == "three_tables":
        assert "Sumer    13" in printed
    elif name == "only_new":
        assert len(rows("all")) == 6
    else:
        raise AssertionError(name)


ON_CLUSTERS = ["messy_csv", "large_join", "model", "logs", "latest", "three_tables", "only_new"]
"""Tasks that mean the same wherever they run."""
