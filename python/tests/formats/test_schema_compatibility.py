"""Columns that differ only in layout or in the names of nested fields have compatible schemas."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import euphrates as eu

TEXT = pa.array(["a", None, "bc"])
LISTS = pa.array([["a"], None, [None, "bc"]], pa.list_(pa.field("item", pa.string())))
STRUCTS = pa.array([{"a": 1}, {"a": 2}, {"a": 3}], pa.struct([pa.field("a", pa.int32(), False)]))
MAPS = pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32()))
DECIMALS = pa.array([Decimal("1.25"), None, Decimal("-99999.99")], pa.decimal64(7, 2))
WIDE = pa.array([Decimal(10**33), Decimal("0.0001"), None], pa.decimal128(38, 4))

PAIRS = {
    "dictionary": (TEXT, TEXT.dictionary_encode()),
    "small dictionary": (
        TEXT.cast(pa.dictionary(pa.int8(), pa.string())),
        TEXT.dictionary_encode(),
    ),
    "large text": (TEXT, TEXT.cast(pa.large_string())),
    "view": (TEXT, TEXT.cast(pa.string_view())),
    "bytes": (TEXT.cast(pa.binary()), TEXT.cast(pa.large_binary())),
    "item": (LISTS, LISTS.cast(pa.list_(pa.field("element", pa.string())))),
    "large list": (LISTS, LISTS.cast(pa.large_list(pa.field("l", pa.large_string())))),
    "struct": (STRUCTS, STRUCTS.cast(pa.struct([pa.field("a", pa.int32())]))),
    "nulls": (TEXT, pa.nulls(3)),
    "decimals": (DECIMALS, DECIMALS.cast(pa.decimal128(30, 4))),
    "decimals of other digits": (DECIMALS, WIDE),
    "wide decimals": (WIDE, DECIMALS.cast(pa.decimal256(60, 2))),
}


def table(column: pa.Array) -> pa.Table:
    return pa.table({"n": pa.array(range(len(column))), "x": column})


def digest(rows: list[object]) -> list[str]:
    """A digest that is equal for equal values, whatever their digits."""
    return sorted(str(Fraction(row) if isinstance(row, Decimal) else row) for row in rows)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("turned", [False, True])
def test_union_accepts_differing_layouts(name: str, turned: bool) -> None:
    columns = PAIRS[name][::-1] if turned else PAIRS[name]
    flow = eu.Flow("union")
    union = flow.place(eu.union())
    for column in columns:
        flow.attach(flow.place(eu.from_arrow(table(column))), union)
    out = flow.place(eu.collect())
    flow.attach(union, out)
    rows = pa.table(flow.go().collected())["x"].to_pylist()
    expected = [value for column in columns for value in column.to_pylist()]
    assert digest(rows) == digest(expected)


def write(column: pa.Array, file: Path) -> None:
    if file.suffix == ".parquet":
        pq.write_table(table(column), file)
        return
    with pa.ipc.new_file(file, table(column).schema) as out:
        out.write_table(table(column))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("extension", ["parquet", "arrow"])
def test_scan_accepts_files_of_differing_layouts(name: str, extension: str, tmp_path: Path) -> None:
    if name == "view" and extension == "parquet":
        pytest.skip("Parquet has no views")
    for number, column in enumerate(PAIRS[name]):
        write(column, tmp_path / f"{number}.{extension}")
    flow = eu.Flow("scan")
    flow.chain(eu.scan(str(tmp_path / f"*.{extension}")), eu.collect())
    rows = pa.table(flow.go().collected())["x"].to_pylist()
    expected = [value for column in PAIRS[name] for value in column.to_pylist()]
    assert digest(rows) == digest(expected)


def test_map_entry_names_do_not_matter(tmp_path: Path) -> None:
    entries = pa.struct([pa.field("a", pa.string(), False), pa.field("b", pa.int32())])
    named = pa.map_(entries[0], entries[1])
    for number, maps in enumerate([MAPS, MAPS.cast(named)]):
        write(maps, tmp_path / f"{number}.arrow")
    flow = eu.Flow("scan")
    flow.chain(eu.scan(str(tmp_path / "*.arrow")), eu.collect())
    rows = pa.table(flow.go().collected())["x"].to_pylist()
    assert sorted(map(str, rows)) == sorted(map(str, MAPS.to_pylist() * 2))


@pytest.mark.parametrize("extension", ["parquet", "arrow"])
def test_files_of_differing_types_are_rejected(extension: str, tmp_path: Path) -> None:
    write(pa.array([1], pa.int32()), tmp_path / f"0.{extension}")
    write(pa.array(["1"]), tmp_path / f"1.{extension}")
    flow = eu.Flow("scan")
    flow.chain(eu.scan(str(tmp_path / f"*.{extension}")), eu.collect())
    with pytest.raises(eu.UsageError, match="`x` is Utf8, and Int32 in the first file"):
        flow.go()
