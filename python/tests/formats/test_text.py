"""Text formats: compression, encodings, dialects, and JSON layouts."""

from __future__ import annotations

import bz2
import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import euphrates as eu

Run = Callable[..., eu.Table]

ROWS = [{"n": n, "text": f'row {n}, "é"' if n % 3 else None} for n in range(5000)]
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}
FORMATS = ["csv", "tsv", "jsonl", "txt", "records"]


def rows(table: eu.Table) -> list[dict[str, Any]]:
    return table.to_pylist()


def content(name: str) -> bytes:
    """The rows in a format, written by other libraries."""
    if name in ("csv", "tsv"):
        comma = "," if name == "csv" else "\t"
        lines = [f"n{comma}text"]
        for row in ROWS:
            text = "" if row["text"] is None else '"' + row["text"].replace('"', '""') + '"'
            lines.append(f"{row['n']}{comma}{text}")
        return ("\n".join(lines) + "\n").encode()
    if name == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    if name == "txt":
        return b"".join(b"line %d\n" % n for n in range(5000))
    return b"".join(b"%010d" % n + b"x" * 90 for n in range(5000))


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("name", FORMATS)
def test_compression_is_detected_by_name_and_magic_bytes(
    name: str, packing: str, tmp_path: Path, collected: Run
) -> None:
    (tmp_path / f"a.{name}").write_bytes(content(name))
    expected = rows(collected(eu.scan(str(tmp_path / f"a.{name}"), order=True)))
    assert len(expected) == 5000
    half = len(content(name)) // 2
    pack = PACKINGS[packing]
    for kind, packed in {
        "whole": pack(content(name)),
        "members": pack(content(name)[:half]) + pack(content(name)[half:]),
    }.items():
        named = tmp_path / f"{kind}.{name}.{packing}"
        unnamed = tmp_path / f"{kind}.{name}"
        for path in (named, unnamed):
            path.write_bytes(packed)
            assert rows(collected(eu.scan(str(path), order=True))) == expected
        short = tmp_path / "short" / named.name
        short.parent.mkdir(exist_ok=True)
        for end in (3, len(packed) // 2, len(packed) - 1):
            short.write_bytes(packed[:end])
            with pytest.raises((eu.CorruptError, eu.UsageError), match=short.name):
                collected(eu.scan(str(short)))


def test_folder_with_compressed_files_is_read(tmp_path: Path, collected: Run) -> None:
    for n, (packing, pack) in enumerate(PACKINGS.items()):
        (tmp_path / f"{n}.csv.{packing}").write_bytes(pack(b"a\n%d\n" % n))
    (tmp_path / "3.csv").write_bytes(b"a\n3\n")
    (tmp_path / "4.csv.xz").write_bytes(b"nothing that is known")
    table = rows(collected(eu.scan(str(tmp_path), order=True)))
    assert table == [{"a": n} for n in range(4)]
    assert len(rows(collected(eu.scan(str(tmp_path / "*.csv.[gbz]*"), format="csv")))) == 3
    with pytest.raises(eu.UsageError, match="xz"):
        collected(eu.scan(str(tmp_path / "4.csv.xz")))
    (tmp_path / "plain.csv.gz").write_bytes(b"a\n1\n")
    with pytest.raises(eu.CorruptError, match="gzip"):
        collected(eu.scan(str(tmp_path / "plain.csv.gz")))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("packing", PACKINGS)
def test_saved_file_is_compressed_by_its_suffix(
    name: str, packing: str, tmp_path: Path, collected: Run
) -> None:
    source = tmp_path / f"a.{name}"
    source.write_bytes(content(name))
    target = tmp_path / f"b.{name}.{packing}"
    flow = eu.Flow("pack")
    flow.chain(eu.scan(str(source), order=True), eu.save(str(target), row_group_bytes=20_000))
    flow.go()
    unpacked = {
        "gz": gzip.decompress,
        "bz2": bz2.decompress,
        "zst": lambda packed: pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(),
    }[packing](target.read_bytes())
    assert unpacked.count(b"\n") == content(name).count(b"\n")
    assert len(target.read_bytes()) < len(unpacked)
    scanned = rows(collected(eu.scan(str(target), order=True)))
    assert scanned == rows(collected(eu.scan(str(source), order=True)))


def test_compression_option_must_match_the_suffix(tmp_path: Path) -> None:
    rows = pa.table({"a": [1]})

    def save(path: str, **options: Any) -> bytes:
        flow = eu.Flow("named")
        flow.chain(eu.from_arrow(rows), eu.save(str(tmp_path / path), **options))
        flow.go()
        return (tmp_path / path).read_bytes()

    assert gzip.decompress(save("a.csv", compression="gzip")) == b"a\n1\n"
    for path, compression in [("b.csv.gz", "zstd"), ("b.csv", "snappy"), ("b.parquet", "bzip2")]:
        with pytest.raises(eu.UsageError):
            save(path, compression=compression)
    with pytest.raises(eu.UsageError, match="compressed inside"):
        save("b.parquet.gz")


def test_compressed_pipe_is_read(tmp_path: Path, collected: Run) -> None:
    import os

    for n, packed in enumerate(pack(content("csv")) for pack in PACKINGS.values()):
        path = tmp_path / f"pipe{n}"
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(packed,))
        writer.start()
        table = collected(eu.copy_in("csv", path=str(path)))
        writer.join()
        assert len(rows(table)) == 5000


