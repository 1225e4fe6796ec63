"""What inference makes of CSV and JSON keeps every value, or refuses it with its line."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu

# More records than a sample has.
ROWS = 5000


def csv(tmp_path: Path, text: str, **options: object) -> pa.Table:
    path = tmp_path / "a.csv"
    path.write_text(text)
    source = eu.scan(str(path), order=True, **options)  # type: ignore[arg-type]
    return eu.query(source).to_pyarrow()


@pytest.mark.parametrize("code", ["007", "-01", "+7", " 007", "18446744073709551616"])
@pytest.mark.parametrize("usual", ["1", "0.5"])
def test_code_behind_the_sample_is_refused_and_read_with_given_types(
    tmp_path: Path, code: str, usual: str
) -> None:
    text = "n,v\n" + f"1,{usual}\n" * ROWS + f"1,{code}\n"
    with pytest.raises(eu.CorruptError, match=rf"(?s)line {ROWS + 2}.*`types="):
        csv(tmp_path, text)
    assert csv(tmp_path, text, types={"v": "string"})["v"][-1].as_py() == code
    assert csv(tmp_path, text, types={"v": "float64"})["v"][-1].as_py() == float(code)


def test_string_of_json_behind_the_sample_is_no_number(tmp_path: Path) -> None:
    lines = ['{"v": 1}'] * ROWS + ['{"v": "007"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(eu.CorruptError, match="`007` does not fit Int64"):
        eu.query(eu.scan(str(tmp_path / "a.jsonl"))).collect()


def test_text_behind_a_closing_quote_is_refused(tmp_path: Path) -> None:
    with pytest.raises(eu.CorruptError, match=r"(?s)line 3.*closing quote.*quote"):
        csv(tmp_path, 'a,b\n"x",1\n"x"y,2\n')
    with pytest.raises(eu.CorruptError, match="closing quote"):
        csv(tmp_path, '"x"y,b\n1,2\n')
    # Blanks are no text, and without quotes there are none that close.
    assert csv(tmp_path, 'a,b\n"x" ,1\n')["a"].to_pylist() == ["x "]
    assert csv(tmp_path, 'a,b\n"x"y,1\n', quote="")["a"].to_pylist() == ['"x"y']


@pytest.mark.parametrize("header", ["a,a", "a,,b", ",a,a,a_1", "a,b,", "column1,,x"], ids=str)
def test_names_of_a_header_are_those_of_duckdb(tmp_path: Path, header: str) -> None:
    width = header.count(",") + 1
    text = f"{header}\n" + ",".join("123"[at % 3] for at in range(width)) + "\n"
    found = csv(tmp_path, text).column_names
    names = duckdb.sql(f"select * from read_csv('{tmp_path}/a.csv', header = true)").columns
    assert found == names


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["12:00:00", "23:59:59.5"], pa.time64("us")),
        (["12:00:00.123456789"], pa.time64("ns")),
        (["24:00:00"], pa.string()),
        (["12:00"], pa.string()),
        ([" 1", "2 "], pa.int64()),
        ([" 1.5", "2"], pa.float64()),
        ([" x"], pa.string()),
    ],
)
def test_times_and_numbers_between_blanks_are_inferred(
    tmp_path: Path, values: list[str], kind: pa.DataType
) -> None:
    found = csv(tmp_path, "v,w\n" + "".join(f"{value},0\n" for value in values))["v"]
    assert found.type == kind
    assert found.cast(pa.string()).to_pylist()[0].strip().startswith(values[0].strip()[:4].strip())


def test_files_whose_times_differ_in_kind_are_read_together(tmp_path: Path) -> None:
    for name, value in [("a", "12:00:00"), ("b", "12:00:00.000000001"), ("c", "noon")]:
        (tmp_path / f"{name}.csv").write_text(f"v,w\n{value},1\n")
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"v": value}))
    for ending in ["csv", "jsonl"]:
        two = [str(tmp_path / f"{name}.{ending}") for name in "ab"]
        assert eu.query(eu.scan(two)).to_pyarrow()["v"].type == pa.time64("ns")
        three = [*two, str(tmp_path / f"c.{ending}")]
        texts = eu.query(eu.scan(three)).to_pydict()["v"]
        assert sorted(texts) == ["12:00:00", "12:00:00.000000001", "noon"]


def test_json_that_is_saved_is_read_with_its_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "d": [dt.date(2024, 1, 1), None, dt.date(1, 2, 3)],
            "t": pa.array([dt.time(1, 2, 3, 4), dt.time(0), None], pa.time64("us")),
            "ts": [dt.datetime(2024, 1, 1, 2, 3, 4, 5), dt.datetime(1850, 1, 1), None],
            "tz": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
            "s": ["2024-01-01", "", "x"],
            "l": pa.array([[dt.date(2024, 1, 1)], [], None], pa.list_(pa.date32())),
            "o": [{"d": dt.date(2024, 1, 1), "n": 1}, {"d": None, "n": 2}, None],
        }
    )
    path = str(tmp_path / "a.jsonl")
    eu.query(table).save(path)
    found = eu.query(eu.scan(path, order=True)).to_pyarrow()
    assert found.to_pylist() == table.to_pylist()
    assert found.schema.types == table.schema.types


def test_later_string_of_a_column_of_dates_is_refused_with_its_line(tmp_path: Path) -> None:
    lines = ['{"d": "2024-01-01"}'] * ROWS + ['{"d": "soon"}']
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(eu.CorruptError, match=rf"(?s)line {ROWS + 1}.*string: `types="):
        eu.query(eu.scan(str(path))).collect()
    found = eu.query(eu.scan(str(path), types={"d": "string"})).to_pydict()["d"]
    assert found[-1] == "soon" or "soon" in found


@pytest.mark.parametrize("codec", ["gzip", "brotli"])
def test_parquet_is_written_with_other_codecs(tmp_path: Path, codec: str) -> None:
    table = pa.table({"n": range(20_000), "s": [f"text {n % 77}" for n in range(20_000)]})
    path = str(tmp_path / "a.parquet")
    eu.query(table).save(path, compression=codec)
    column = pq.read_metadata(path).row_group(0).column(0)
    assert column.compression == codec.upper()
    assert sorted(pq.read_table(path)["n"].to_pylist()) == list(range(20_000))
    assert duckdb.sql(f"select sum(n), count(distinct s) from '{path}'").fetchall() == [
        (199_990_000, 77)
    ]
    assert eu.query(eu.scan(path)).collect().num_rows == 20_000
    with pytest.raises(eu.UsageError, match="gzip, bzip2, zstd"):
        eu.query(table).save(str(tmp_path / "a.csv"), compression="brotli")
