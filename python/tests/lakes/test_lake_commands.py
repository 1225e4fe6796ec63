"""Delta tables on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import euphrates as eu
from lake_cases import SALES, by_deltalake, data_files, last_commit, rows_of


def euphrates(*words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "euphrates", *words]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture
def sales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_deltalake("sales", SALES)
    return tmp_path / "sales"


def test_queries_read_and_write_tables(sales: Path, tmp_path: Path) -> None:
    text = "select city, sum(n) as total from sales where n < 4 group by city order by city"
    printed = euphrates("sql", text, "--table", "sales=delta://sales", "--memory", "64MiB")
    assert "Kish" in printed and "2 rows" in printed
    DeltaTable.create("empty", SALES.schema)
    assert "0" in euphrates("sql", "select count(*) as n from 'delta://empty'")
    assert "10" in euphrates("sql", "select sum(n) as n from 'delta://sales'")
    assert "10" in euphrates("sql", "select sum(n) as n from delta_scan('sales')")
    euphrates("sql", "select * from 'delta://sales'", "-o", "copy.parquet")
    assert rows_of(eu.query("copy.parquet").to_pyarrow()) == rows_of(SALES)
    into = ("sql", "select * from 'copy.parquet'", "-o", "delta://copy")
    euphrates(*into, "--partition-by", "city", "--cores", "2")
    assert "already" in euphrates(*into, code=2)
    euphrates(*into, "--append")
    assert rows_of(by_deltalake(Path("copy"))) == rows_of(pa.concat_tables([SALES, SALES]))
    euphrates(*into, "--overwrite", "--cluster", "processes:2")
    assert rows_of(by_deltalake(Path("copy"))) == rows_of(SALES)


def test_delta_scan_is_a_table_of_queries(sales: Path) -> None:
    found = eu.sql(
        "select a.n from delta_scan('sales') a join DELTA_SCAN('delta://sales') b on a.n = b.n"
        " where a.city = 'Ur' order by 1"
    )
    assert found.to_pydict() == {"n": [1, 3]}
    for text in ("delta_scan()", "delta_scan(1)", "delta_scan('a', 'b')"):
        with pytest.raises(eu.UsageError, match="takes the path"):
            eu.sql(f"select * from {text}")
    with pytest.raises(eu.UsageError, match="no Delta table"):
        eu.sql("select * from delta_scan('none')")


def test_sort_clusters_a_table_in_one_commit(sales: Path) -> None:
    write_deltalake(sales, pa.table({"city": ["Eridu"], "n": [0]}), mode="append")
    euphrates("sort", "delta://sales", "--by", 'n desc, "city"', "--memory", "64MiB")
    assert by_deltalake(sales)["n"].to_pylist() == [4, 3, 2, 1, 0]
    assert DeltaTable(sales).version() == 2
    changes = [action for action in last_commit(sales) if action.keys() & {"add", "remove"}]
    kinds = [kind for action in changes for kind in action]
    assert sorted(kinds) == ["add", "remove", "remove"]
    assert not any(one["dataChange"] for action in changes for one in action.values())


def test_sort_reads_and_writes_other_tables(sales: Path) -> None:
    euphrates("sort", "delta://sales", "-o", "out.csv", "--by", "n")
    assert Path("out.csv").read_text().splitlines()[1] == "Ur,1"
    euphrates("sort", "out.csv", "-o", "delta://again", "--by", "n")
    assert by_deltalake(Path("again"))["n"].to_pylist() == [1, 2, 3, 4]


def test_a_flow_is_printed_and_errors_have_their_codes(sales: Path) -> None:
    printed = euphrates("sql", "select n from 'delta://sales' where n > 1", "--print")
    assert json.loads(printed)["modules"][0]["module"] == "scan"
    query = "select * from 'delta://sales'"
    assert "no Delta table" in euphrates("sql", "select * from 'delta://none'", code=2)
    assert "no column named" in euphrates("sql", "select m from 'delta://sales'", code=2)
    assert "by what" in euphrates("sort", "delta://sales", code=2)
    assert "no column" in euphrates("sort", "delta://sales", "--by", "m", code=2)
    assert "--print" in euphrates("sql", query, "-o", "delta://b", "--print", code=2)
    before = data_files(sales)
    failing = "select n // (n - 1) as n, city from 'delta://sales'"
    assert euphrates("sql", failing, "-o", "delta://sales", "--append", code=1)
    assert data_files(sales) == before