def test_decompression_bomb_is_rejected_within_memory(tmp_path: Path, collected: Run) -> None:
    packed = gzip.compress(b"a,b\n1," + b"0" * (300 << 20), compresslevel=1)
    (tmp_path / "bomb.csv.gz").write_bytes(packed)
    with pytest.raises(eu.ResourceError, match="longer than 32 MiB"):
        collected(eu.scan(str(tmp_path / "bomb.csv.gz")), memory="128MiB")


@pytest.mark.parametrize("layout", ["array", "pretty array", "pretty", "one pretty", "one line"])
@pytest.mark.parametrize("packing", [None, "gz"])
def test_json_layouts_give_the_same_table(
    layout: str, packing: str | None, tmp_path: Path, collected: Run
) -> None:
    values = [{"n": n, "s": f'[{n}], "{{"', "l": [n, None], "o": {"x": n / 2}} for n in range(5000)]
    text = {
        "array": json.dumps(values),
        "pretty array": json.dumps(values, indent=2),
        "pretty": "\n".join(json.dumps(value, indent=2) for value in values),
        "one pretty": json.dumps(values[1], indent=2),
        "one line": " ".join(json.dumps(value) for value in values),
    }[layout]
    expected = values[1:2] if layout == "one pretty" else values
    path = tmp_path / ("a.json" + (f".{packing}" if packing else ""))
    path.write_bytes(gzip.compress(text.encode()) if packing else text.encode())
    assert rows(collected(eu.scan(str(path), order=True))) == expected
    piped = collected(eu.copy_in("json_lines", path=str(path)))
    assert rows(piped) == expected
    columns = collected(eu.scan(str(path), columns=["s", "n"], types={"n": "float64"}, order=True))
    assert rows(columns)[-1] == {"s": expected[-1]["s"], "n": float(expected[-1]["n"])}


