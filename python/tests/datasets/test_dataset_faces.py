"""Folders of files from methods, SQL and the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import euphrates as eu
from dataset_cases import by_duckdb, files_in, rows_of, scanned

TABLE = pa.table({"city": ["Ur", "Kish", "Ur"], "day": [1, 1, 2], "n": [1, 2, 3]})
FOLDERS = ["city=Kish/day=1", "city=Ur/day=1", "city=Ur/day=2"]


def folders(path: Path) -> list[str]:
    return sorted({str(Path(file).parent) for file in files_in(path)})


def test_methods_save_a_folder(tmp_path: Path) -> None:
    rows, out = eu.query(TABLE), tmp_path / "out"
    rows.save(out, partition_by=["city", "day"])
    assert folders(out) == FOLDERS
    rows.save(out, partition_by=["city", "day"], mode="append")
    assert rows_of(by_duckdb(out)) == rows_of(pa.concat_tables([TABLE, TABLE]))
    rows.save(f"{out}/", overwrite=True, format="csv")
    assert [Path(file).suffix for file in files_in(out)] == [".csv"]
    assert rows_of(scanned(out)) == rows_of(TABLE)
    with pytest.raises(eu.UsageError, match="collection"):
        rows.save("@kept", partition_by="city")
    with pytest.raises(eu.UsageError, match="both"):
        rows.save(f"{out}/", overwrite=True, mode="append")


def test_copy_writes_a_folder_with_the_options_of_duckdb(tmp_path: Path) -> None:
    out = tmp_path / "out"
    copy = f"copy (select * from rows) to '{out}' (format parquet, partition_by (City, day)"
    eu.sql(f"{copy});", rows=TABLE).flow.go()
    assert folders(out) == FOLDERS
    with pytest.raises(eu.UsageError, match="not empty"):
        eu.sql(f"{copy})", rows=TABLE).flow.go()
    eu.sql(f"{copy}, overwrite true)", rows=TABLE).flow.go()
    assert rows_of(by_duckdb(out)) == rows_of(TABLE)
    eu.sql(f"{copy}, append, filename_pattern 'data_{{uuid}}')", rows=TABLE).flow.go()
    assert by_duckdb(out).num_rows == 6
    total = eu.sql(f"select sum(n) as n from '{out}' where city = 'Ur' and day = 2")
    assert total.to_pydict() == {"n": [6]}
    with pytest.raises(eu.UsageError, match="partition_by"):
        eu.sql(f"copy (select * from rows) to '{out}' (partition_bye (city))", rows=TABLE)


def test_command_writes_a_folder(tmp_path: Path) -> None:
    eu.query(TABLE).save(tmp_path / "in.parquet")
    command = [sys.executable, "-m", "euphrates", "sql", f"select * from '{tmp_path}/in.parquet'"]
    given = ["--output", str(tmp_path / "out/"), "--partition-by", "city,day"]
    subprocess.run([*command, *given], check=True)
    assert folders(tmp_path / "out") == FOLDERS
    refused = subprocess.run([*command, *given], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "not empty" in refused.stderr
    subprocess.run([*command, *given, "--append"], check=True)
    assert by_duckdb(tmp_path / "out").num_rows == 6
    subprocess.run([*command, *given, "--overwrite"], check=True)
    assert rows_of(by_duckdb(tmp_path / "out")) == rows_of(TABLE)
