"""Every type that CSV and JSON support, written and read back, compared with pyarrow's values."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import euphrates as eu

FORMATS = ["csv", "jsonl"]
DAY = 86_400
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def viewed(values: list[int | None], bits: int, kind: pa.DataType) -> pa.Array:
    """Values as their underlying integers."""
    return pa.array(values, pa.int64() if bits == 64 else pa.int32()).view(kind)


def moments() -> dict[str, tuple[pa.DataType, st.SearchStrategy[int], int]]:
    """Timestamp types by name: the type, its range, and its width."""
    kinds: dict[str, tuple[pa.DataType, st.SearchStrategy[int], int]] = {
        "Date32": (pa.date32(), integers(32), 32),
        "Date64": (
            pa.date64(),
            st.integers(-106_751_991_167, 106_751_991_167).map(lambda at: at * DAY * 1000),
            64,
        ),
        "Time32(s)": (pa.time32("s"), st.integers(0, DAY - 1), 32),
        "Time32(ms)": (pa.time32("ms"), st.integers(0, DAY * 1000 - 1), 32),
        "Time64(us)": (pa.time64("us"), st.integers(0, DAY * 10**6 - 1), 64),
        "Time64(ns)": (pa.time64("ns"), st.integers(0, DAY * 10**9 - 1), 64),
    }
    for unit, parts in UNITS.items():
        kinds[f"Duration({unit})"] = (pa.duration(unit), integers(64), 64)
        near = st.integers(-70_000_000_000, 260_000_000_000).map(lambda at, by=parts: at * by)
        fits = near.filter(lambda at: -(2**63) <= at < 2**63) | integers(64)
        for zone in [None, "UTC", "+02:00", "-09:30", "Europe/Berlin"]:
            name = f"Timestamp({unit})" if zone is None else f'Timestamp({unit}, "{zone}")'
            kinds[name] = (pa.timestamp(unit, zone), fits, 64)
    return kinds


MOMENTS = moments()


def written(column: pa.Array, folder: Path, format: str) -> Path:
    out = folder / f"out.{format}"
    out.unlink(missing_ok=True)
    flow = eu.Flow("write")
    # A second column, so that no line of CSV is empty.
    table = pa.table({"v": column, "n": pa.array(range(len(column)), pa.int64())})
    flow.chain(eu.from_arrow(table, order=True), eu.save(str(out)))
    flow.go(progress=False)
    return out


def read(file: Path, kind: str) -> pa.ChunkedArray:
    flow = eu.Flow("read")
    types = {"v": kind, "n": "int64"}
    flow.chain(eu.scan(str(file), types=types, order=True), eu.collect())
    return pa.table(flow.go(progress=False).collected()).column("v")


def check(column: pa.Array, kind: str, folder: Path, format: str) -> None:
    back = read(written(column, folder, format), kind).combine_chunks()
    assert back.type == column.type
    assert back.equals(column), (back, column)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", MOMENTS)
def test_timestamps_of_the_whole_range_roundtrip(kind: str, format: str, tmp_path: Path) -> None:
    data_type, values, bits = MOMENTS[kind]

    @QUICK
    @given(st.lists(values | st.none(), min_size=1, max_size=40))
    def comes_back(values: list[int | None]) -> None:
        check(viewed(values, bits, data_type), kind, tmp_path, format)

    comes_back()
    if kind.startswith(("Timestamp", "Duration")):
        check(viewed([-(2**63), 2**63 - 1, None, 0], 64, data_type), kind, tmp_path, format)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("width, digits", [(32, 9), (64, 18), (128, 38), (256, 76)])
@pytest.mark.parametrize("scale", [0, 1, 7, 9, -3])
def test_decimals_roundtrip(
    width: int, digits: int, scale: int, format: str, tmp_path: Path
) -> None:
    kind = getattr(pa, f"decimal{width}")(digits, scale)

    @QUICK
    @given(st.lists(st.integers(1 - 10**digits, 10**digits - 1) | st.none(), min_size=1))
    def comes_back(values: list[int | None]) -> None:
        # Built from bytes: pyarrow rejects some values of negative scales that it can represent.
        bits = width // 8
        data = b"".join((value or 0).to_bytes(bits, "little", signed=True) for value in values)
        valid = pa.array([value is not None for value in values]).buffers()[1]
        column = pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])
        check(column, f"Decimal{width}({digits}, {scale})", tmp_path, format)

    comes_back()


@pytest.mark.parametrize("format", FORMATS)
def test_decimal_beyond_its_precision_is_written_unchanged(format: str, tmp_path: Path) -> None:
    number = 9223372036854775807009
    data = pa.py_buffer(number.to_bytes(16, "little"))
    column = pa.Array.from_buffers(pa.decimal128(20, 3), 1, [None, data])
    text = written(column, tmp_path, format).read_text()
    assert "9223372036854775807.009" in text


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "Boolean": (pa.bool_(), st.booleans()),
    "Utf8": (pa.string(), TEXTS),
    "LargeUtf8": (pa.large_string(), TEXTS),
    "Utf8View": (pa.string_view(), TEXTS),
    "Binary": (pa.binary(), TEXTS.map(str.encode)),
    "LargeBinary": (pa.large_binary(), TEXTS.map(str.encode)),
    "FixedSizeBinary(3)": (
        pa.binary(3),
        st.text('abc,"\n', min_size=3, max_size=3).map(str.encode),
    ),
    "Float32": (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "Float64": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "Int64": (pa.int64(), integers(64)),
    "UInt64": (pa.uint64(), st.integers(0, 2**64 - 1)),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_roundtrip(kind: str, format: str, tmp_path: Path) -> None:
    data_type, values = KINDS[kind]

    @QUICK
    @given(st.lists(values | st.none(), min_size=1))
    def comes_back(values: list[Any]) -> None:
        check(pa.array(values, data_type), kind, tmp_path, format)

    comes_back()


def nulls() -> dict[str, pa.Array]:
    """Nulls outside the column's own validity mask."""
    codes = pa.array([0, 1, None, 1], pa.int32())
    return {
        "dictionary": pa.DictionaryArray.from_arrays(codes, pa.array(["a", None])),
        "numbers": pa.DictionaryArray.from_arrays(codes, pa.array([7, None], pa.int64())),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), ["a", None]),
        "null": pa.nulls(4),
    }


