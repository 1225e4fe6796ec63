"""Several writers of one Delta table: who wins, and what is left of who loses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import euphrates as eu
from lake_cases import active_files, by_deltalake, by_euphrates, data_files


def during(change: Callable[[], Any]) -> Any:
    """A function of batches that changes the table once, while the flow runs."""
    done: list[bool] = []

    def passing(batch: Any) -> Any:
        if batch.num_rows and not done:
            done.append(True)
            change()
        return batch

    return passing


def test_an_append_is_added_to_another(tmp_path: Path) -> None:
    path = tmp_path / "t"
    eu.query({"n": [1]}).save_delta(path)
    other = during(lambda: write_deltalake(path, pa.table({"n": [2]}), mode="append"))
    eu.query({"n": [3]}).then(other).save_delta(path, mode="append")
    assert sorted(by_deltalake(path)["n"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("theirs", ["append", "overwrite"])
def test_an_overwrite_loses_to_any_other_commit(tmp_path: Path, theirs: Any) -> None:
    path = tmp_path / "t"
    eu.query({"n": [1]}).save_delta(path)
    other = during(lambda: write_deltalake(path, pa.table({"n": [2]}), mode=theirs))
    with pytest.raises(eu.ConflictError, match="another program"):
        eu.query({"n": [3]}).then(other).save_delta(path, mode="overwrite")
    assert sorted(by_deltalake(path)["n"].to_pylist()) == ([1, 2] if theirs == "append" else [2])
    assert len(data_files(path)) == 2


def test_an_append_loses_to_a_table_with_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    eu.query({"n": [1]}).save_delta(path)
    replaced = pa.table({"other": ["x"]})
    other = during(
        lambda: write_deltalake(path, replaced, mode="overwrite", schema_mode="overwrite")
    )
    with pytest.raises(eu.ConflictError):
        eu.query({"n": [3]}).then(other).save_delta(path, mode="append")
    assert by_euphrates(path).to_pydict() == {"other": ["x"]}
    assert len(data_files(path)) == 2


def test_two_that_make_one_table_give_one(tmp_path: Path) -> None:
    path = tmp_path / "t"
    other = during(lambda: write_deltalake(path, pa.table({"n": [2]})))
    with pytest.raises(eu.ConflictError):
        eu.query({"n": [1]}).then(other).save_delta(path)
    assert by_deltalake(path).to_pydict() == {"n": [2]}
    assert len(data_files(path)) == 1


def test_a_sort_loses_to_any_other_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    eu.query({"n": [2, 1]}).save_delta(path)
    go = eu.Flow.go

    def slow(flow: eu.Flow, **options: Any) -> Any:
        report = go(flow, **options)
        write_deltalake(path, pa.table({"n": [3]}), mode="append")
        return report

    monkeypatch.setattr(eu.Flow, "go", slow)
    with pytest.raises(eu.ConflictError):
        eu.sort_delta(path, "n")
    assert sorted(by_deltalake(path)["n"].to_pylist()) == [1, 2, 3]
    assert len(data_files(path)) == 2


def test_a_failed_checkpoint_does_not_take_back_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    eu.query({"n": [1]}).save_delta(path)
    commit = DeltaTable.create_write_transaction

    def failing(*args: Any, **options: Any) -> None:
        commit(*args, **options)
        raise OSError("the checkpoint failed")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", failing)
    eu.query({"n": [2]}).save_delta(path, mode="append")
    assert sorted(by_deltalake(path)["n"].to_pylist()) == [1, 2]


def test_many_appends_at_once_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "t"
    eu.query({"n": [0]}).save_delta(path)

    def append(number: int) -> None:
        eu.query({"n": [number]}).save_delta(path, mode="append", cores=1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(1, 13)))
    assert sorted(by_deltalake(path)["n"].to_pylist()) == list(range(13))
    assert sorted(active_files(path)) == data_files(path)


def test_a_sort_beyond_memory_gives_each_file_a_range(tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = eu.generate("lineitem", scale=0.05)
    rows.save_delta(path, file_bytes=2_000_000)
    before = by_deltalake(path).sort_by(
        [("l_orderkey", "ascending"), ("l_linenumber", "ascending")]
    )
    eu.sort_delta(path, "l_shipdate", file_bytes=2_000_000, memory="32MiB")
    assert DeltaTable(path).history(1)[0]["version"] == 1
    actions = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pylist()
    ranges = sorted((file["min.l_shipdate"], file["max.l_shipdate"]) for file in actions)
    assert len(ranges) > 2
    assert all(one[1] <= other[0] for one, other in zip(ranges, ranges[1:]))
    after = by_deltalake(path).sort_by([("l_orderkey", "ascending"), ("l_linenumber", "ascending")])
    assert after.equals(before.select(after.column_names))


def test_workers_write_and_read_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with eu.Cluster.processes(2) as cluster:
        rows = eu.generate("lineitem", scale=0.01)
        rows.save_delta(path, partition_by=["l_shipmode"], cluster=cluster)
        rows.save_delta(path, mode="append", cluster=cluster)
        query = eu.scan_delta(path).group_by("l_shipmode").agg(n="count()").sort("l_shipmode")
        found = query.to_pydict(cluster=cluster)
        eu.sort_delta(path, "l_orderkey", cluster=cluster)
    counts = by_deltalake(path).group_by("l_shipmode").aggregate([("l_orderkey", "count")])
    assert found["n"] == counts.sort_by("l_shipmode")["l_orderkey_count"].to_pylist()
    assert sorted(data_files(path)) != []
