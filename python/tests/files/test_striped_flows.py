"""Flows and queries on `euphrates://` addresses."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu
from striped_cases import make_home

FORMATS = ["parquet", "csv", "csv.gz", "jsonl", "arrow"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path, 6)


def numbers(rows: int) -> pa.Table:
    text = [f"row {row % 1000} of the table" for row in range(rows)]
    return pa.table({"n": range(rows), "word": text})


def save(home: Path, table: pa.Table, path: str, **options: Any) -> eu.Report:
    flow = eu.Flow()
    flow.chain(eu.from_arrow(table, order=True), eu.save(path, **options))
    return flow.go(home=home)


def scan(home: Path, path: Any, **options: Any) -> pa.Table:
    flow = eu.Flow()
    flow.chain(eu.scan(path, order=True, **options), eu.collect())
    return pa.table(flow.go(home=home).collected())


def test_table_is_read_as_it_was_saved_in_each_format(home: Path) -> None:
    table = numbers(300_000)
    for ending in FORMATS:
        path = f"euphrates://tables/n.{ending}"
        save(home, table, path)
        read = scan(home, path)
        assert read.cast(table.schema).equals(table), ending
        with eu.open_striped(f"tables/n.{ending}", home=home) as file:
            content = file.read()
        local = home.parent / f"n.{ending}"
        local.write_bytes(content)
        assert scan(home, str(local)).equals(read), "the bytes are those of any such file"


def test_lost_disk_costs_nothing_but_time(home: Path) -> None:
    table = numbers(500_000)
    save(home, table, "euphrates://n.parquet", storage_options={"data": "3", "parity": "2"})
    shutil.rmtree(home.parent / "d1")
    shutil.rmtree(home.parent / "d4")
    assert scan(home, "euphrates://n.parquet").equals(table)
    shutil.rmtree(home.parent / "d2")
    with pytest.raises(eu.CorruptError, match=r"n\.parquet"):
        scan(home, "euphrates://n.parquet")


def test_patterns_folders_and_lists_name_several_files(home: Path) -> None:
    for year in (2023, 2024):
        for part in (1, 2):
            table = pa.table({"n": [year * 10 + part]})
            save(home, table, f"euphrates://sales/year={year}/{part}.parquet")
    save(home, pa.table({"n": [0]}), "euphrates://sales2/x.parquet")

    def found(path: Any) -> list[int]:
        return sorted(scan(home, path)["n"].to_pylist())

    assert found("euphrates://sales/year=2024/*.parquet") == [20241, 20242]
    assert found("euphrates://sales/**/1.parquet") == [20231, 20241]
    assert found("euphrates://sales") == [20231, 20232, 20241, 20242]
    assert found("euphrates://sales/") == [20231, 20232, 20241, 20242]
    listed = [f"euphrates://sales/year=2023/{part}.parquet" for part in (2, 1)]
    assert found(listed) == [20231, 20232]
    assert set(scan(home, "euphrates://sales")["year"].to_pylist()) == {2023, 2024}


def test_query_reads_and_writes_striped_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUPHRATES_HOME", str(home))
    source = numbers(10_000)
    save(home, source, "euphrates://n.parquet")
    query = "select word, count(*) as c, sum(n) as s from {} group by word order by word"
    ours = eu.sql(query.format("'euphrates://n.parquet'")).collect()
    expected = duckdb.sql(query.format("source"))
    assert [tuple(row.values()) for row in ours.to_pylist()] == expected.fetchall()
    eu.sql("copy (from 'euphrates://n.parquet') to 'euphrates://m.csv'").flow.go()
    assert scan(home, "euphrates://m.csv").num_rows == 10_000


def test_saved_file_is_replaced_only_if_asked_and_as_a_whole(home: Path) -> None:
    old, new = numbers(1000), numbers(2000)
    save(home, old, "euphrates://n.csv")
    with pytest.raises(eu.UsageError, match=r"striped file `n\.csv`") as error:
        save(home, new, "euphrates://n.csv")
    assert error.value.remedy

    def broken(batch: eu.Batch) -> eu.Batch:
        if pa.table(batch).num_rows:
            raise ValueError("made to fail")
        return batch

    flow = eu.Flow()
    steps = [eu.from_arrow(new), eu.map(broken), eu.save("euphrates://n.csv", overwrite=True)]
    flow.chain(*steps)
    with pytest.raises(eu.FlowError, match="made to fail"):
        flow.go(home=home)
    assert scan(home, "euphrates://n.csv").num_rows == 1000
    for disk in home.parent.glob("d*"):
        assert list((disk / ".staging").iterdir()) == [], "nothing is left of the failed flow"
    save(home, new, "euphrates://n.csv", overwrite=True)
    assert scan(home, "euphrates://n.csv").num_rows == 2000


def test_several_outputs_of_a_flow_appear_together(home: Path, tmp_path: Path) -> None:
    flow = eu.Flow()
    source = flow.chain(eu.from_arrow(numbers(5000)), eu.tee())
    saved = [eu.save("euphrates://a.csv"), eu.save("euphrates://b.parquet"), eu.write("c")]
    for sink in saved:
        flow.attach(source, flow.place(sink))
    flow.go(home=home)
    for path in ("euphrates://a.csv", "euphrates://b.parquet"):
        assert scan(home, path).num_rows == 5000
    taken = eu.Flow()
    source = taken.chain(eu.from_arrow(numbers(10)), eu.tee())
    for sink in (eu.save("euphrates://new.csv"), eu.save("euphrates://a.csv")):
        taken.attach(source, taken.place(sink))
    with pytest.raises(eu.UsageError, match="already"):
        taken.go(home=home)
    with pytest.raises(eu.UsageError, match="new"):
        scan(home, "euphrates://new.csv")


def test_workers_that_see_the_disks_read_and_write(home: Path) -> None:
    table = numbers(200_000)
    save(home, table, "euphrates://n.csv")
    with eu.Cluster.processes(2) as cluster:
        flow = eu.Flow()
        steps = [eu.scan("euphrates://n.csv"), eu.filter("n % 2 = 0"), eu.save("euphrates://m.csv")]
        flow.chain(*steps)
        flow.go(cluster=cluster, home=home)
    assert scan(home, "euphrates://m.csv").num_rows == 100_000


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_folder_of_striped_files_is_refused_with_a_remedy(home: Path, mode: str) -> None:
    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=10), eu.save_dataset("euphrates://many", mode=mode))
    with pytest.raises(eu.UsageError, match="folder of striped files") as refused:
        flow.go(home=home)
    assert "one striped file" in (refused.value.remedy or "")


def test_home_of_an_address_is_an_option(home: Path, tmp_path: Path) -> None:
    other = make_home(tmp_path / "other", 2)
    options = {"home": str(other), "data": "1", "parity": "1", "disks": "d0, d1"}
    save(home, numbers(10), "euphrates://n.csv", storage_options=options)
    assert scan(other, "euphrates://n.csv").num_rows == 10
    assert scan(home, "euphrates://n.csv", storage_options=options).num_rows == 10
    with pytest.raises(eu.UsageError, match="neither a file"):
        scan(home, "euphrates://n.csv")


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("euphrates://", {}, "names no file"),
        ("euphrates://folder/", {}, "folder"),
        ("euphrates://n.csv", {"data": "7"}, "needs 8 disks"),
        ("euphrates://n.csv", {"data": "many"}, "`data`"),
        ("euphrates://n.csv", {"region": "x"}, "region"),
        ("euphrates://n.csv", {"disks": "d0,d9"}, "d9"),
    ],
)
def test_wrong_addresses_and_options_are_usage_errors(
    home: Path, path: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(eu.UsageError, match=message):
        save(home, numbers(1), path, format="csv", storage_options=options)
