"""A resumed flow adopts the complete files of its earlier attempts, and computes the rest."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cluster_harness
import euphrates as eu
import functions
from cluster_harness import wait_for

GROUPS = 120
GROUP_ROWS = 500
CONDITION = "n % 7 <> 3"
EXPECTED = [(n, n * 2) for n in range(GROUPS * GROUP_ROWS) if n % 7 != 3]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / "home"))
    write_input(tmp_path, 0)


def write_input(folder: Path, first: int) -> None:
    """A file of many row groups, each of which is a unit."""
    table = pa.table({"n": range(first, first + GROUPS * GROUP_ROWS)})
    pq.write_table(table, folder / "in.parquet", row_group_size=GROUP_ROWS)


def cleaning(file_bytes: int = 4_000, **options: object) -> eu.Flow:
    flow = eu.Flow("clean")
    flow.chain(
        eu.scan("in.parquet"),
        eu.filter(CONDITION),
        eu.map(functions.pausing),
        eu.project(["n", "n * 2 as twice"]),
        eu.save_dataset("out", file_bytes=file_bytes, **options),
    )
    return flow


def journals(folder: Path) -> list[Path]:
    return sorted(folder.glob(".out.*.euphrates-units"))


def files_noted(folder: Path) -> int:
    count = 0
    for path in journals(folder):
        # It is removed when the flow has ended well.
        with contextlib.suppress(FileNotFoundError):
            count += max(0, len(path.read_text().splitlines()) - 1)
    return count


def started(folder: Path, flow: eu.Flow) -> subprocess.Popen[bytes]:
    (folder / "flow.json").write_text(flow.to_json())
    command = [sys.executable, "-m", "euphrates", "run", "flow.json", "--resume"]
    environment = {**os.environ, "PYTHONPATH": cluster_harness.with_tests()}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def killed(folder: Path, flow: eu.Flow, after_files: int) -> bool:
    """Runs the flow, and kills it when this many files more are complete; whether it was killed."""
    before = files_noted(folder)
    process = started(folder, flow)
    wait_for(
        lambda: files_noted(folder) >= before + after_files or process.poll() is not None,
        "files are complete",
    )
    process.kill()
    return process.wait() == -signal.SIGKILL


def rows_read(report: eu.Report) -> int:
    return next(module.rows_out for module in report.modules if module.id == "scan_1")


def saved(folder: Path) -> list[tuple[int, int]]:
    table = pq.read_table(folder / "out").to_pydict()
    return sorted(zip(table["n"], table["twice"], strict=True))


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_killed_flow_continues_from_its_completed_units(tmp_path: Path) -> None:
    assert killed(tmp_path, cleaning(), after_files=8)
    assert not (tmp_path / "out").exists()
    kept = files_noted(tmp_path)
    report = cleaning().go(resume=True)
    assert saved(tmp_path) == EXPECTED and left_behind(tmp_path) == []
    assert 0 < rows_read(report) < GROUPS * GROUP_ROWS
    (told,) = report.losses
    assert told.startswith(f"{kept} files of earlier attempts, with ") and told in str(report)
    assert cleaning().go(resume=True).made_before == ["save_dataset_1"]


def test_flow_killed_at_any_moments_saves_every_row_once(tmp_path: Path) -> None:
    # By the size of a file: about an eighth of how many there are.
    for seed, (file_bytes, files) in enumerate({4_000: 26, 6_000: 7, 12_000: 3}.items()):
        rng = random.Random(seed)
        flow = cleaning(file_bytes, mode="overwrite")
        deaths = 0
        while killed(tmp_path, flow, after_files=rng.randrange(1, 2 * files)):
            deaths += 1
        # It may have been killed between the publication and the removal of what is left.
        flow.go(resume=True)
        assert saved(tmp_path) == EXPECTED, f"seed {seed}"
        assert left_behind(tmp_path) == [], f"seed {seed}"
        assert deaths > 1, f"seed {seed}"
        (tmp_path / "out" / "of another program.txt").touch()


@pytest.mark.parametrize("damage", ["line", "header", "missing", "longer", "replaced"])
def test_damaged_files_of_earlier_attempts_are_computed_again(damage: str, tmp_path: Path) -> None:
    assert killed(tmp_path, cleaning(), after_files=8)
    (journal,) = journals(tmp_path)
    lines = journal.read_text().splitlines(keepends=True)
    file = tmp_path / journal.with_suffix(".euphrates-part") / json.loads(lines[3])["file"]["path"]
    if damage == "line":
        journal.write_text("".join(lines[:4]) + lines[4][:-5])
    elif damage == "header":
        journal.write_text("\n" + "".join(lines))
    elif damage == "missing":
        file.unlink()
    elif damage == "longer":
        file.write_bytes(file.read_bytes() + b"\0")
    else:
        contents = file.read_bytes()
        file.rename(tmp_path / "elsewhere")
        file.write_bytes(contents)
    cleaning().go(resume=True)
    assert saved(tmp_path) == EXPECTED and left_behind(tmp_path) == []


def test_files_of_another_input_are_not_adopted(tmp_path: Path) -> None:
    assert killed(tmp_path, cleaning(), after_files=8)
    write_input(tmp_path, 1_000_000)
    report = cleaning().go(resume=True)
    assert rows_read(report) > 0 and report.losses == []
    numbers = range(1_000_000, 1_000_000 + GROUPS * GROUP_ROWS)
    assert saved(tmp_path) == [(n, n * 2) for n in numbers if n % 7 != 3]
    assert left_behind(tmp_path) == []


def test_files_of_another_flow_are_not_adopted(tmp_path: Path) -> None:
    assert killed(tmp_path, cleaning(), after_files=8)
    cleaning(compression="none").go(resume=True)
    assert saved(tmp_path) == EXPECTED and left_behind(tmp_path) == []


def test_flow_without_resume_begins_from_the_start(tmp_path: Path) -> None:
    assert killed(tmp_path, cleaning(), after_files=8)
    report = cleaning().go()
    assert report.losses == []
    assert saved(tmp_path) == EXPECTED and left_behind(tmp_path) == []


def test_flows_to_other_folders_spare_the_files_and_gc_removes_them(tmp_path: Path) -> None:
    assert killed(tmp_path, cleaning(), after_files=8)
    kept = left_behind(tmp_path)
    for other in (eu.save_dataset("other"), eu.save("other.parquet"), eu.save_dataset("out.2024")):
        flow = eu.Flow("other")
        flow.chain(eu.scan("in.parquet"), other)
        flow.go()
    assert sorted(left_behind(tmp_path)) == sorted(kept)
    removed = subprocess.run(
        [sys.executable, "-m", "euphrates", "gc", "."], capture_output=True, text=True, check=True
    )
    assert "1 files in the making" in removed.stdout
    assert left_behind(tmp_path) == []


def test_interrupted_flow_continues_and_one_without_complete_files_leaves_nothing(
    tmp_path: Path,
) -> None:
    process = started(tmp_path, cleaning())
    wait_for(lambda: files_noted(tmp_path) >= 8, "files are complete")
    process.send_signal(signal.SIGINT)
    process.wait()
    assert files_noted(tmp_path) >= 8
    report = cleaning().go(resume=True)
    assert saved(tmp_path) == EXPECTED and rows_read(report) < GROUPS * GROUP_ROWS
    flow = eu.Flow("fails")
    flow.chain(eu.scan("in.parquet"), eu.project(["1 / (n - 5) as q"]), eu.save_dataset("fails"))
    with pytest.raises(eu.FlowError, match="Divide by zero"):
        flow.go(resume=True)
    assert left_behind(tmp_path) == []


def test_flow_that_could_not_publish_reads_nothing_again(tmp_path: Path) -> None:
    running = cleaning().start(resume=True)
    wait_for(lambda: files_noted(tmp_path) >= 8, "files are complete")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "of another program.parquet").touch()
    with pytest.raises(eu.EuphratesError, match=r"not empty|changed while the flow ran"):
        running.finish()
    shutil.rmtree(tmp_path / "out")
    report = cleaning().go(resume=True)
    assert saved(tmp_path) == EXPECTED and left_behind(tmp_path) == []
    assert rows_read(report) == 0


def test_lost_worker_costs_only_units_that_were_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", cluster_harness.with_tests())
    with eu.Cluster.processes(3) as cluster:
        running = cleaning().start(cluster=cluster, resume=True)
        wait_for(lambda: files_noted(tmp_path) >= 20, "files are complete")
        os.kill(cluster_harness.workers_of(os.getpid())["w1"], signal.SIGKILL)
        report = running.finish()
    assert report.restarts["failed_attempts"] == 1
    assert "files of earlier attempts, with " in str(report.losses)
    assert saved(tmp_path) == EXPECTED and left_behind(tmp_path) == []
    assert rows_read(report) < GROUPS * GROUP_ROWS, "of the last attempt"


@pytest.mark.parametrize("modules", ["sort", "partition", "two sinks"])
def test_flows_that_do_not_work_by_units_resume_as_a_whole(modules: str, tmp_path: Path) -> None:
    flow = eu.Flow("whole")
    source, sink = eu.scan("in.parquet"), eu.save_dataset("out")
    if modules == "sort":
        flow.chain(source, eu.sort(["n"]), sink)
    elif modules == "partition":
        flow.chain(
            source, eu.project(["n", "n % 3 as m"]), eu.save_dataset("out", partition_by=["m"])
        )
    else:
        tee = flow.place(eu.tee())
        flow.chain(source, tee, sink)
        flow.attach(tee, flow.place(eu.save("second.parquet")))
    flow.go(resume=True)
    assert pq.read_table(tmp_path / "out").num_rows == GROUPS * GROUP_ROWS
    assert left_behind(tmp_path) == []
