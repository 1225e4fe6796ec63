"""Flows with several outputs: all appear or none, after any failure, death or conflict."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
import rig
from commit_checks import (
    EUPHRATES,
    ROWS,
    collection_rows,
    decides,
    hidden,
    needs_syscalls,
    records,
    rows_of,
)
from rig.faults.syscalls import Call
from s3_server import S3Server, s3, s3_session  # noqa: F401

NUMBERS = pa.schema({"n": pa.int64()})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("EUPHRATES_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return home


def flow_to(*sinks: Any, meanwhile: Callable[[], object] | None = None) -> eu.Flow:
    """Sends integers to each of these sinks; `meanwhile` runs during the flow."""
    flow = eu.Flow("several")
    source, tee = flow.place(eu.generate("integers", rows=ROWS)), flow.place(eu.tee())
    if meanwhile is None:
        flow.attach(source, tee)
    else:

        def happens(batch: eu.Batch) -> eu.Batch:
            meanwhile()
            return batch

        happening = flow.place(eu.map(happens, schema=NUMBERS), count=1)
        flow.chain(source, happening, tee)
    for sink in sinks:
        flow.attach(tee, flow.place(sink))
    return flow


CLUSTERS = [None, "processes:2"]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_several_outputs_are_published_cleanly(
    cluster: str | None, home: Path, tmp_path: Path
) -> None:
    flow_to(eu.save("a.parquet"), eu.save("b.csv"), eu.write("c")).go(cluster=cluster)
    assert rows_of(tmp_path / "a.parquet") == ROWS and collection_rows("c") == ROWS
    assert len((tmp_path / "b.csv").read_text().splitlines()) == ROWS + 1
    assert hidden(tmp_path) == [] and records(home) == []


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_concurrently_created_file_rejects_all_outputs(
    cluster: str | None, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "z.parquet"
    flow = flow_to(
        eu.save("a.parquet"),
        eu.write("c"),
        eu.save(str(other)),
        meanwhile=lambda: Path(str(other)).write_text("somebody else's"),
    )
    with pytest.raises(eu.FlowError, match=r"module save_2: .*z\.parquet has appeared") as caught:
        flow.go(cluster=cluster)
    assert not isinstance(caught.value, eu.UsageError)
    assert other.read_text() == "somebody else's"
    assert not (tmp_path / "a.parquet").exists() and collection_rows("c") is None
    assert hidden(tmp_path) == [] and records(home) == []


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_concurrently_created_collection_rejects_all_outputs(
    cluster: str | None, home: Path, tmp_path: Path
) -> None:
    environment = dict(os.environ)
    (tmp_path / "c.json").write_text(one_output("c"))

    def write() -> None:
        command = [EUPHRATES, "run", str(tmp_path / "c.json")]
        subprocess.run(command, env=environment, check=True, capture_output=True)

    flow = flow_to(eu.save("a.parquet"), eu.write("b"), eu.write("c"), meanwhile=write)
    with pytest.raises(eu.FlowError, match=r"module write_2: another writer .*`c`"):
        flow.go(cluster=cluster)
    assert collection_rows("c") == 10
    assert not (tmp_path / "a.parquet").exists() and collection_rows("b") is None
    assert hidden(tmp_path) == [] and records(home) == []


def one_output(collection: str) -> str:
    flow = eu.Flow("other")
    flow.chain(eu.generate("integers", rows=10), eu.write(collection))
    return flow.to_json()


def test_home_without_commit_records_is_rejected_before_the_run(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (home / "commits").write_text("in the way")
    with pytest.raises(eu.EuphratesError, match="commit records"):
        flow_to(eu.save("a.csv"), eu.save("b.csv")).go()
    assert hidden(tmp_path) == [] and not (tmp_path / "a.csv").exists()
    flow = eu.Flow("one")
    flow.chain(eu.generate("integers", rows=10), eu.save("a.csv"))
    flow.go()
    assert hidden(tmp_path) == [] and (tmp_path / "a.csv").exists()


def test_source_deleted_during_the_run_is_a_flow_error(tmp_path: Path) -> None:
    # The first batch overflows the queue, so the second source opens after the function's call.
    for name, rows in (("a", 5_000_000), ("b", 1000)):
        pq.write_table(pa.table({"n": pa.array(range(rows))}), tmp_path / f"{name}.parquet")

    def delete(batch: eu.Batch) -> eu.Batch:
        (tmp_path / "b.parquet").unlink(missing_ok=True)
        return batch

    flow = eu.Flow("deleted")
    files = [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    source = flow.place(eu.scan(files), count=1)
    out = eu.save(str(tmp_path / "out.csv"))
    flow.chain(source, flow.place(eu.map(delete, schema=NUMBERS), count=1), out)
    with pytest.raises(eu.FlowError, match=r"scan_1.*b\.parquet") as caught:
        flow.go(memory="64MiB")
    assert not isinstance(caught.value, eu.UsageError)
    assert not (tmp_path / "out.csv").exists()


def document(tmp_path: Path, *sinks: Any) -> list[str]:
    (tmp_path / "flow.json").write_text(flow_to(*sinks).to_json())
    return [EUPHRATES, "run", str(tmp_path / "flow.json")]


@needs_syscalls
@pytest.mark.parametrize("action", ["kill-before", "kill-after"])
def test_kill_publishes_objects_files_and_collections_atomically(
    action: str,
    s3: S3Server,  # noqa: F811
    home: Path,
    tmp_path: Path,
) -> None:
    flow = eu.Flow("several")
    source, tee = flow.place(eu.generate("records", rows=20_000)), flow.place(eu.tee())
    flow.attach(source, tee)
    for target in (eu.save("a.dat"), eu.save(s3.url("large.dat")), eu.write("c")):
        flow.attach(tee, flow.place(target))
    few = flow.place(eu.limit(10))
    flow.attach(tee, few)
    flow.attach(few, flow.place(eu.save(s3.url("small.dat"))))
    (tmp_path / "flow.json").write_text(flow.to_json())
    with rig.Syscalls([home]) as syscalls:
        command = [EUPHRATES, "run", str(tmp_path / "flow.json")]
        syscalls.run(command, lambda call: action if decides(call) else "pass")
    assert s3.keys() == [] and not (tmp_path / "a.dat").exists()
    subprocess.run([EUPHRATES, "gc"], check=True)
    is_new = action == "kill-after"
    assert s3.keys() == (["large.dat", "small.dat"] if is_new else [])
    assert (tmp_path / "a.dat").exists() == is_new
    assert collection_rows("c") == (20_000 if is_new else None)
    if is_new:
        assert len(s3.get("large.dat")) == 2_000_000 and len(s3.get("small.dat")) == 1_000
        assert s3.unfinished() == []
    assert hidden(tmp_path) == [] and records(home) == []


@needs_syscalls
def test_other_starts_keep_outputs_of_a_live_flow(home: Path, tmp_path: Path) -> None:
    command = document(tmp_path, eu.save("a.parquet"), eu.write("b"), eu.write("c"))
    before: list[list[str]] = []

    def collect_meanwhile(call: Call) -> str:
        # The flow is stopped at this call until the function returns.
        if any("commits" in path or "euphrates-" in path for path in call.paths):
            listed = sorted(str(path) for path in tmp_path.rglob("*"))
            subprocess.run([EUPHRATES, "gc", str(tmp_path)], check=True, capture_output=True)
            assert sorted(str(path) for path in tmp_path.rglob("*")) == listed
            before.append(listed)
        return "pass"

    with rig.Syscalls([tmp_path]) as syscalls:
        run = syscalls.run(command, collect_meanwhile)
    assert run.returncode == 0, run.stderr
    assert len(before) > 5
    assert rows_of(tmp_path / "a.parquet") == collection_rows("b") == collection_rows("c") == ROWS
    assert hidden(tmp_path) == [] and records(home) == []


@needs_syscalls
def test_resume_after_a_kill_between_outputs_is_complete(home: Path, tmp_path: Path) -> None:
    command = [*document(tmp_path, eu.save("a.parquet"), eu.write("c")), "--resume"]

    def shows(call: rig.Call) -> bool:
        return call.kind == "rename" and call.paths[-1].endswith("a.parquet")

    with rig.Syscalls([tmp_path]) as syscalls:
        syscalls.run(command, lambda call: "kill-after" if shows(call) else "pass")
    assert (tmp_path / "a.parquet").exists()
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and "nothing was left to do" in again.stderr, again.stderr
    assert collection_rows("c") == ROWS and records(home) == []


def is_sync_after(name: str) -> Callable[[Call], bool]:
    """The first sync of a folder after a file was renamed into it."""
    seen: list[Call] = []

    def asked(call: Call) -> bool:
        seen.append(call)
        renames = (one.kind == "rename" and one.paths[-1].endswith(name) for one in seen)
        renamed = next((at for at, is_it in enumerate(renames) if is_it), len(seen))
        syncs = [one for one in seen[renamed:] if one.kind == "fsync"]
        return syncs[:1] == [call]

    return asked


@needs_syscalls
@pytest.mark.parametrize("several", [False, True])
def test_visible_unsynced_output_is_reported(several: bool, home: Path, tmp_path: Path) -> None:
    if several:
        command = document(tmp_path, eu.save("a.parquet"), eu.write("c"))
    else:
        command = document_of_one(tmp_path)
    is_hit = is_sync_after("a.parquet")
    with rig.Syscalls([tmp_path]) as syscalls:
        run = syscalls.run(command, lambda call: "EIO" if is_hit(call) else "pass")
    assert run.returncode == 4, run.stderr
    assert "a.parquet is complete and visible, but may not survive" in run.stderr
    assert rows_of(tmp_path / "a.parquet") == ROWS
    assert bool(records(home)) == several, "the next start syncs once more"
    assert collection_rows("c") == (ROWS if several else None)
    subprocess.run([EUPHRATES, "gc", str(tmp_path)], check=True)
    assert records(home) == [] and hidden(tmp_path) == []


def document_of_one(folder: Path) -> list[str]:
    flow = eu.Flow("one")
    flow.chain(eu.generate("integers", rows=ROWS), eu.save("a.parquet"))
    (folder / "flow.json").write_text(flow.to_json())
    return [EUPHRATES, "run", str(folder / "flow.json")]


@needs_syscalls
@pytest.mark.parametrize("several", [False, True])
def test_unsyncable_folder_is_detected_before_publishing(
    several: bool, home: Path, tmp_path: Path
) -> None:
    outputs = eu.save("a.parquet"), eu.write("c")
    command = document(tmp_path, *outputs) if several else document_of_one(tmp_path)
    folder = str(tmp_path.resolve())
    fails = lambda call: call.kind == "fsync" and call.paths[0] == folder  # noqa: E731
    with rig.Syscalls([tmp_path]) as syscalls:
        run = syscalls.run(command, lambda call: "EIO" if fails(call) else "pass")
    assert run.returncode == 4, run.stderr
    assert not (tmp_path / "a.parquet").exists() and collection_rows("c") is None
    assert hidden(tmp_path) == [] and records(home) == []


@needs_syscalls
def test_unpublishable_output_aborts_the_commit(home: Path, tmp_path: Path) -> None:
    command = document(tmp_path, eu.save("a.parquet"), eu.write("c"))

    def fails(call: rig.Call) -> bool:
        return call.kind == "rename" and call.paths[-1].endswith("a.parquet")

    with rig.Syscalls([tmp_path]) as syscalls:
        run = syscalls.run(command, lambda call: "EIO" if fails(call) else "pass")
    assert run.returncode == 4 and "module save_1" in run.stderr, run.stderr
    assert not (tmp_path / "a.parquet").exists() and collection_rows("c") is None
    assert hidden(tmp_path) == [] and records(home) == []


KILLS = None if os.environ.get("EUPHRATES_TORTURE") else 7
"""The number of kill points, evenly spread over a run; a torture run tries all."""


@needs_syscalls
@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_kill_at_any_system_call_is_atomic(
    cluster: str | None, replaces: bool, home: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    kept = tmp_path / "kept"

    def command(rows: int) -> list[str]:
        flow = eu.Flow("several")
        source, tee = flow.place(eu.generate("integers", rows=rows)), flow.place(eu.tee())
        flow.attach(source, tee)
        files = [out / "a.parquet", out / "b.parquet"]
        for sink in [eu.save(str(file), overwrite=replaces) for file in files]:
            flow.attach(tee, flow.place(sink))
        flow.attach(tee, flow.place(eu.write("c", overwrite=replaces)))
        (tmp_path / "flow.json").write_text(flow.to_json())
        on = ["--cluster", cluster] if cluster else []
        return [EUPHRATES, "run", str(tmp_path / "flow.json"), *on]

    def reset() -> None:
        for folder in (home, out):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(kept / folder.name, folder, symlinks=True)

    def state() -> set[int | None]:
        # Reading the collection counts as the next start.
        found = {collection_rows("c")}
        files = [out / name for name in ("a.parquet", "b.parquet")]
        return found | {rows_of(file) if file.exists() else None for file in files}

    out.mkdir()
    home.mkdir()
    if replaces:
        subprocess.run(command(10), check=True, capture_output=True)
    shutil.copytree(home, kept / "home", symlinks=True)
    shutil.copytree(out, kept / "out")
    old, new = {10 if replaces else None}, {ROWS}
    words = command(ROWS)
    with rig.Syscalls([home, out]) as syscalls:
        calls = syscalls.run(words).calls
        assert state() == new
        begin = next(call.number for call in calls if call.kind == "rename")
        points = range(begin, len(calls) + 1)
        step = len(points) // KILLS if KILLS else 1
        for point in points[::step]:
            reset()
            run = syscalls.run(words, rig.Fault("any", point, "kill-before"))
            assert state() in (old, new), run
            subprocess.run([EUPHRATES, "gc", str(out)], check=True, capture_output=True)
            assert hidden(out) == records(home) == [], run
