"""Text at the limits of its format: values that roundtrip, and values that are rejected."""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu

Run = Callable[..., eu.Table]
MARK = "\ufeff"


def save(table: pa.Table, path: Path, **options: Any) -> None:
    flow = eu.Flow("save")
    flow.chain(eu.from_arrow(table, order=True), eu.save(path, overwrite=True, **options))
    flow.go(progress=False)


@pytest.mark.parametrize("options", [{}, {"escape": "\\"}, {"quote": "", "escape": "\\"}])
def test_leading_bom_in_data_roundtrips(
    options: dict[str, Any], tmp_path: Path, collected: Run
) -> None:
    path = tmp_path / "marked.csv"
    table = pa.table({MARK + "a": [MARK + "x", MARK, "y"], "b": ["1x", MARK, MARK + MARK]})
    for header in (True, False):
        save(table, path, header=header, **options)
        found = collected(eu.scan(path, header=header, order=True, **options)).to_pyarrow()
        assert found.rename_columns(table.column_names) == table
        assert found.column_names == (table.column_names if header else ["column_1", "column_2"])


def test_unquotable_bom_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(eu.FlowError, match="byte order mark"):
        save(pa.table({"a": [MARK], "b": [MARK]}), tmp_path / "marked.csv", quote="")


@pytest.mark.parametrize(
    "value",
    [
        "2024-02-30",
        "0000-00-00",
        "2024-13-01",
        "2024-01-01 24:00:00",
        "2016-12-31 23:59:60",
        "2024-01-01T00:00:00+99:00",
        "1677-01-01 00:00:00.123456789",
    ],
)
def test_invalid_dates_are_inferred_as_text(value: str, tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "dates.csv"
    path.write_text(f"a,b\n{value},1\n,2\n")
    found = collected(eu.scan(path, order=True)).to_pyarrow()
    assert found.column("a").type == pa.string()
    assert found.column("a").to_pylist() == [value, None]


def test_times_without_a_common_unit_are_inferred_as_text(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "times.csv"
    values = ["1500-01-01 00:00:00", "2024-01-01 00:00:00.123456789"]
    path.write_text("a\n" + "".join(f"{value}\n" for value in values))
    assert collected(eu.scan(path, order=True)).to_pyarrow()["a"].to_pylist() == values


def test_leap_second_is_not_the_next_day(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "leap.csv"
    for value, kind in [("2016-12-31 23:59:60", "timestamp"), ("23:59:60", "Time64(ns)")]:
        path.write_text(f"a,b\n{value},1\n")
        with pytest.raises(eu.CorruptError, match=r"line 2.*`a`.*does not fit"):
            collected(eu.scan(path, types={"a": kind}))


def test_invalid_date_beyond_the_sample_names_its_line(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "2024-02-29,1\n" * 5000 + "2024-02-30,1\n")
    with pytest.raises(eu.CorruptError, match=r"late\.csv.*line 5002.*`a`.*`2024-02-30`"):
        collected(eu.scan(path))


LONG = 40 << 20
LONG_TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "long.csv.gz": lambda long: pack(b"a,b\nx,1\ny,2\n" + long + b",1\nz,3\n"),
    "long.jsonl.gz": lambda long: pack(b'{"a":"1"}\n{}\n\n{"a":"' + long + b'"}\n{"a":"3"}\n'),
    "long.json": lambda long: b'[{"a":"1"},\n{"a":"2"},\n\n{"a":"' + long + b'"},{"a":"3"}]',
    "long.txt.gz": lambda long: pack(b"a\nb\n\n" + long + b"\nc\n"),
}


def pack(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1)


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_overlong_record_names_its_line(name: str, tmp_path: Path, collected: Run) -> None:
    path = tmp_path / name
    path.write_bytes(LONG_TEXTS[name](b"x" * LONG))
    said = r"line 4: a record is longer than \d+ MiB.*memory"
    with pytest.raises(eu.ResourceError, match=re.compile(said, re.DOTALL)):
        collected(eu.scan(path), memory="96MiB")
    # With enough memory it is a record like any other.
    assert collected(eu.scan(path), memory="2GiB").num_rows >= 4


def test_overlong_record_in_another_encoding_names_its_line(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b'a,b\n2,b\n1,"' + b"\xe9" * LONG + b'"\n')
    with pytest.raises(eu.ResourceError, match=r"line 3: a record is longer than \d+ MiB"):
        collected(eu.scan(path, encoding="latin-1"), memory="96MiB")


def test_overlong_first_record_is_rejected_before_the_run(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"a":"' + b"x" * LONG + b'"}\n')
    with pytest.raises(eu.ResourceError, match=r"the first record is longer than 32 MiB"):
        collected(eu.scan(path), memory="128MiB")
    assert collected(eu.scan(path), memory="2GiB").num_rows == 1


def test_blank_lines_are_never_records(tmp_path: Path, collected: Run) -> None:
    blank = b"\n" * LONG
    texts = {
        "blank.csv.gz": pack(b"a,b\n1,2\n" + blank + b"3,4\n" + blank),
        "blank.jsonl.gz": pack(b'{"a":1}' + blank + b'{"a":3}\n'),
        "blank.json": b'[{"a":1},' + blank + b'{"a":3}]',
    }
    for name, content in texts.items():
        (tmp_path / name).write_bytes(content)
        found = collected(eu.scan(tmp_path / name, order=True)).to_pyarrow()
        assert found["a"].to_pylist() == [1, 3]
    (tmp_path / "fault.csv.gz").write_bytes(pack(b"a,b\n" + blank + b"1\n"))
    with pytest.raises(eu.CorruptError, match=rf"line {LONG + 2}: 1 fields instead of 2"):
        collected(eu.scan(tmp_path / "fault.csv.gz"))


NUMBERS = [at * 7919 % 10**9 for at in range(200_000)]
DAMAGED = {
    "jsonl": b"".join(b'{"a":%d}\n' % number for number in NUMBERS),
    "json": b"[" + b",\n".join(b'{"a":%d}' % number for number in NUMBERS) + b"]",
    "csv": b"a,b\n" + b"".join(b"%d,x\n" % number for number in NUMBERS),
    "txt": b"".join(b"%d\n" % number for number in NUMBERS),
    "records": b"".join(b"%0100d" % number for number in NUMBERS),
}


def packed_by_us(content: bytes, path: Path) -> bytes:
    """zstd with the checksum, which it writes only on request."""
    lines = pa.table({"line": pa.array(content.splitlines(), pa.binary())})
    save(lines, path, format="lines", compression=None)
    return path.read_bytes()


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst"])
def test_damaged_compression_is_not_reported_as_a_record_error(
    name: str, suffix: str, tmp_path: Path, collected: Run
) -> None:
    path = tmp_path / f"damaged.{name}.{suffix}"
    if suffix == "zst":
        if name == "records":
            pytest.skip("pyarrow writes no checksum, and we write lines")
        whole = packed_by_us(DAMAGED[name], path)
    else:
        whole = (pack if suffix == "gz" else bz2.compress)(DAMAGED[name])
    cases = [whole[: len(whole) // 2], whole[:-1]]
    for tenth in (1, 3, 5, 7, 9):
        flipped = bytearray(whole)
        flipped[len(whole) * tenth // 10] ^= 4
        cases.append(bytes(flipped))
    for case in cases:
        path.write_bytes(case)
        with pytest.raises(eu.CorruptError, match="of the compressed data"):
            collected(eu.scan(path))


def test_record_error_in_intact_compression_is_reported(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "fault.csv.gz"
    path.write_bytes(pack(DAMAGED["csv"] + b"1\n" + DAMAGED["csv"][4:]))
    with pytest.raises(eu.CorruptError, match=r"line 200002: 1 fields instead of 2"):
        collected(eu.scan(path))


def test_column_selection_skips_fields_missing_from_the_sample(
    tmp_path: Path, collected: Run
) -> None:
    for name, content in {
        "late.jsonl": '{"a":1}\n' * 5000 + '{"a":1,"b":2}\n',
        "late.json": "[" + '{"a":1},' * 5000 + '{"a":1,"b":2}]',
    }.items():
        (tmp_path / name).write_text(content)
        assert collected(eu.scan(tmp_path / name, columns=["a"])).num_rows == 5001
        with pytest.raises(eu.CorruptError, match="b"):
            collected(eu.scan(tmp_path / name))


@pytest.mark.parametrize("magic", [b"BZh91", b"P*M\x18", b"\x1f\x8b", b"\xfd7zXZ"])
def test_compression_none_reads_text_that_looks_compressed(
    magic: bytes, tmp_path: Path, collected: Run
) -> None:
    text, records = tmp_path / "magic.txt.gz", tmp_path / "magic.records"
    text.write_bytes(magic + b"\nnext\n")
    records.write_bytes(magic.ljust(100, b"x") * 3)
    found = collected(eu.scan(text, compression="none", order=True)).to_pyarrow()
    assert found["line"].to_pylist() == [magic, b"next"]
    assert collected(eu.scan(records, compression="none")).num_rows == 3
    piped = collected(eu.copy_in("lines", path=str(text), compression="none"))
    assert piped.num_rows == 2
    for path in (text, records):
        with pytest.raises(eu.CorruptError, match="compressed"):
            collected(eu.scan(path))


def test_read_compression_accepts_only_none(tmp_path: Path, collected: Run) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(eu.UsageError, match="first bytes tell"):
        collected(eu.scan(tmp_path / "a.csv", compression="gzip"))
    save(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(eu.UsageError, match="compressed inside"):
        collected(eu.scan(tmp_path / "a.parquet", compression="none"))