@pytest.mark.parametrize("name", nulls())
def test_null_in_dictionary_or_run_values_is_null(name: str, tmp_path: Path) -> None:
    column = nulls()[name]
    expected = [None if name == "null" else 7 if name == "numbers" else "a", None, None, None]
    lines = written(column, tmp_path, "jsonl").read_text().splitlines()
    assert [json.loads(line)["v"] for line in lines] == expected
    shown = ["" if value is None else str(value) for value in expected]
    lines = written(column, tmp_path, "csv").read_text().splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == shown


@pytest.mark.parametrize("name", nulls())
def test_null_in_nested_dictionary_or_run_values_is_null(name: str, tmp_path: Path) -> None:
    values = nulls()[name]
    first = None if name == "null" else 7 if name == "numbers" else "a"
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 2, 4], pa.int32()), values)
    lines = written(lists, tmp_path, "jsonl").read_text().splitlines()
    assert [json.loads(line)["v"] for line in lines] == [[first], [], [None], [None, None]]
    struct = pa.StructArray.from_arrays([values], ["x"])
    lines = written(struct, tmp_path, "jsonl").read_text().splitlines()
    assert [json.loads(line)["v"]["x"] for line in lines] == [first, None, None, None]


NESTED = {
    "decimal": pa.array([["1.10", None], [], None], pa.list_(pa.string())).cast(
        pa.list_(pa.decimal128(9, 2))
    ),
    "time": pa.array([[-(2**62), None], [], None], pa.list_(pa.int64())).cast(
        pa.list_(pa.timestamp("s"))
    ),
}


@pytest.mark.parametrize(
    "name, kind",
    [
        ("decimal", "List(Decimal128(9, 2))"),
        ("time", "List(Timestamp(s))"),
    ],
)
def test_values_within_lists_roundtrip(name: str, kind: str, tmp_path: Path) -> None:
    back = read(written(NESTED[name], tmp_path, "jsonl"), kind).combine_chunks()
    assert back.flatten().equals(NESTED[name].flatten())
    assert back.value_lengths().equals(NESTED[name].value_lengths())


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"text", b"\xff"]),
        pa.array([0, 90_000], pa.int32()).view(pa.time32("s")),
        pa.array([0, -1], pa.int64()).view(pa.time64("ns")),
    ],
    ids=["bytes", "after midnight", "before midnight"],
)
def test_unwritable_value_names_row_and_column(
    column: pa.Array, format: str, tmp_path: Path
) -> None:
    with pytest.raises(eu.FlowError) as caught:
        written(column, tmp_path, format)
    assert "column `v`" in str(caught.value)
    assert "row 1 of its batch" in str(caught.value)
    assert not (tmp_path / f"out.{format}").exists()


def test_line_text_is_written_as_json_strings(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes('Ur\n"Uruk"\n𠮷\n'.encode())
    flow = eu.Flow("lines")
    flow.chain(eu.scan(str(tmp_path / "in.txt"), order=True), eu.save(str(tmp_path / "out.jsonl")))
    flow.go(progress=False)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"line": "Ur"},
        {"line": '"Uruk"'},
        {"line": "𠮷"},
    ]


@QUICK
@given(st.lists(st.characters(min_codepoint=0x10000), min_size=1, max_size=9))
def test_escapes_of_all_unicode_planes_are_read(tmp_path: Path, characters: list[str]) -> None:
    text = "".join(characters)
    rows = [{f"k{text}": {"in": [f"\\ud842{text}", "\ud7a3"]}}, {f"k{text}": None}] * 3
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    flow = eu.Flow("read")
    flow.chain(eu.scan(str(file), order=True), eu.collect())
    assert pa.table(flow.go(progress=False).collected()).to_pylist() == rows


