"""Records that cannot be read end the flow, become null, or are left out and written apart."""

from __future__ import annotations

import bz2
import gzip
import random
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu

TYPES = {"n": "int64", "day": "date"}
LINES = ["n,day,name", "1,2024-01-01,a", "x,2024-01-02,b", "3,never,c", "4,2024-01-04", "5,,e"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(name: str, lines: list[str]) -> str:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name


def json_lines(count: int) -> list[str]:
    return [f'{{"ts":"2024-01-01T00:00:00","n":{n},"u":"/{n}"}}' for n in range(count)]


def names(rows: eu.Query | eu.ModuleCall, column: str = "name", **options: Any) -> list[Any]:
    return list(rows.collect(**options).to_pydict()[column])


def test_the_first_error_ends_the_flow_unless_told_otherwise() -> None:
    path = written("a.csv", LINES)
    for options in ({}, {"on_error": "fail"}):
        with pytest.raises(eu.CorruptError, match=r"line 3"):
            eu.scan(path, types=TYPES, **options).collect()


def test_skip_leaves_out_records_and_writes_them_with_their_lines() -> None:
    path = written("a.csv", LINES)
    rows = eu.scan(path, types=TYPES, on_error="skip", rejects="rejects.parquet", order=True)
    assert names(rows) == ["a", "e"]
    rejects = eu.query("rejects.parquet").sort("line").to_pydict()
    assert rejects["file"] == [path] * 3
    assert rejects["line"] == [3, 4, 5]
    assert rejects["column"] == ["n", "day", None]
    assert rejects["record"] == LINES[2:5]
    assert "2 fields instead of 3" in rejects["reason"][2]


@pytest.mark.parametrize("on_error", ["skip", "null"])
def test_what_is_needed_does_not_change_what_is_rejected(on_error: str) -> None:
    bad_text = b"7,2024-01-07,\xff\n"
    Path("a.csv").write_bytes("\n".join([*LINES, ""]).encode() + bad_text + b"8,2024-01-08,h\n")
    found = []
    for number, columns in enumerate([["n", "day", "name"], ["n"], ["name"], []]):
        rejects = f"{number}.parquet"
        rows = eu.scan("a.csv", types=TYPES, on_error=on_error, rejects=rejects)
        chosen = (
            rows.filter("n <> 5").select(*columns) if columns else rows.group_by().agg(c="count()")
        )
        chosen.collect()
        found.append(eu.query(rejects).sort("line").to_pydict())
    assert len(found[0]["line"]) == 4
    assert found[1:] == found[:1] * 3


def test_columns_of_text_that_nothing_needs_are_not_decoded() -> None:
    path = written("a.csv", LINES)
    rows = eu.scan(path, types=TYPES, on_error="skip").select("n")
    assert "read 2 of 3 columns" in str(rows.explain())
    assert rows.to_pydict() == {"n": [1, 5]}
    assert "of 3 columns" not in str(
        eu.scan(path, types=TYPES, on_error="null").select("n").explain()
    )


def test_null_keeps_the_other_values_of_a_record() -> None:
    path = written("a.csv", LINES)
    rows = eu.scan(path, types=TYPES, on_error="null", rejects="rejects.csv", order=True)
    read = rows.collect().to_pydict()
    assert read["name"] == ["a", "b", "c", "e"], "a record of too few fields is left out"
    assert read["n"] == [1, None, 3, 5]
    assert [day is None for day in read["day"]] == [False, False, True, True]
    assert len(eu.query("rejects.csv").to_pylist()) == 3


@pytest.mark.parametrize("on_error", ["null", "skip"])
def test_json_lines_are_passed_over_too(on_error: str) -> None:
    lines = ['{"n": 1, "t": "a"}', '{"n": "x", "t": "b"}', '{"n": 3, "t": ', '{"n": 4, "t": "d"}']
    path = written("a.jsonl", lines)
    types = {"n": "int64", "t": "string"}
    rows = eu.scan(path, types=types, on_error=on_error, rejects="r.jsonl", order=True)
    expected = [1, None, 4] if on_error == "null" else [1, 4]
    assert names(rows, "n") == expected
    rejects = eu.query("r.jsonl").sort("line").to_pydict()
    assert rejects["line"] == [2, 3]
    assert rejects["record"] == lines[1:3]


@pytest.mark.parametrize("packed", [False, True])
def test_few_bad_records_among_many_are_found_in_files_of_several_splits(packed: bool) -> None:
    random.seed(7)
    count = 600_000
    bad = set(random.sample(range(count), 200))
    lines = [f"{'?' if n in bad else n},{'text of a row' * 4}" for n in range(count)]
    text = "\n".join(["n,text", *lines]) + "\n"
    name = "a.csv.bz2" if packed else "a.csv"
    Path(name).write_bytes(bz2.compress(text.encode(), 1) if packed else text.encode())
    rows = eu.scan(name, types={"n": "int64"}, on_error="skip", rejects="r.parquet")
    total = rows.group_by().agg(rows="count()", total="sum(n)").to_pydict()
    assert total["rows"] == [count - len(bad)]
    assert total["total"] == [count * (count - 1) // 2 - sum(bad)]
    found = eu.query("r.parquet").to_pydict()["line"]
    assert sorted(found) == sorted(n + 2 for n in bad)


def test_more_errors_than_allowed_fail_and_leave_nothing() -> None:
    path = written("a.csv", LINES)
    rows = eu.scan(path, types=TYPES, on_error="skip", errors_max=2, rejects="r.parquet")
    with pytest.raises(eu.CorruptError, match=r"more than 2 errors .*a\.csv, line 3, column `n`"):
        rows.save("out.parquet")
    assert not Path("out.parquet").exists() and not Path("r.parquet").exists()
    rows = eu.scan(path, types=TYPES, on_error="skip", errors_max=3)
    assert len(names(rows)) == 2


def test_rejects_are_not_visible_if_the_flow_fails() -> None:
    path = written("a.csv", LINES)

    def fails(batch: eu.Batch) -> eu.Batch:
        if batch.num_rows:
            raise ValueError("no")
        return batch

    rows = eu.scan(path, types=TYPES, on_error="skip", rejects="r.parquet").then(fails)
    with pytest.raises(eu.FlowError):
        rows.collect()
    assert not Path("r.parquet").exists()


def test_a_folder_of_rejects_grows() -> None:
    path = written("a.csv", LINES)
    for _ in range(2):
        names(eu.scan(path, types=TYPES, on_error="skip", rejects="rejects/"))
    assert len(eu.query("rejects/").to_pylist()) == 6


def test_the_report_counts_errors() -> None:
    path = written("a.csv", LINES)
    report = eu.scan(path, types=TYPES, on_error="skip").save("out.parquet")
    assert "3 errors passed over" in str(report)


def test_options_that_do_not_fit_are_usage_errors() -> None:
    path = written("a.csv", LINES)
    with pytest.raises(eu.UsageError, match="`on_error`"):
        eu.scan(path, on_error="ignore").collect()
    for options in ({"rejects": "r.csv"}, {"errors_max": 3}):
        with pytest.raises(eu.UsageError, match="the first error ends it"):
            eu.scan(path, **options).collect()
    eu.query({"n": [1]}).save("n.parquet")
    with pytest.raises(eu.UsageError, match="on_error"):
        eu.scan("n.parquet", on_error="skip").collect()


def test_workers_write_one_file_of_rejects() -> None:
    for part in range(4):
        written(f"{part}.csv", LINES)
    paths = [f"{part}.csv" for part in range(4)]
    rows = eu.scan(paths, types=TYPES, on_error="skip", rejects="r.parquet")
    with eu.Cluster.processes(2) as cluster:
        rows.save("out.parquet", cluster=cluster)
    assert len(eu.query("out.parquet").to_pylist()) == 8
    assert len(eu.query("r.parquet").to_pylist()) == 12


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.json.gz"])
@pytest.mark.parametrize(
    "bad", ['{"ts":"2024-0', '{"n":1,"u":', '{"n":1,"u":"x"', "nothing", '{"n":1}}', '"', "["]
)
def test_a_malformed_line_of_json_costs_that_line_alone(name: str, bad: str) -> None:
    for at in (0, 1, 500, 4_000, 5_999):
        if (at, bad) == (0, "["):
            continue  # It begins an array.
        lines = json_lines(6_000)
        lines[at] = bad
        text = "\n".join([*lines, ""]).encode()
        Path(name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        rejects = f"{at}.parquet"
        rows = eu.scan(name, on_error="skip", rejects=rejects, types={"n": "int64"})
        assert set(names(rows, "n")) == set(range(6_000)) - {at}, at
        assert eu.query(rejects).select("line", "record").to_pydict() == {
            "line": [at + 1],
            "record": [bad],
        }
