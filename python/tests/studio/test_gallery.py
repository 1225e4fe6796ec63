"""The example flows of the studio's gallery run on small input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu

GALLERY = sorted((Path(__file__).resolve().parents[3] / "studio" / "gallery").glob("*.json"))


def clean(folder: Path) -> dict[str, Any]:
    (folder / "in.csv").write_text("name,amount\nAda,2.5\n,1\nBob,-3\n")
    return {"from": str(folder / "in.csv"), "to": str(folder / "out.parquet")}


def copy(folder: Path) -> dict[str, Any]:
    flow = eu.Flow("write")
    flow.chain(eu.generate("integers", rows=10), eu.save(folder / "in.parquet"))
    flow.go()
    return {"from": str(folder / "in.parquet"), "to": str(folder / "out.parquet")}


# Values of each flow's variables that keep it small and point to its input.
GIVEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "clean": clean,
    "collection": lambda _: {"rows": 1000},
    "copy": copy,
    "external_sort": lambda folder: {"rows": 1000, "to": str(folder / "sorted.dat")},
    "join": lambda _: {"scale": 0.01},
    "slow_consumer": lambda _: {"rows": 1_000_000},
}


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_gallery_flow_runs(path: Path, tmp_path: Path) -> None:
    assert path.stem in GIVEN, "say what it is given to run small"
    report = eu.Flow.load(path).go(variables=GIVEN[path.stem](tmp_path))
    assert sum(module.rows_in + module.rows_out for module in report.modules) > 0


@pytest.mark.parametrize("name", ["clean", "copy"])
def test_gallery_flow_runs_on_its_example_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gallery = GALLERY[0].parent
    (tmp_path / "sales.csv").write_text((gallery / "sales.csv").read_text())
    monkeypatch.chdir(tmp_path)
    report = eu.Flow.load(gallery / f"{name}.json").go()
    assert report.modules[-1].rows_in > 50