def test_json_array_is_streamed_within_memory(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "large.json"
    with path.open("w") as file:
        file.write("[")
        for n in range(400_000):
            file.write(("," if n else "") + json.dumps({"n": n, "text": "x" * 80}))
        file.write("]")
    flow = eu.Flow("large")
    flow.chain(
        eu.scan(str(path)),
        eu.aggregate([], values={"n": "sum(n)", "count": "count()"}),
        eu.collect(),
    )
    table = flow.go(memory="128MiB").collected()
    assert rows(table) == [{"n": sum(range(400_000)), "count": 400_000}]


def test_error_in_a_json_array_names_its_line(tmp_path: Path, collected: Run) -> None:
    values = ['{"a": 1,\n "b": 2}'] * 10_000
    for wrong, line in [('{"a": 1,\n "b": "x"}', 20_001), ('{"a": 1,\n "c": 2}', 20_001)]:
        (tmp_path / "a.json").write_text("[" + ",\n".join([*values, wrong]) + "]")
        with pytest.raises(eu.CorruptError, match=f"a.json: line {line}"):
            collected(eu.scan(str(tmp_path / "a.json")))
    (tmp_path / "a.json").write_text("[" + ",\n".join(values) + "\n")
    with pytest.raises(eu.CorruptError, match=r"line 20001.*not closed"):
        collected(eu.scan(str(tmp_path / "a.json")))


def test_non_object_records_become_one_column(tmp_path: Path, collected: Run) -> None:
    for text, expected in {
        "[1, 2, null]": [1, 2, None],
        "1\n2\n": [1, 2],
        '"x"': ["x"],
        "[[1], [2, 3]]": [[1], [2, 3]],
        '[null, 1, "1", {}]': [None, "1", '"1"', "{}"],
        "[]": [],
        "{}": ["{}"],
    }.items():
        (tmp_path / "a.json").write_text(text)
        table = collected(eu.scan(str(tmp_path / "a.json"), order=True))
        assert rows(table) == [{"json": value} for value in expected], text
    for text in ["", " \n", "[1] [2]", '{"a": 1} "x"', "[1,]", "nonsense"]:
        (tmp_path / "a.json").write_text(text)
        with pytest.raises((eu.CorruptError, eu.UsageError)):
            collected(eu.scan(str(tmp_path / "a.json")))


ENCODINGS = ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "iso-8859-15"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["csv", "json", "txt"])
def test_text_is_read_in_the_given_encoding(
    encoding: str, name: str, tmp_path: Path, collected: Run
) -> None:
    text = {"csv": "name\né ü\n", "json": '[{"name": "é ü"}]', "txt": "é ü\n"}[name]
    path = tmp_path / f"a.{name}"
    path.write_bytes(text.encode(encoding))
    expected = {"line": "é ü".encode()} if name == "txt" else {"name": "é ü"}
    assert rows(collected(eu.scan(str(path), encoding=encoding))) == [expected]
    format = {"csv": "csv", "json": "json_lines", "txt": "lines"}[name]
    assert rows(collected(eu.copy_in(format, path=str(path), encoding=encoding))) == [expected]


def test_bom_selects_utf_16(tmp_path: Path, collected: Run) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        (tmp_path / "a.csv").write_bytes("\ufeffé,b\n1,ü\n".encode(encoding))
        assert rows(collected(eu.scan(str(tmp_path / "a.csv")))) == [{"é": 1, "b": "ü"}]


def test_wrong_encoding_names_the_line(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,x\n2,\xe9\n")
    with pytest.raises(eu.CorruptError, match=r"a\.csv: line 3"):
        collected(eu.scan(str(path)))
    with pytest.raises(eu.CorruptError, match=r"a\.csv: line 3.*ascii"):
        collected(eu.scan(str(path), encoding="ascii"))
    with pytest.raises(eu.UsageError, match="no encoding"):
        collected(eu.scan(str(path), encoding="utf-9"))
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(eu.UsageError, match="encoding"):
        collected(eu.scan(str(tmp_path / "a.parquet"), encoding="latin-1"))


def test_csv_options_match_other_readers(tmp_path: Path, collected: Run) -> None:
    path = tmp_path / "a.csv"

    def scan(text: str, **options: Any) -> list[dict[str, Any]]:
        path.write_text(text)
        return rows(collected(eu.scan(str(path), order=True, **options)))

    def duck(text: str, options: str) -> list[dict[str, Any]]:
        path.write_text(text)
        return duckdb.sql(f"from read_csv('{path}', {options})").to_arrow_table().to_pylist()

    text = "a,b\n1,'x,y'\n2,'it''s'\n"
    assert scan(text, quote="'") == duck(text, "quote=''''")
    text = 'a,b\n1,"x\\"y"\n2,"p\\\\q"\n'
    assert scan(text, escape="\\") == duck(text, "escape='\\'")
    text = '# c, "\na,b\n1,x\n#\n2,y\n'
    assert scan(text, comment="#") == duck(text, "comment='#', delim=','")
    text = 'junk "\nmore, of it\na,b\n1,2\n'
    assert scan(text, skip_rows=2) == duck(text, "skip=2")
    text = "a,b,c\n1,NA,x\nNA,2,\n-,3,NA\n"
    assert scan(text, null_values=["NA", "-"]) == duck(text, "nullstr=['NA', '-']")
    path.write_text('a,b\n1,x"y\n')
    pyarrow = pa_csv.read_csv(path, parse_options=pa_csv.ParseOptions(quote_char=False))
    assert scan('a,b\n1,x"y\n', quote="") == pyarrow.to_pylist()
    assert scan('a\nx\n"NA"\nNA\n', null_values=["NA"]) == [{"a": "x"}, {"a": "NA"}, {"a": None}]
    assert scan("a,b\n1,2 # note\n", comment="#") == [{"a": 1, "b": 2}]
    for options in [{"quote": ","}, {"quote": "ab"}, {"comment": '"'}, {"escape": "é"}]:
        with pytest.raises(eu.UsageError):
            scan("a\n1\n", **options)


def test_error_after_skipped_lines_names_its_file_line(tmp_path: Path, collected: Run) -> None:
    text = "skip\n'\n# c\na,b\n" + "1,2\n" * 9000 + "1,x\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.csv", "a.csv.gz"):
        for options in [{"skip_rows": 3}, {"skip_rows": 2, "comment": "#"}]:
            with pytest.raises(eu.CorruptError, match=f"{name}: line 9005: column `b`"):
                collected(eu.scan(str(tmp_path / name), **options))


