"""The daily tasks run as they stand, and the page shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import euphrates as eu
from daily_inputs import write
from daily_runs import ON_CLUSTERS, check, importable_models, run_on
from s3_server import S3Server, s3, s3_session  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples" / "daily").glob("*.py"))


def run(name: str, folder: Path, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "daily" / f"{name}.py"],
        cwd=folder,
        # The user's own modules, here that of the model, are in the folder.
        env={
            **os.environ,
            "EUPHRATES_HOME": str(folder / "home"),
            "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


def rows(path: Path) -> list[dict[str, object]]:
    return eu.query(path).to_pylist()


@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_a_task_runs_alone(inputs: Path, name: str) -> None:
    check(name, inputs, run(name, inputs))


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[eu.Cluster]:
    with importable_models(tmp_path_factory.mktemp("code")), eu.Cluster.processes(2) as cluster:
        yield cluster


@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_a_task_is_the_same_on_processes(
    inputs: Path,
    name: str,
    processes: eu.Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_on(processes, name, inputs, monkeypatch)
    monkeypatch.undo()
    check(name, inputs, capsys.readouterr().out)


def test_epochs(inputs: Path) -> None:
    assert run("epochs", inputs).split() == ["0", "3", "1", "3"]


def test_a_task_opens_its_own_processes(inputs: Path) -> None:
    run("processes", inputs)
    check("latest", inputs, "")


def test_only_new(inputs: Path) -> None:
    run("only_new", inputs)
    run("only_new", inputs)
    assert len(rows(inputs / "all")) == 6


@pytest.mark.parametrize("name", ["object_store", "two_stores"])
def test_object_store(inputs: Path, s3: S3Server, name: str) -> None:  # noqa: F811
    s3.client.upload_file(str(inputs / "prices.parquet"), "euphrates-test", "prices.parquet")
    lake = {"LAKE_ENDPOINT": s3.endpoint, "LAKE_ID": "test", "LAKE_KEY": "test"}
    run(name, inputs, **(s3.environment if name == "object_store" else lake))
    s3.client.download_file("euphrates-test", "high.parquet", str(inputs / "high.parquet"))
    assert [row["price"] for row in rows(inputs / "high.parquet")] == [6]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_page_shows_every_task(example: Path) -> None:
    page = (ROOT / "docs" / "daily-tasks.md").read_text()
    code = example.read_text().split("import euphrates as eu\n", 1)[1].strip()
    assert code in page
