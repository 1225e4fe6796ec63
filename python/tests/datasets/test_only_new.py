"""Runs that read only files that no earlier run has processed."""

from __future__ import annotations

from pathlib import Path

import pytest

import euphrates as eu


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / "home"))
    Path("in").mkdir()


def put(name: str, *numbers: int) -> None:
    Path("in", name).write_text("\n".join(["n", *map(str, numbers)]) + "\n", encoding="utf-8")


def new() -> eu.ModuleCall:
    return eu.scan("in/*.csv", only_new="daily")


def saved() -> list[int]:
    return sorted(eu.query("out/").to_pydict()["n"])


def test_a_run_reads_only_new_files_and_its_output_grows() -> None:
    put("a.csv", 1, 2)
    new().save("out/", mode="append")
    put("b.csv", 3)
    new().save("out/", mode="append")
    assert saved() == [1, 2, 3]
    assert new().to_pydict() == {"n": []}
    new().save("out/", mode="append")
    assert saved() == [1, 2, 3]


def test_a_flow_that_fails_reads_its_files_again() -> None:
    put("a.csv", 1)

    def fails(batch: eu.Batch) -> eu.Batch:
        if batch.num_rows:
            raise ValueError("no")
        return batch

    with pytest.raises(eu.FlowError):
        new().then(fails).save("out/", mode="append")
    assert not Path("out").exists()
    new().save("out/", mode="append")
    assert saved() == [1]


def test_a_file_that_changed_is_an_error_until_it_is_forgotten() -> None:
    put("a.csv", 1)
    new().save("out/", mode="append")
    put("a.csv", 1, 2)
    with pytest.raises(eu.UsageError, match=r"a\.csv has changed since it was processed"):
        new().collect()
    assert eu.forget("daily", ["in/a.csv"]) == 1
    assert new().to_pydict() == {"n": [1, 2]}


def test_states_of_different_names_are_independent() -> None:
    put("a.csv", 1)
    new().collect()
    assert eu.scan("in/*.csv", only_new="other").to_pydict() == {"n": [1]}
    assert eu.forget("daily") == 1
    assert eu.forget("daily") == 0
    assert new().to_pydict() == {"n": [1]}


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    put("a.csv", 1)
    with pytest.raises(eu.UsageError, match="not a name of a state"):
        eu.scan("in/*.csv", only_new=name).collect()


def test_explaining_processes_nothing() -> None:
    put("a.csv", 1)
    new().explain()
    assert new().columns == ["n"]
    assert new().to_pydict() == {"n": [1]}


def test_workers_read_only_new_files() -> None:
    with eu.Cluster.processes(2) as cluster:
        for number in range(3):
            put(f"{number}.csv", number)
            new().save("out/", mode="append", cluster=cluster)
    assert saved() == [0, 1, 2]