def test_infinity_and_nan_are_numbers(tmp_path: Path, collected: Run) -> None:
    words = ["inf", "+Inf", "-INF", "infinity", "-Infinity", "nan", "NaN", "-nan", "+NAN"]
    for values in (["1.5", *words], ["1", *words], words):
        (tmp_path / "a.csv").write_text("a\n" + "\n".join(values) + "\n")
        found = [row["a"] for row in rows(collected(eu.scan(str(tmp_path / "a.csv"), order=True)))]
        assert [str(value) for value in found] == [str(float(value)) for value in values]
    (tmp_path / "a.csv").write_text("a\ninfinite\nnano\n")
    found = rows(collected(eu.scan(str(tmp_path / "a.csv"), order=True)))
    assert found == [{"a": "infinite"}, {"a": "nano"}]


def test_csv_dialects_roundtrip(tmp_path: Path, collected: Run) -> None:
    texts = ["", "NA", None, 'a"b', "it's", "x,y", "line\nend", "back\\slash", "\r", "plain"]
    table = pa.table({"text": texts, "n": [None, *range(9)]})
    dialects: list[dict[str, Any]] = [
        {},
        {"quote": "'"},
        {"escape": "\\"},
        {"null_value": "NA"},
        {"quote": "'", "escape": "\\", "delimiter": ";", "null_value": "\\N"},
    ]
    for n, options in enumerate(dialects):
        path = str(tmp_path / f"{n}.csv")
        flow = eu.Flow("dialect")
        flow.chain(eu.from_arrow(table), eu.save(path, **options))
        flow.go()
        null = options.pop("null_value", None)
        nulls = {} if null is None else {"null_values": [null]}
        found = rows(collected(eu.scan(path, order=True, **options, **nulls)))
        assert found == table.to_pylist(), options


def test_value_needing_quotes_is_rejected_without_quoting(tmp_path: Path) -> None:
    def save(value: str, **options: Any) -> str:
        flow = eu.Flow("quotes")
        path = tmp_path / "a.csv"
        flow.chain(
            eu.from_arrow(pa.table({"a": [value]})),
            eu.save(str(path), overwrite=True, quote="", **options),
        )
        flow.go()
        return path.read_text()

    assert save('say "x"') == 'a\nsay "x"\n'
    assert save("x,y", escape="\\") == "a\nx\\,y\n"
    for value, options in [("x,y", {}), ("x\ny", {}), ("NA", {"null_value": "NA"})]:
        with pytest.raises(eu.FlowError, match="without quotes"):
            save(value, **options)