@pytest.mark.parametrize("text", [r"\ud842", r"\udfb7\ud842", r"\ud842x", r"\ud842\n"])
@pytest.mark.parametrize("before", [0, 30_000])
def test_lone_surrogate_names_its_line(text: str, before: int, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"a":"b"}\n' * before + f'{{"a":"{text}"}}\n')
    flow = eu.Flow("read")
    flow.chain(eu.scan(str(file)), eu.collect())
    with pytest.raises(eu.CorruptError) as caught:
        flow.go(progress=False)
    assert f"line {before + 1}" in str(caught.value)


@pytest.mark.parametrize("module", ["project", "scan", "map"])
def test_column_name_with_nul_is_rejected_on_export(module: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a\0b,c\n1,2\n")
    flow = eu.Flow("nul")
    source = eu.scan(str(tmp_path / "in.csv"))
    if module == "project":
        flow.chain(eu.from_arrow({"a": [1]}), eu.project(['a as "x\0y"']), eu.collect())
    elif module == "map":
        flow.chain(source, eu.map(lambda batch: batch), eu.save(str(tmp_path / "out.csv")))
    else:
        flow.chain(source, eu.collect())
    with pytest.raises(eu.UsageError, match="has a NUL in it"):
        flow.go(progress=False)


def test_duplicate_column_names_are_rejected_before_the_run() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    flow = eu.Flow("twice")
    flow.chain(eu.from_arrow(table), eu.collect())
    with pytest.raises(eu.UsageError, match="two columns are named `a`"):
        flow.go(progress=False)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[(1, 1)]], pa.map_(pa.int32(), pa.int64())),
        pa.array([[[(1.5, 1)]]], pa.list_(pa.map_(pa.float64(), pa.int64()))),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    ],
    ids=["map", "map in a list", "union"],
)
def test_types_without_json_form_are_rejected_before_the_run(
    column: pa.Array, tmp_path: Path
) -> None:
    flow = eu.Flow("save")
    flow.chain(eu.from_arrow(pa.table({"v": column})), eu.save(str(tmp_path / "out.jsonl")))
    with pytest.raises(eu.UsageError, match=r"column `v` has .*, which JSON cannot hold"):
        flow.check()


def test_maps_with_textual_keys_are_saved_as_json(tmp_path: Path) -> None:
    kinds = [pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string()), pa.date32()]
    for kind in kinds:
        key = 0 if kind == pa.date32() else b"a" if kind == pa.binary() else "a"
        written(pa.array([[(key, 1)]], pa.map_(kind, pa.int64())), tmp_path, "jsonl")


@pytest.mark.parametrize(
    "keys",
    [pa.string(), pa.large_string(), pa.string_view(), pa.date32(), pa.binary()],
    ids=str,
)
@pytest.mark.parametrize("within", [False, True])
def test_maps_with_duplicate_keys_are_rejected_by_json(
    keys: pa.DataType, within: bool, tmp_path: Path
) -> None:
    """Readers keep one of the values, and differ in which."""
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    a, b = days if keys == pa.date32() else (b"a", b"b") if keys == pa.binary() else ("a", "b")
    maps = [[(a, 1), (b, 2)], None, [], [(a, 1), (b, 2), (a, 3)]]
    kind = pa.map_(keys, pa.int64())
    column = pa.array([{"m": [one]} for one in maps] if within else maps,
                      pa.struct({"m": pa.list_(kind)}) if within else kind)  # fmt: skip
    for rows, is_wrong in [(3, False), (4, True)]:
        table = pa.table({"n": range(rows), "c": column.slice(0, rows)})
        flow = eu.Flow("save")
        flow.chain(eu.from_arrow(table, order=True), eu.save(tmp_path / f"{rows}.jsonl"))
        if not is_wrong:
            flow.go()
            continue
        with pytest.raises(eu.FlowError, match=r"(?s)`c`: a map has a key twice.*row 3 of its"):
            flow.go()
    assert not (tmp_path / "4.jsonl").exists()


@pytest.mark.parametrize("rows", [[None], [None, None], [None, 1], [1, None]], ids=str)
def test_null_column_roundtrips_through_headerless_csv(
    rows: list[int | None], tmp_path: Path
) -> None:
    """Each null is an empty line, which alone implies one column."""
    path = tmp_path / "nulls.csv"
    saved = eu.Flow("save")
    table = pa.table({"a": pa.array(rows, pa.int64())})
    saved.chain(eu.from_arrow(table, order=True), eu.save(path, header=False))
    saved.go()
    for options in ({}, {"types": {"column_1": "int64"}}):
        flow = eu.Flow("scan")
        flow.chain(eu.scan(path, header=False, order=True, **options), eu.collect())
        assert pa.table(flow.go().collected())["column_1"].to_pylist() == rows
    (tmp_path / "more.csv").write_text("\n7\n")
    flow = eu.Flow("both")
    flow.chain(eu.scan(str(tmp_path / "*.csv"), header=False), eu.collect())
    found = pa.table(flow.go().collected())["column_1"]
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, [*rows, None, 7]))
