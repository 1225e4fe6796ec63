"""Delta tables that are written here and read by `deltalake`."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import euphrates as eu
from lake_cases import (
    SALES,
    active_files,
    by_deltalake,
    by_euphrates,
    commit_by_hand,
    data_files,
    last_commit,
    long_column,
    metadata,
    protocol,
    rows_of,
)

SPECIAL = [
    *("Ur", "a/b", "x=y", "50%", "%41", "é–ß", " ", ".", "..", "it's", '"', "a:b*?", "{[]}^"),
    *("\t\n\x7f", "007", "__HIVE_DEFAULT_PARTITION__", "a+b&c", "\u2028"),
]


def test_modes_add_and_replace(tmp_path: Path) -> None:
    path, sales = tmp_path / "t", eu.query(SALES)
    sales.save_delta(path)
    assert rows_of(by_deltalake(path)) == rows_of(SALES)
    with pytest.raises(eu.UsageError, match="already"):
        sales.save_delta(path)
    sales.save_delta(path, mode="append")
    assert rows_of(by_deltalake(path)) == rows_of(pa.concat_tables([SALES, SALES]))
    sales.filter("n > 3").save_delta(path, mode="overwrite")
    assert (
        by_deltalake(path).to_pylist() == by_euphrates(path).to_pylist() == [{"city": None, "n": 4}]
    )
    assert [DeltaTable(path, version=version).count() for version in range(3)] == [4, 8, 1]
    sales.filter("n > 9").save_delta(path, mode="overwrite")
    assert DeltaTable(path).count() == 0
    with pytest.raises(eu.UsageError, match="no mode"):
        sales.save_delta(path, mode="replace")  # type: ignore[arg-type]


def test_values_of_partitions_come_back_in_both(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pa.table({"n": range(len(SPECIAL) + 1), "p": [*SPECIAL, None]})
    eu.query(table).save_delta(path, partition_by="p")
    assert rows_of(by_deltalake(path)) == rows_of(table) == rows_of(by_euphrates(path))
    eu.sort_delta(path, "n desc")
    assert rows_of(by_deltalake(path)) == rows_of(table)
    assert len(active_files(path)) == len(SPECIAL) + 1
    eu.query(table).save_delta(path, mode="overwrite")
    assert rows_of(by_deltalake(path)) == rows_of(table)


def test_partitions_of_several_types_come_back(tmp_path: Path) -> None:
    day = datetime.date(2024, 2, 28)
    table = pa.table(
        {
            "n": range(4),
            "day": pa.array([day, None, day, day]),
            "flag": pa.array([True, False, None, True]),
            "whole": pa.array([-1, 5, None, 7], pa.int64()),
            "city": ["Ur", "1", None, "2"],
        }
    )
    path = tmp_path / "t"
    eu.query(table).save_delta(path, partition_by=["day", "flag", "whole", "city"])
    assert rows_of(by_deltalake(path)) == rows_of(table) == rows_of(by_euphrates(path))
    assert DeltaTable(path).metadata().partition_columns == ["day", "flag", "whole", "city"]
    with pytest.raises(eu.UsageError, match="partitioned by"):
        eu.query(table).save_delta(path, mode="append", partition_by=["city"])
    with pytest.raises(eu.UsageError, match="lack `city`"):
        eu.query(table).drop("city").save_delta(path, mode="append")
    with pytest.raises(eu.UsageError, match="type double"):
        rows = eu.query(table).with_columns(x="n * 1.5")
        rows.save_delta(tmp_path / "u", partition_by=["x"])


def test_types_become_those_of_delta(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 2, 28, 12, 0, 0, 123456)
    table = pa.table(
        {
            "u8": pa.array([255, None], pa.uint8()),
            "u32": pa.array([2**32 - 1, None], pa.uint32()),
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "i8": pa.array([-1, None], pa.int8()),
            "f32": pa.array([0.5, None], pa.float32()),
            "text": pa.array(["a", None], pa.large_string()),
            "code": pa.array(["a", None]).dictionary_encode(),
            "ns": pa.array([moment, None], pa.timestamp("ns")),
            "utc": pa.array([moment, None], pa.timestamp("ms", "Europe/Berlin")),
            "money": pa.array([decimal.Decimal("1.25"), None], pa.decimal128(20, 2)),
            "list": pa.array([[1, None], None], pa.list_(pa.int64())),
            "struct": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
        }
    )
    path = tmp_path / "t"
    eu.query(table).save_delta(path)
    found = by_deltalake(path)
    assert [str(found.schema.field(name).type) for name in ("u8", "u32", "u64", "ns", "utc")] == [
        *("int16", "int64", "decimal128(20, 0)", "timestamp[us]", "timestamp[us, tz=UTC]")
    ]
    kept = found.to_pylist()[0]
    for name in set(table.column_names) - {"utc"}:
        assert kept[name] == table[name][0].as_py(), name
    assert rows_of(by_euphrates(path)) == rows_of(found)
    for bad in (pa.array([1], pa.time64("us")), pa.array([None]), pa.array([1], pa.duration("s"))):
        with pytest.raises(eu.UsageError, match="column x"):
            eu.query(pa.table({"x": bad})).save_delta(tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_rows_take_the_types_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"a": [1], "b": ["x"], "c": [0.5]}))
    rows = pa.table({"c": pa.array([1.5], pa.float32()), "a": pa.array([2], pa.int16())})
    eu.query(rows).save_delta(path, mode="append")
    assert by_deltalake(path).sort_by("a").to_pylist() == [
        {"a": 1, "b": "x", "c": 0.5},
        {"a": 2, "b": None, "c": 1.5},
    ]
    with pytest.raises(eu.UsageError, match="column a"):
        eu.query({"a": ["x"]}).save_delta(path, mode="append")
    with pytest.raises(eu.UsageError, match="column a"):
        eu.query({"a": [0.5]}).save_delta(path, mode="append")


def test_schemas_are_merged_and_replaced_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "t"
    eu.query({"a": [1]}).save_delta(path)
    rows = eu.query({"a": [2], "b": ["x"]})
    with pytest.raises(eu.UsageError, match="no column b"):
        rows.save_delta(path, mode="append")
    rows.save_delta(path, mode="append", schema_mode="merge")
    expected = [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    assert by_deltalake(path).sort_by("a").to_pylist() == expected
    assert by_euphrates(path).sort_by("a").to_pylist() == expected
    eu.query({"z": [0.5]}).save_delta(path, mode="overwrite", schema_mode="overwrite")
    assert by_deltalake(path).to_pylist() == by_euphrates(path).to_pylist() == [{"z": 0.5}]
    with pytest.raises(eu.UsageError, match="schema_mode"):
        rows.save_delta(path, mode="append", schema_mode="overwrite")


def test_commits_have_statistics(tmp_path: Path) -> None:
    path = tmp_path / "t"
    moment = datetime.datetime(2024, 2, 28, 12, 0, 0, 123456, datetime.timezone.utc)
    table = pa.table(
        {
            "n": [3, 1, None],
            "text": ["b" * 50, "a" * 50, "c"],
            "t": [moment, None, moment],
            "day": [moment.date(), None, None],
            "money": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
            "none": pa.array([None, None, None], pa.int64()),
            "x": [1.5, float("nan"), 0.5],
        }
    )
    eu.query(table).save_delta(path)
    (add,) = [action["add"] for action in last_commit(path) if "add" in action]
    found = json.loads(add["stats"])
    assert found["numRecords"] == 3
    assert found["nullCount"] == {
        **{"n": 1, "text": 0, "t": 1, "day": 2, "money": 1, "none": 3, "x": 0}
    }
    least, most = found["minValues"], found["maxValues"]
    assert (least["n"], most["n"], least["day"], most["day"]) == (1, 3, "2024-02-28", "2024-02-28")
    assert (least["money"], most["money"]) == (-2.25, 1.5)
    assert least["t"] == "2024-02-28T12:00:00.123Z" and most["t"] == "2024-02-28T12:00:00.124Z"
    assert least["text"] == "a" * 32 and most["text"] == "c"
    assert "none" not in least
    # NaN is above all numbers, so a bound without it would lose rows.
    assert "x" not in most


def test_files_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = eu.generate("lineitem", scale=0.01)
    rows.save_delta(path, file_bytes=300_000)
    sizes = [(path / file).stat().st_size for file in active_files(path)]
    assert len(sizes) > 3 and max(sizes) < 330_000
    assert DeltaTable(path).count() == rows.group_by().agg(n="count()").to_pydict()["n"][0]


def failing(batch: Any) -> Any:
    if batch.num_rows:
        raise RuntimeError("no more")
    return batch


@pytest.mark.parametrize("exists", [False, True])
def test_a_run_that_fails_leaves_nothing(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "t"
    if exists:
        eu.query(SALES).save_delta(path, partition_by=["city"])
    before = data_files(path)
    with pytest.raises(eu.FlowError, match="no more"):
        eu.query(SALES).then(failing).save_delta(path, mode="append")
    assert data_files(path) == before
    assert path.exists() == exists


def test_columns_without_nulls_stay_without(tmp_path: Path) -> None:
    path = tmp_path / "t"
    required = [long_column("n", nullable=False), long_column("m")]
    commit_by_hand(path, protocol([], ["appendOnly"]), metadata(required))
    eu.query({"n": [1], "m": [None]}).select("n", m="cast(m as bigint)").save_delta(
        path, mode="append"
    )
    before = data_files(path)
    for rows in ({"n": [1, None]}, {"m": [1]}):
        with pytest.raises(eu.UsageError, match="`n` has nulls"):
            eu.query(rows).save_delta(path, mode="append")
    assert data_files(path) == before


@pytest.mark.parametrize(
    ("column", "options", "features", "expected"),
    [
        ({}, {"delta.constraints.small": "n < 5"}, ["checkConstraints"], "constraints .small"),
        ({"delta.generationExpression": "1"}, {}, ["generatedColumns"], "generated columns .`n`"),
        ({"delta.identity.start": 1}, {}, ["identityColumns"], "identity columns .`n`"),
        ({"delta.invariants": "{}"}, {}, ["invariants"], "invariants .`n`"),
        ({}, {}, ["rowTracking", "domainMetadata"], "rowTracking"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    tmp_path: Path, column: Any, options: Any, features: list[str], expected: str
) -> None:
    path = tmp_path / "t"
    fields = [long_column("n", metadata=column)]
    commit_by_hand(path, protocol([], features), metadata(fields, **options))
    with pytest.raises(eu.EuphratesError, match=expected):
        eu.query({"n": [1]}).save_delta(path, mode="append")
    assert data_files(path) == []


def test_a_table_to_append_to_is_not_replaced(tmp_path: Path) -> None:
    path, rows = tmp_path / "t", eu.query({"n": [1]})
    rows.save_delta(path, configuration={"delta.appendOnly": "true"})
    rows.save_delta(path, mode="append")
    eu.sort_delta(path, "n")
    with pytest.raises(eu.UsageError, match="appended"):
        rows.save_delta(path, mode="overwrite")
    assert by_deltalake(path).num_rows == 2
