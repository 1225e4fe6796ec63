"""A flow that runs again after its program died keeps the outputs that it has made before."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu

ROWS = 100_000


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / "home"))


def copying(*sinks: Any, rows: int = ROWS) -> eu.Flow:
    """Sends integers to each of these sinks."""
    flow = eu.Flow("copy")
    numbers, tee = flow.place(eu.generate("integers", rows=rows)), flow.place(eu.tee())
    flow.chain(numbers, tee)
    for sink in sinks:
        flow.attach(tee, flow.place(sink))
    return flow


def catalog_version(name: str) -> int:
    versions = Path(os.environ["EUPHRATES_HOME"], "catalog", name, ".v").glob("*.json")
    return max(int(path.stem) for path in versions)


@pytest.mark.parametrize("cluster", [None, "processes:2"])
def test_resume_skips_finished_outputs(cluster: str | None, tmp_path: Path) -> None:
    flow = copying(eu.write("kept"), eu.save("kept.parquet"))
    first = flow.go(resume=True, cluster=cluster)
    assert first.made_before == [] and first.modules
    before = (tmp_path / "kept.parquet").stat()
    again = flow.go(resume=True, cluster=cluster)
    assert again.made_before == ["save_1", "write_1"] and not again.modules
    assert "nothing was left to do: save_1, write_1" in str(again)
    assert json.loads(again.to_json())["made_before"] == again.made_before
    after = (tmp_path / "kept.parquet").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert catalog_version("kept") == 1
    with pytest.raises(eu.UsageError, match="already"):
        flow.go(cluster=cluster)


def test_resume_rebuilds_missing_outputs_and_keeps_foreign_files(tmp_path: Path) -> None:
    flow = copying(eu.write("kept"), eu.save("kept.parquet"))
    flow.go(resume=True)
    (tmp_path / "kept.parquet").unlink()
    assert flow.go(resume=True).made_before == []
    assert catalog_version("kept") == 2
    assert flow.go(resume=True).made_before == ["save_1", "write_1"]
    # A file written by another program is not replaced.
    (tmp_path / "kept.parquet").write_text("mine")
    with pytest.raises(eu.UsageError, match="exists already"):
        flow.go(resume=True)
    assert (tmp_path / "kept.parquet").read_text() == "mine"


@pytest.mark.parametrize("sink", [eu.save("kept.parquet"), eu.write("kept")])
def test_resume_says_why_it_does_not_keep_what_a_run_without_it_made(sink: Any) -> None:
    flow = copying(sink)
    flow.go()
    with pytest.raises(eu.UsageError, match="already") as refused:
        flow.go(resume=True)
    assert refused.value.remedy == (
        "only what an earlier run with `resume` has made, and nothing has changed since, is kept: "
        "remove it, choose another name, or replace it: `overwrite=True`"
    )
    with pytest.raises(eu.UsageError, match="already") as refused:
        flow.go()
    assert refused.value.remedy == "choose another name, or replace it: `overwrite=True`"


def test_resume_distinguishes_flows_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying(eu.save("kept.parquet")).go(resume=True)
    with pytest.raises(eu.UsageError, match="exists already"):
        copying(eu.save("kept.parquet"), rows=ROWS + 1).go(resume=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert copying(eu.save("kept.parquet")).go(resume=True).made_before == []
    assert (tmp_path / "elsewhere" / "kept.parquet").exists()


def test_resume_names_changed_sources(tmp_path: Path) -> None:
    source = tmp_path / "numbers.csv"
    source.write_text("n\n1\n2\n")
    flow = eu.Flow("convert")
    flow.chain(eu.scan(str(source)), eu.save("kept.parquet"))
    flow.go(resume=True)
    assert flow.go(resume=True).made_before == ["save_1"]
    # The same length as before, or longer.
    for text in ("n\n1\n3\n", "n\n1\n2\n3\n"):
        source.write_text(text)
        with pytest.raises(eu.UsageError, match=r"scan_1: what it reads has changed"):
            flow.go(resume=True)


def test_resume_reruns_in_memory_outputs() -> None:
    flow = copying(eu.write("kept"), eu.collect())
    assert flow.go(resume=True).collected().num_rows == ROWS
    assert flow.go(resume=True).collected().num_rows == ROWS
    assert catalog_version("kept") == 2


def test_resume_rejects_in_process_objects() -> None:
    flow = eu.Flow("map")
    flow.chain(eu.generate("integers", rows=10), eu.map(lambda batch: batch), eu.write("kept"))
    with pytest.raises(eu.UsageError, match="lives in this process only"):
        flow.go(resume=True)


def test_program_killed_at_any_moment_resumes(tmp_path: Path) -> None:
    flow = copying(eu.write("kept"), eu.save("kept.parquet"), rows=3_000_000)
    (tmp_path / "flow.json").write_text(flow.to_json())
    command = [sys.executable, "-m", "euphrates", "run", "flow.json", "--resume"]
    for seconds in [0.2, 0.25, 0.3, 0.35, 0.4, 0.5]:
        # A run beyond this time is killed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, timeout=seconds, stderr=subprocess.DEVNULL, check=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "nothing was left to do" in again.stderr, again.stderr
    read = eu.Flow("read")
    read.chain(eu.read("kept"), eu.count(), eu.collect())
    assert read.go().collected().to_pylist() == [{"count": 3_000_000}]
    scan = eu.Flow("scan")
    scan.chain(eu.scan("kept.parquet"), eu.count(), eu.collect())
    assert scan.go().collected().to_pylist() == [{"count": 3_000_000}]


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_resume_skips_a_folder_that_it_has_saved(mode: str, tmp_path: Path) -> None:
    flow = copying(eu.save_dataset("kept", mode=mode))
    flow.go(resume=True)
    assert flow.go(resume=True).made_before == ["save_dataset_1"]
    assert eu.query(eu.scan("kept")).to_pyarrow().num_rows == ROWS


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_resume_replaces_its_own_folder_and_never_appends_twice(mode: str, tmp_path: Path) -> None:
    flow = copying(eu.save_dataset("kept", mode=mode), eu.save("lost.parquet"))
    flow.go(resume=True)
    (tmp_path / "lost.parquet").unlink()
    if mode == "append":
        with pytest.raises(eu.UsageError, match="appended again"):
            flow.go(resume=True)
    else:
        assert flow.go(resume=True).made_before == []
    assert eu.query(eu.scan("kept")).to_pyarrow().num_rows == ROWS
