"""What lake tables cost a program that has none, and what killed writers leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import euphrates as eu
from lake_cases import SALES, by_deltalake, data_files


def test_the_packages_are_imported_on_use_only() -> None:
    code = """if True:
        import sys
        import euphrates as eu
        eu.query({"n": [1]}).filter("n > 0").collect()
        eu.sql("select 1 as n").collect()
        assert not {"deltalake", "pyiceberg", "pyarrow"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("deltalake", lambda: eu.scan_delta("t")),
        ("deltalake", lambda: eu.query(SALES).save_delta("t")),
        ("deltalake", lambda: eu.sort_delta("t", "n")),
        ("pyiceberg", lambda: eu.scan_iceberg("t", catalog="c")),
        ("pyiceberg", lambda: eu.query(SALES).save_iceberg("t", catalog="c")),
    ],
)
def test_a_missing_package_is_named(
    package: str, use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(eu.UsageError, match=f"need the package {package}") as error:
        use()
    assert "pip install 'euphrates[" in str(error.value.remedy)


def test_a_killed_writer_commits_nothing_and_its_files_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    eu.query(SALES).save_delta(path)
    before = data_files(path)
    code = f"""if True:
        import time
        import euphrates as eu
        def slowly(batch):
            print("runs", flush=True)
            time.sleep(0.05)
            return batch
        eu.generate("integers", rows=10**9).select(n="n").then(slowly).select(
            "n", city="'x'").save_delta({str(path)!r}, mode="append")
    """
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    for _ in range(20):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert by_deltalake(path).num_rows == 4
    left = path / "_euphrates-0"
    left.mkdir()
    os.utime(left, (0, time.time() - 3 * 24 * 3600))
    eu.query(SALES).save_delta(path, mode="append")
    assert len(data_files(path)) == len(before) + 1
    assert not left.exists()


def test_delete_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.table import DataScan

    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = load_catalog("test", type="sql", uri=uri, warehouse=f"file://{tmp_path}")
    eu.query({"n": [1]}).save_iceberg("shop.n", catalog=catalog)
    plan = DataScan.plan_files

    def with_deletes(scan: Any) -> Any:
        tasks = list(plan(scan))
        for task in tasks:
            task.delete_files = {task.file}
        return tasks

    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    with pytest.raises(eu.UsageError, match="delete files"):
        eu.scan_iceberg("shop.n", catalog=catalog)
