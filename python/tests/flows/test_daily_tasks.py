"""The daily tasks run as they stand, and the page shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import euphrates as eu
from daily_inputs import write
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


def test_messy_csv(inputs: Path) -> None:
    run("messy_csv", inputs)
    clean = eu.query(f"{inputs}/clean/").sort("id").to_pydict()
    assert clean["id"] == [1, 2, 3, 9]
    assert [row["line"] for row in rows(inputs / "bad.parquet")] == [4]


def test_large_join(inputs: Path) -> None:
    assert [line.split() for line in run("large_join", inputs).splitlines()[1:]] == [
        ["0", "a", "13"],
        ["1", "b", "9"],
    ]


def test_model(inputs: Path) -> None:
    run("model", inputs)
    assert sorted(row["score"] for row in rows(inputs / "scores.parquet")) == [1.0, 2.0]
    assert [row["text"] for row in rows(inputs / "bad.json")] == ["unknown"]


def test_epochs(inputs: Path) -> None:
    assert run("epochs", inputs).split() == ["0", "3", "1", "3"]


def test_logs(inputs: Path) -> None:
    run("logs", inputs)
    assert (inputs / "counts.csv").read_text().splitlines() == [
        "hour,status,rows",
        "2024-01-02T10,200,1",
        "2024-01-02T10,404,1",
        "2024-01-02T11,200,2",
    ]


@pytest.mark.parametrize("name", ["latest", "processes"])
def test_latest(inputs: Path, name: str) -> None:
    run(name, inputs)
    latest = eu.query(inputs / "latest.parquet").sort("id").to_pydict()
    assert latest["price"] == [6, 5]


def test_three_tables(inputs: Path) -> None:
    assert "Sumer    13" in run("three_tables", inputs)


def test_only_new(inputs: Path) -> None:
    run("only_new", inputs)
    run("only_new", inputs)
    assert len(rows(inputs / "all")) == 6


def test_object_store(inputs: Path, s3: S3Server) -> None:  # noqa: F811
    s3.client.upload_file(str(inputs / "prices.parquet"), "euphrates-test", "prices.parquet")
    run("object_store", inputs, **s3.environment)
    s3.client.download_file("euphrates-test", "high.parquet", str(inputs / "high.parquet"))
    assert [row["price"] for row in rows(inputs / "high.parquet")] == [6]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_page_shows_every_task(example: Path) -> None:
    page = (ROOT / "docs" / "daily-tasks.md").read_text()
    code = example.read_text().split("import euphrates as eu\n", 1)[1].strip()
    assert code in page
