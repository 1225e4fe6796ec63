"""What earlier versions have written is read: documents, collections, and files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import euphrates as eu

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if (path / "home").is_dir())
EXPECTED = {
    "chained": [{"k": 8, "total": 50_300, "rows": 100}, {"k": 6, "total": 50_100, "rows": 100}],
    "joined": [{"count": 10}],
    "queried": [{"best": 10}],
}
EACH = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)


@EACH
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_documents_build_the_same_flow(version: Path, name: str) -> None:
    text = (version / f"documents/{name}.json").read_text()
    flow = eu.Flow.from_json(text)
    assert flow.go().collected().to_pylist() == EXPECTED[name]
    assert eu.Flow.from_json(flow.to_json()).to_json() == flow.to_json()


@EACH
def test_collections_have_the_same_rows(version: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(version / "home", home)
    files = {
        path.name: eu.scan(path, order=True).to_pylist() for path in (version / "files").iterdir()
    }
    expected = files["types.parquet"]
    assert len(expected) == 300 and files["types.arrow"] == expected
    assert expected[7] | {"at": None} == {
        **{"n": 7, "k": 0, "small": 7, "third": False, "ratio": 0.875, "word": "word 7"},
        **{"price": expected[7]["price"], "day": expected[7]["day"], "at": None},
        **{"pair": [7, 8], "both": {"x": 7, "y": "y3"}},
    }
    for name in ("types", "packed"):
        assert eu.read(name, order=True).to_pylist(home=str(home)) == expected
    keys = eu.read("a/sorted", order=True).to_pydict(home=str(home))["key"]
    assert len(keys) == 500 and keys == sorted(keys)


@EACH
def test_a_collection_is_verified_and_replaced(version: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(version / "home", home)
    flow = eu.Flow("again")
    flow.chain(eu.generate("integers", rows=3), eu.write("types", overwrite=True))
    flow.go(home=str(home))
    assert len(eu.read("types").to_pylist(home=str(home))) == 3
