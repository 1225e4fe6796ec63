"""The command line, end to end."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import euphrates as eu

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))


@pytest.fixture
def run(tmp_path: Path):
    def runner(*arguments: object, code: int = 0, **options) -> subprocess.CompletedProcess:
        environment = {**os.environ, "EUPHRATES_HOME": str(tmp_path / "home")}
        command = [EUPHRATES, *(str(argument) for argument in arguments)]
        options = {"text": True, "timeout": 120, **options}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, **options
        )
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return runner


@pytest.mark.parametrize(
    ("options", "records", "checksum"),
    [
        ([], 5000, "9b91b450ebc"),
        (["-a"], 5000, "9cd3d5adb67"),
        (["-s"], 5000, "9af2661b1da"),
        (["-a", "-s"], 5000, "9bda2a78512"),
        (["-b2000"], 1000, "1f3bc308515"),
    ],
)
def test_gensort_makes_the_published_records(run, options, records, checksum) -> None:
    assert run("gensort", "-c", *options, records, "x").stderr.strip() == checksum


def test_gensort_takes_the_file_options_of_version_1_5(run, tmp_path: Path) -> None:
    run("gensort", "-t2", 100, "x,buf")
    assert (tmp_path / "x").stat().st_size == 10_000


def test_sorted_records_pass_valsort(run, tmp_path: Path) -> None:
    run("gensort", 100_000, "in.dat")
    unsorted = run("valsort", "in.dat", code=1).stderr
    assert unsorted.startswith("First unordered record is record 2\n")
    assert "ERROR - there are " in unsorted
    run("sort", "in.dat", "-o", "out.dat", "--memory", "16MiB")
    told = run("valsort", "out.dat").stderr.splitlines()
    assert told[0] == "Records: 100000"
    assert told[1] == run("valsort", "in.dat", code=1).stderr.splitlines()[2]
    assert told[2:] == ["Duplicate keys: 0", "SUCCESS - all records are in order"]
    assert run("valsort", "-q", "out.dat").stderr == ""


def test_valsort_combines_summaries_of_parts(run, tmp_path: Path) -> None:
    run("gensort", 2000, "in.dat")
    run("sort", "in.dat", "-o", "out.dat")
    whole = (tmp_path / "out.dat").read_bytes()
    (tmp_path / "a").write_bytes(whole[:70_000])
    (tmp_path / "b").write_bytes(whole[70_000:])
    run("valsort", "-o", "a.sum", "a")
    run("valsort", "-o", "b.sum", "b")
    sums = (tmp_path / "a.sum").read_bytes() + (tmp_path / "b.sum").read_bytes()
    assert len(sums) == 2 * 280
    (tmp_path / "all.sum").write_bytes(sums)
    assert run("valsort", "-s", "all.sum").stderr == run("valsort", "out.dat").stderr


def test_text_lines_are_sorted_like_gnu_sort(run, tmp_path: Path) -> None:
    lines = [hashlib.md5(str(n).encode()).hexdigest()[: n % 30] for n in range(20_000)]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    run("sort", "in.txt", "-o", "out.txt")
    expected = subprocess.run(
        ["sort", "in.txt"], cwd=tmp_path, env={"LC_ALL": "C"}, capture_output=True, check=True
    ).stdout
    assert (tmp_path / "out.txt").read_bytes() == expected


def test_existing_output_is_rejected_and_unchanged(run, tmp_path: Path) -> None:
    run("gensort", 100, "in.dat")
    (tmp_path / "out.dat").write_text("precious")
    refused = run("sort", "in.dat", "-o", "out.dat", code=2).stderr
    assert "exists already" in refused and "remedy" in refused
    assert (tmp_path / "out.dat").read_text() == "precious"
    run("sort", "in.dat", "-o", "out.dat", "--overwrite")
    assert (tmp_path / "out.dat").stat().st_size == 10_000


def test_usage_errors_have_a_remedy(run, tmp_path: Path) -> None:
    assert "--by" in run("sort", "x.parquet", "-o", "y.parquet", code=2).stderr
    missing = run("sort", "no.parquet", "-o", "y.parquet", "--by", "a", code=2).stderr
    assert "no such file" in missing
    (tmp_path / "a.csv").write_text("k,v\n1,2\n")
    wrong = run("sort", "a.csv", "-o", "b.csv", "--by", "prize", code=2).stderr
    assert "module sort_1: no column named `prize`" in wrong
    assert "try 512MiB" in run("sort", "a.csv", "-o", "b.csv", "--memory", "lots", code=2).stderr
    run("sorte", code=2)


def test_commands_that_read_tables_take_format_options(run, tmp_path: Path) -> None:
    (tmp_path / "towns").write_text('zip;"a,b";name=\n01067;2;Dresden\n10115;1;Berlin\n')
    (tmp_path / "sold.csv").write_text("zip;n\n01067;5\n01067;7\n")
    how = ("--format", "csv", "--delimiter", ";", "--types", "zip=string")
    run("sort", "towns", "-o", "sorted.jsonl", "--by", '"a,b" desc', *how)
    rows = [json.loads(line) for line in (tmp_path / "sorted.jsonl").open()]
    assert [row["zip"] for row in rows] == ["01067", "10115"]
    both = ("--left-types", "zip=string", "--right-types", "zip=string", *how[:4])
    run("join", "sold.csv", "towns", "-o", "joined", "--on", "zip", "--output-format", "csv", *both)
    joined = (tmp_path / "joined").read_text().splitlines()
    assert sorted(joined[1:]) == ["01067,5,2,Dresden", "01067,7,2,Dresden"]
    by = ("--by", 'zip, "a,b"', "--value", '"n="=count()')
    run("aggregate", "towns", "-o", "grouped.jsonl", *by, *how)
    groups = [json.loads(line) for line in (tmp_path / "grouped.jsonl").open()]
    assert {"zip": "01067", "a,b": 2, "n=": 1} in groups and len(groups) == 2
    (tmp_path / "magic.csv").write_bytes(b"BZh91\nb\na\n")
    run("sort", "magic.csv", "-o", "plain.csv", "--by", "BZh91", "--compression", "none")
    assert (tmp_path / "plain.csv").read_text() == "BZh91\na\nb\n"


@pytest.mark.parametrize(
    "words",
    [
        ("sort", "a.csv", "-o", "b.csv", "--by", "k"),
        ("join", "a.csv", "a.csv", "-o", "b.csv", "--on", "k"),
        ("aggregate", "a.csv", "-o", "b.csv", "--by", "k", "--value", "n=count()"),
    ],
)
def test_printed_flow_is_equivalent_to_the_command(
    run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "a.csv").write_text("k,v\n2,x\n1,y\n")
    (tmp_path / "flow.json").write_text(run(*words, "--print").stdout)
    assert not (tmp_path / "b.csv").exists()
    run("run", "flow.json")
    by_flow = (tmp_path / "b.csv").read_text()
    run(*words, "--overwrite")
    assert sorted(by_flow.splitlines()) == sorted((tmp_path / "b.csv").read_text().splitlines())


def test_collection_lifecycle_from_copy_in_to_rm(run, tmp_path: Path) -> None:
    data = "".join(f"{n},{'x' * (n % 7)}\n" for n in range(5000))
    run("copy-in", "in.1", "--format", "csv", input="n,text\n" + data)
    run("sort", "@in.1", "-o", "@out.1", "--by", "n desc")
    listed = json.loads(run("ls", "--json").stdout)
    assert [(one["name"], one["rows"]) for one in listed] == [("in.1", 5000), ("out.1", 5000)]
    assert "5,000 rows" in run("describe", "out.1").stdout
    assert "sound" in run("verify", "in.1", "out.1").stderr
    lines = run("copy-out", "out.1", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(4999, -1, -1))
    run("rm", "in.1", "out.1")
    assert run("ls").stdout == ""
    run("describe", "in.1", code=2)


def test_damaged_collection_exits_with_code_3(run, tmp_path: Path) -> None:
    run("copy-in", "in.1", "--format", "lines", input="some\ntext\n" * 1000)
    segment = max((tmp_path / "home").rglob("*.arrow"), key=lambda path: path.stat().st_size)
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.write_bytes(damaged)
    assert "DAMAGED" in run("verify", "in.1", code=3).stderr
    run("copy-out", "in.1", "--format", "lines", code=3)


FLOW = {
    "euphrates": 1,
    "name": "numbers",
    "variables": {"rows": {"default": 10}},
    "modules": [
        {"id": "a", "module": "generate", "config": {"what": "integers", "rows": {"$var": "rows"}}},
        {"id": "b", "module": "sort", "config": {"by": ["n desc"]}},
        {"id": "c", "module": "copy_out", "config": {"format": "csv"}},
    ],
    "queues": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}],
}


def test_flow_document_runs_checks_draws_and_generates_code(run, tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text(json.dumps(FLOW))
    assert run("run", "flow.json", "-p", "rows=3").stdout.split() == ["n", "2", "1", "0"]
    assert "sound" in run("check", "flow.json").stdout
    for form, word in [("mermaid", "flowchart"), ("dot", "digraph"), ("svg", "<svg")]:
        assert word in run("show", "flow.json", "--as", form).stdout
    assert json.loads(run("show", "--schema").stdout)["properties"]["modules"]
    (tmp_path / "flow.py").write_text(run("code", "flow.json").stdout)
    again = json.loads(run("show", "flow.py", "--as", "json").stdout)
    assert again["modules"] == FLOW["modules"] and again["queues"] == FLOW["queues"]
    assert run("run", "flow.py", "-p", "rows=2").stdout.split() == ["n", "1", "0"]
    assert "no variable named `row`" in run("run", "flow.json", "-p", "row=2", code=2).stderr


def test_modules_and_doctor_commands(run) -> None:
    assert "sort" in run("modules").stdout
    assert "by (required)" in run("modules", "sort").stdout
    assert "did you mean `filter`" in run("modules", "filtre", code=2).stderr
    measured = run("doctor").stdout
    for what in ("cores ", "memory ", "home ", "scratch ", "connections "):
        assert what in measured
    assert measured.rstrip().endswith("Nothing to change.") or "\n- " in measured


def test_outdated_spellings_work_and_warn(run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k\n2\n1\n")
    told = run("sort", "a.csv", "b.csv", "--by", "k", "-t", "1").stderr
    assert "write -o b.csv" in told and "write --cores" in told
    told = run("aggregate", "a.csv", "c.csv", "--value", "n=count()").stderr
    assert "write -o c.csv" in told
    assert (tmp_path / "b.csv").read_text() == "k\n1\n2\n"
    assert (tmp_path / "c.csv").read_text() == "n\n2\n"
    quiet = run("--log", "quiet", "sort", "a.csv", "d.csv", "--by", "k").stderr
    assert quiet == ""
    assert "-o sorted.csv" in run("sort", "a.csv", "--by", "k", code=2).stderr
    words = ("sort", "a.csv", "-o", "e.csv", "--by", "k", "--cores", "1")
    assert "outdated" not in run(*words).stderr


def test_the_demo_sorts_queries_and_names_the_slow_way(run, tmp_path: Path) -> None:
    shown = run("demo", "--small").stdout
    assert "checked: 100,000 records are in order" in shown
    assert "7 rows in " in shown and "given to whoever is free" in shown
    assert not [path for path in tmp_path.iterdir() if path.name != "home"]


def test_bash_completes_commands(run) -> None:
    script = run("completion", "bash").stdout
    ask = "COMP_WORDS=(euphrates so); COMP_CWORD=1; _euphrates euphrates so euphrates"
    program = f'{script}\n{ask}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["sort"], done.stderr
    assert "completion" in run("completion", "zsh").stdout


def test_progress_and_report_as_json_lines(run) -> None:
    run("gensort", 200_000, "in.dat")
    told = run("--log", "json", "sort", "in.dat", "-o", "out.dat").stderr.splitlines()
    events = [json.loads(line) for line in told]
    assert events[-1]["event"] == "report"
    assert events[-1]["report"]["modules"][0]["rows_out"] == 200_000


def test_ctrl_c_ends_within_two_seconds_and_cleans_up(tmp_path: Path) -> None:
    environment = {**os.environ, "EUPHRATES_HOME": str(tmp_path / "home")}
    endless = {**FLOW, "variables": {}, "modules": [
        {"id": "a", "module": "generate", "config": {"what": "records", "rows": 10**11}},
        {"id": "b", "module": "sort", "config": {"by": ["key"]}},
        {"id": "c", "module": "save", "config": {"path": str(tmp_path / "out.dat")}},
    ]}  # fmt: skip
    (tmp_path / "flow.json").write_text(json.dumps(endless))
    process = subprocess.Popen(
        [EUPHRATES, "run", "flow.json", "--memory", "64MiB"],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not list((tmp_path / "home").rglob("run-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flow.json", "home"]
    assert not list((tmp_path / "home" / "scratch").iterdir())


def test_perturb_option_slows_the_flow(run, tmp_path: Path) -> None:
    flow = eu.Flow("filter")
    flow.chain(
        eu.generate("integers", rows=100_000),
        flow.place(eu.filter("n % 7 = 3"), count=2),
        eu.count(),
        eu.collect(),
    )
    flow.save(tmp_path / "flow.json")
    words = ["--slow", "filter_1.1=50%@0+5~9", "--slow", "filter_1=2x", "--hog", "1MB"]
    done = run("perturb", "flow.json", *words, "--pause", "count_1.0@0+0.1")
    assert "14286" in done.stdout
    assert "perturbed: filter_1.1: 50 % of its speed taken, from 0 s, for 5 s, every 9 s" in (
        done.stderr
    )
    assert "perturbed: memory: 1MB held" in done.stderr
    listed = [{"module": "filter_1", "share": 0.5}]
    (tmp_path / "list.json").write_text(json.dumps(listed))
    done = run("--log", "json", "perturb", "flow.json", "--from", "list.json")
    report = json.loads(done.stderr.splitlines()[-1])["report"]
    assert report["perturbations"] == listed
    assert "instances" in report and report["slow"] == []
    for wrong, says in [
        (["--slow", "fliter_1=4x"], "no instance named"),
        (["--slow", "filter_1"], "no value"),
        (["--slow", "filter_1=fast"], "no share"),
        (["--pause", "filter_1"], "how many seconds"),
        (["--disk", "d1=5MB/s"], "no disk named `d1`"),
        ([], "nothing is perturbed"),
    ]:
        assert says in run("perturb", "flow.json", *wrong, code=2).stderr
    assert json.loads(run("perturb", "--schema").stdout)["type"] == "array"


def test_error_names_the_failing_row(run, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("v\n1\n9223372036854775807\n")
    words = ["aggregate", "v.csv", "-o", "sum.csv", "--value", "s=sum(v+1)"]
    assert "\n  row: row 1 of" in run(*words, code=1).stderr
    told = json.loads(run("--log", "json", *words, code=1).stderr.splitlines()[-1])
    assert told["error"]["row"].startswith("row 1 of") and "9223372036854775807" in str(told)


def test_gc_rejects_a_non_folder_and_token_keeps_existing_files(run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "nothing"):
        assert f"{name} is not a folder" in run("gc", name, code=2).stderr
    run("gc", ".")
    run("token", "new")
    before = (tmp_path / "new").read_bytes()
    assert '"new" exists already' in run("token", "new", code=2).stderr
    assert (tmp_path / "new").read_bytes() == before
