"""The `fsspec` file system `euphrates://`: fsspec's own suite, and programs that use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet
import pytest
from fsspec.tests.abstract import AbstractFixtures
from fsspec.tests.abstract.copy import AbstractCopyTests
from fsspec.tests.abstract.get import AbstractGetTests
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests
from fsspec.tests.abstract.put import AbstractPutTests

from euphrates._files.filesystem import EuphratesFileSystem
from euphrates._files.names import name_of, path_of
from striped_cases import make_home


class Fixtures(AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, tmp_path: Path) -> EuphratesFileSystem:
        home = str(make_home(tmp_path, 3))
        return EuphratesFileSystem(data=1, parity=1, home=home, skip_instance_cache=True)

    @pytest.fixture
    def fs_path(self) -> str:
        return "tree"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopy(Fixtures, AbstractCopyTests):  # type: ignore[misc]
    pass


class TestGet(Fixtures, AbstractGetTests):  # type: ignore[misc]
    pass


class TestOpen(Fixtures, AbstractOpenTests):  # type: ignore[misc]
    pass


class TestPipe(Fixtures, AbstractPipeTests):  # type: ignore[misc]
    pass


class TestPut(Fixtures, AbstractPutTests):  # type: ignore[misc]
    pass


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"data": 2, "parity": 1, "home": str(make_home(tmp_path, 4))}


def test_pandas_and_pyarrow_use_addresses(options: dict[str, Any]) -> None:
    frame = pd.DataFrame({"n": range(1000), "text": [str(at) for at in range(1000)]})
    for kind in ("parquet", "csv", "json"):
        address = f"euphrates://frames/n.{kind}"
        more = {"index": False} if kind == "csv" else {}
        getattr(frame, f"to_{kind}")(address, storage_options=options, **more)
        types = {"dtype": {"text": str}} if kind != "parquet" else {}
        back = getattr(pd, f"read_{kind}")(address, storage_options=options, **types)
        assert back.equals(frame), kind
    files = fsspec.filesystem("euphrates", **options)
    table = pyarrow.parquet.read_table("frames/n.parquet", filesystem=files)
    pyarrow.dataset.write_dataset(
        table.append_column("day", table["n"]).slice(0, 3),
        "days",
        filesystem=files,
        format="parquet",
        partitioning=["day"],
        partitioning_flavor="hive",
    )
    assert files.isdir("days/day=2")
    days = pyarrow.dataset.dataset("days", filesystem=files, partitioning="hive")
    assert sorted(days.to_table()["day"].to_pylist()) == [0, 1, 2]


def test_files_are_listed_removed_and_appended_to(options: dict[str, Any]) -> None:
    files = fsspec.filesystem("euphrates", **options)
    files.pipe({"a/b": b"1", "a/c/d": b"22", "e": b"333"})
    assert files.ls("", detail=False) == ["a", "e"]
    assert [(one["name"], one["type"]) for one in files.ls("a")] == [
        ("a/b", "file"),
        ("a/c", "directory"),
    ]
    assert files.find("") == ["a/b", "a/c/d", "e"]
    assert files.du("a") == 3
    assert files.info("e")["size"] == 3
    with files.open("e", "ab") as file:
        file.write(b"4")
    assert files.cat("e") == b"3334"
    files.mv("e", "a/e")
    assert files.find("") == ["a/b", "a/c/d", "a/e"]
    with pytest.raises(FileExistsError):
        files.open("a/b", "xb")
    for missing in ("e", "a/x", "b"):
        with pytest.raises(FileNotFoundError):
            files.cat(missing)
        with pytest.raises(FileNotFoundError):
            files.rm(missing)
    files.rm("a", recursive=True)
    assert files.ls("") == []


def test_transaction_publishes_all_files_or_none(options: dict[str, Any]) -> None:
    files = fsspec.filesystem("euphrates", **options)
    with files.transaction:
        with files.open("a", "wb") as file:
            file.write(b"1")
        assert not files.exists("a")
    assert files.cat("a") == b"1"
    with pytest.raises(ZeroDivisionError), files.transaction:
        with files.open("b", "wb") as file:
            file.write(b"1")
        raise ZeroDivisionError
    assert not files.exists("b")


def test_paths_of_any_bytes_have_names() -> None:
    paths = [".zarray", "year=2024/x y", "-a", "_-.2E", "-.", "ü/%20", "a-.b", "_x", "a.b-c_d"]
    for path in paths:
        name = name_of(path)
        assert path_of(name) == path
        assert all(letter.isascii() and (letter.isalnum() or letter in "/_-.") for letter in name)
        assert all(part[0] not in ".-" for part in name.split("/"))
    assert len({name_of(path) for path in paths}) == len(paths)
    assert name_of("plain/name-1.txt") == "plain/name-1.txt"
