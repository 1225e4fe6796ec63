"""Bad input and failures: a clear error, no data lost, no partial output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import euphrates as eu

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))


def flow_file(path: Path, *modules: dict) -> Path:
    named = [{"id": f"m{number}", **module} for number, module in enumerate(modules)]
    queues = [
        {"from": one["id"], "to": other["id"]} for one, other in zip(named, named[1:], strict=False)
    ]
    document = {"euphrates": 1, "name": "test", "modules": named, "queues": queues}
    path.write_text(json.dumps(document))
    return path


def wait_for(happened, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def sort_rows(source, target, **options) -> eu.Report:
    flow = eu.Flow("sort")
    flow.chain(source, eu.sort(["n"]), target)
    return flow.go(**options)


ENDLESS = {"module": "generate", "config": {"what": "records", "rows": 10**11}}
SORT = {"module": "sort", "config": {"by": ["key"]}}


@pytest.mark.parametrize("sink", ["file", "collection"])
def test_kill_9_leaves_no_output_and_next_start_cleans_up(sink: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    save = {"module": "save", "config": {"path": str(tmp_path / "out.dat")}}
    write = {"module": "write", "config": {"collection": "out"}}
    target = save if sink == "file" else write
    document = flow_file(tmp_path / "flow.json", ENDLESS, SORT, target)
    process = subprocess.Popen([EUPHRATES, "run", str(document), "--memory", "64MiB"])
    wait_for(lambda: any(home.rglob("run-*")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out.dat").exists()
    assert any(home.rglob("run-*"))
    listed = subprocess.run([EUPHRATES, "ls"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""
    again = flow_file(
        tmp_path / "again.json",
        {"module": "generate", "config": {"what": "records", "rows": 400_000}},
        SORT,
        {"module": "write", "config": {"collection": "out"}},
    )
    counted = eu.Flow("small")
    counted.chain(eu.generate("integers", rows=1), eu.count(), eu.collect())
    counted.go()
    assert not list((home / "scratch").iterdir()), "the next start removes it"
    subprocess.run([EUPHRATES, "run", str(again), "--memory", "32MiB"], check=True)
    assert not list((home / "scratch").iterdir())
    listed = subprocess.run([EUPHRATES, "ls"], capture_output=True, text=True, check=True)
    assert "400,000 rows" in listed.stdout


def in_small_disk(folder: Path, command: list[str], megabytes: int) -> subprocess.CompletedProcess:
    """Runs a command with `folder` as a disk of that many megabytes."""
    folder.mkdir(exist_ok=True)
    script = f"mount -t tmpfs -o size={megabytes}m tmpfs {folder} && " + (
        '"$@"; code=$?; ls -A ' + str(folder) + "; exit $code"
    )
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *command],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_full_disk_during_output_fails_cleanly(tmp_path: Path) -> None:
    small = tmp_path / "small"
    document = flow_file(
        tmp_path / "flow.json",
        {"module": "generate", "config": {"what": "records", "rows": 100_000}},
        {"module": "save", "config": {"path": str(small / "out.dat")}},
    )
    done = in_small_disk(small, [EUPHRATES, "run", str(document)], 4)
    assert done.returncode == 4, done.stderr
    assert "No space left" in done.stderr and "remedy" in done.stderr and "small" in done.stderr
    assert done.stdout.strip() == "", "nothing is left on the disk"


def test_full_disk_during_spill_is_a_resource_error(tmp_path: Path) -> None:
    small = tmp_path / "small"
    document = flow_file(
        tmp_path / "flow.json",
        {"module": "generate", "config": {"what": "records", "rows": 1_000_000}},
        SORT,
        {"module": "save", "config": {"path": str(tmp_path / "out.dat")}},
    )
    command = [EUPHRATES, "run", str(document), "--memory", "32MiB", "--scratch", str(small)]
    done = in_small_disk(small, command, 8)
    assert done.returncode == 4, done.stderr
    assert "No space left" in done.stderr and "small" in done.stderr
    assert done.stdout.strip() == ""
    assert not (tmp_path / "out.dat").exists()


SPILLING = {
    "sort": [SORT],
    "aggregate": [
        {"module": "aggregate", "config": {"by": ["key"], "values": {"n": "count()"}}},
        {"module": "sort", "config": {"by": ["key"]}},
    ],
}


@pytest.mark.parametrize("modules", SPILLING.values(), ids=SPILLING)
def test_full_scratch_folder_fails_over_to_another(modules: list[dict], tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    document = flow_file(
        tmp_path / "flow.json",
        {"module": "generate", "config": {"what": "records", "rows": 1_000_000}},
        *modules,
        {"module": "count"},
        {"module": "save", "config": {"path": str(tmp_path / "out.csv")}},
    )
    command = [EUPHRATES, "run", str(document), "--memory", "32MiB"]
    command += ["--scratch", str(small), "--scratch", str(large)]
    done = in_small_disk(small, command, 8)
    assert done.returncode == 0, done.stderr
    assert "1000000" in (tmp_path / "out.csv").read_text()
    assert done.stdout.strip() == "" and list(large.iterdir()) == []


def test_error_names_every_full_scratch_folder(tmp_path: Path) -> None:
    small = tmp_path / "small"
    document = flow_file(
        tmp_path / "flow.json",
        {"module": "generate", "config": {"what": "records", "rows": 1_000_000}},
        SORT,
        {"module": "save", "config": {"path": str(tmp_path / "out.dat")}},
    )
    command = [EUPHRATES, "run", str(document), "--memory", "32MiB"]
    command += ["--scratch", str(small / "one"), "--scratch", str(small / "other")]
    done = in_small_disk(small, command, 8)
    assert done.returncode == 4, done.stderr
    assert str(small / "one") in done.stderr and str(small / "other") in done.stderr
    assert "No space left" in done.stderr and "EUPHRATES_SCRATCH" in done.stderr
    assert not (tmp_path / "out.dat").exists()


def test_old_output_survives_a_failed_run(tmp_path: Path) -> None:
    old = pa.table({"n": [1, 2, 3]})
    pa.parquet.write_table(old, tmp_path / "out.parquet")

    def fails(batch: eu.Batch) -> eu.Batch:
        raise ValueError("no luck")

    flow = eu.Flow("fails")
    flow.chain(
        eu.generate("integers", rows=10),
        eu.map(fails, schema=pa.schema({"n": pa.int64()})),
        eu.save(tmp_path / "out.parquet", overwrite=True),
    )
    with pytest.raises(eu.FlowError, match="no luck"):
        flow.go()
    assert pa.parquet.read_table(tmp_path / "out.parquet") == old
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "home") == ["out.parquet"]


def test_file_can_be_sorted_in_place(tmp_path: Path) -> None:
    path = tmp_path / "same.parquet"
    pa.parquet.write_table(pa.table({"n": [3, 1, 2]}), path)
    sort_rows(eu.scan(path), eu.save(path, overwrite=True))
    assert pa.parquet.read_table(path)["n"].to_pylist() == [1, 2, 3]


def test_one_of_two_concurrent_writers_wins() -> None:
    flows: list[eu.Running] = []
    outcomes = []

    def told(happens: Callable[[], object]) -> bool:
        try:
            happens()
        except eu.EuphratesError as error:
            assert "contested" in str(error)
            outcomes.append("lost")
            return True
        return False

    def begin() -> None:
        flow = eu.Flow("write")
        flow.chain(eu.generate("integers", rows=1000), eu.write("contested"))
        flows.append(flow.start())

    # The first writer may win before the second begins.
    told(begin)
    told(begin)
    for running in flows:
        if not told(running.finish):
            outcomes.append("won")
    assert sorted(outcomes) == ["lost", "won"]


def test_mixed_schemas_name_file_and_column(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"n": [1], "m": [1]}), tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"n": [1], "m": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(eu.UsageError) as caught:
        sort_rows(eu.scan(tmp_path / "*.parquet"), eu.collect())
    assert "b.parquet" in str(caught.value) and "`m`" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "kind", "words"),
    [
        ("missing.csv", None, eu.UsageError, ["missing.csv"]),
        ("empty.csv", b"", eu.UsageError, ["empty.csv"]),
        ("empty.parquet", b"", eu.CorruptError, ["empty.parquet"]),
        ("short.dat", b"x" * 150, eu.CorruptError, ["short.dat", "100"]),
        ("bad.csv", b"n,m\n" + b"1,2\n" * 5000 + b"3\n", eu.EuphratesError, ["bad.csv", "5002"]),
        ("bad.jsonl", b'{"n": 1}\n' * 5000 + b"{oops\n", eu.EuphratesError, ["bad.jsonl", "5001"]),
        ("nothing-*.csv", None, eu.UsageError, ["nothing-*.csv"]),
    ],
)
def test_damaged_files_are_named(name: str, content, kind, words, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    flow = eu.Flow("read")
    with pytest.raises(kind) as caught:
        flow.chain(eu.scan(tmp_path / name), eu.collect())
        flow.go()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "folder.csv"
    path.mkdir()
    (path / "x.txt").write_text("x")
    flow = eu.Flow("read")
    flow.chain(eu.scan(path, format="csv"), eu.collect())
    with pytest.raises(eu.UsageError, match=r"folder\.csv"):
        flow.go()


def test_empty_input_gives_empty_output(tmp_path: Path) -> None:
    (tmp_path / "head.csv").write_text("n,m\n")
    sort_rows(eu.scan(tmp_path / "head.csv"), eu.save(tmp_path / "out.parquet"))
    assert pa.parquet.read_table(tmp_path / "out.parquet").num_rows == 0


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(AttributeError, match="did you mean `filter`"):
        eu.fliter("n > 1")
    with pytest.raises(AttributeError, match="did you mean `filter`"):
        eu.modules.fliter("n > 1")
    with pytest.raises(
        TypeError, match=r"eu\.scan\(\) has no option 'colums'; did you mean `columns`"
    ):
        eu.scan("x.csv", colums=["a"])
    with pytest.raises(TypeError, match=r"eu\.scan\(\): missing a required argument"):
        eu.scan()
    flow = eu.Flow("typo")
    with pytest.raises(eu.UsageError, match=r"no option `memry`(.|\n)*`memory`"):
        flow.go(memry=1)
    with pytest.raises(eu.UsageError, match=r"no option `rows`(.|\n)*options: memory, cores"):
        flow.go(rows=1)
    flow.chain(eu.generate("integers", rows=3), eu.sort(["nn"]), eu.collect())
    with pytest.raises(eu.UsageError, match="`n`"):
        flow.go()
    document = json.dumps({
        "euphrates": 1, "name": "x", "modules": [{"id": "a", "module": "filtre"}],
    })  # fmt: skip
    with pytest.raises(eu.UsageError, match="did you mean `filter`"):
        eu.Flow.from_json(document).check()


def test_single_name_is_accepted_for_a_list(collected: Callable[..., eu.Table]) -> None:
    rows = eu.from_arrow(pa.table({"n": [2, 1, 2]}))
    assert collected(rows, eu.sort("n desc")).to_pydict() == {"n": [2, 2, 1]}
    counted = collected(rows, eu.aggregate("n", values={"all": "count()"}), eu.sort("n"))
    assert counted.to_pydict() == {"n": [1, 2], "all": [1, 2]}


def test_memory_stays_within_its_budget(tmp_path: Path) -> None:
    budget = 160 << 20
    document = flow_file(
        tmp_path / "flow.json",
        {"module": "generate", "config": {"what": "records", "rows": 4_000_000}},
        SORT,
        {"module": "save", "config": {"path": str(tmp_path / "out.dat")}},
    )
    # A process's peak includes its parent's memory at the fork: a small parent measures.
    measure = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [EUPHRATES, "run", str(document), "--memory", str(budget)]
    measured = [sys.executable, "-c", measure, *command]
    kibibytes = int(subprocess.run(measured, capture_output=True, check=True).stdout)
    assert kibibytes * 1024 <= budget * 1.1
