"""The example flows of the studio's gallery run on small input."""

from __future__ import annotations

import json
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


def mirrored(folder: Path) -> dict[str, Any]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    disks = [
        {"name": f"d{number}", "folder": str(folder / f"d{number}"), "worker": f"w{number}"}
        for number in (1, 2)
    ]
    (home / "disks.json").write_text(json.dumps(disks))
    flow = eu.Flow("write")
    numbers = eu.generate("integers", rows=10, order=True)
    flow.chain(numbers, eu.write("kept", disks=["d1", "d2"], copies=2))
    flow.go()
    return {"collection": "kept"}


# Values of each flow's variables that keep it small and point to its input.
GIVEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "clean": clean,
    "copy": copy,
    "external_sort": lambda folder: {"rows": 1000, "to": str(folder / "sorted.dat")},
    "join": lambda _: {"scale": 0.01},
    "mirrored_read": mirrored,
    "slow_consumer": lambda _: {"rows": 1_000_000},
}


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_gallery_flow_runs(path: Path, tmp_path: Path) -> None:
    assert path.stem in GIVEN, "say what it is given to run small"
    report = eu.Flow.load(path).go(variables=GIVEN[path.stem](tmp_path))
    assert sum(module.rows_in + module.rows_out for module in report.modules) > 0
