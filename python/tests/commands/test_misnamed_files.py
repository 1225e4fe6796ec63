"""Files whose names, formats or delimiters are not what they hold: the error says the option, in
the spelling of the command line or of Python.
"""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import euphrates as eu

Run = Callable[..., subprocess.CompletedProcess[str]]

ROWS = pa.table({"x": [3, 1, 2], "y": ["Kish", "Ur", "Uruk"]})


def _written(folder: Path, name: str) -> Path:
    path = folder / name
    match name.split(".")[0]:
        case "parquet":
            pyarrow.parquet.write_table(ROWS, path)
        case "arrow":
            pyarrow.feather.write_feather(ROWS, path, compression="uncompressed")
        case "csv":
            path.write_text("x,y\n3,Kish\n1,Ur\n")
        case "json":
            path.write_text('{"x": 3}\n{"x": 1}\n')
        case "gzip":
            path.write_bytes(gzip.compress(b"x,y\n3,Kish\n1,Ur\n"))
        case "zip":
            path.write_bytes(b"PK\x03\x04\x14\0\0\0\0\0")
    return path


MISNAMED = [
    ("parquet.csv", "parquet"),
    ("parquet.jsonl", "parquet"),
    ("parquet.arrow", "parquet"),
    ("arrow.csv", "arrow_ipc"),
    ("arrow.parquet", "arrow_ipc"),
    ("csv.parquet", "csv"),
    ("csv.arrow", "csv"),
    ("json.parquet", "json_lines"),
    ("json.csv", "json_lines"),
    ("gzip.parquet", "csv"),
]


def is_like_damage(name: str) -> bool:
    """Whether a file may as well be a damaged one of the format of its name."""
    return name in ("csv.parquet", "csv.arrow")


@pytest.mark.parametrize(("name", "format"), MISNAMED)
def test_the_command_line_names_the_format_that_a_file_has(
    run: Run, tmp_path: Path, name: str, format: str
) -> None:
    _written(tmp_path, name)
    code = 3 if is_like_damage(name) else 2
    shown = run("sort", name, "--by", "x", "-o", "out.csv", code=code).stderr
    assert f"`--format {format}`" in shown and "format=" not in shown
    run("sort", name, "--by", "x", "-o", "out.csv", "--format", format)
    assert (tmp_path / "out.csv").read_text().startswith("x")


@pytest.mark.parametrize(("name", "format"), MISNAMED)
def test_python_names_the_format_that_a_file_has(tmp_path: Path, name: str, format: str) -> None:
    path = _written(tmp_path, name)
    error = eu.CorruptError if is_like_damage(name) else eu.UsageError
    with pytest.raises(error) as refused:
        eu.query(eu.scan(path)).filter("x = 1").to_pydict()
    assert f'`format="{format}"`' in str(refused.value)
    assert "--format" not in str(refused.value)
    rows = eu.query(eu.scan(path, format=format)).filter("x = 1").to_pydict()
    assert rows["x"] == [1]


def test_a_file_that_no_format_reads_is_named(run: Run, tmp_path: Path) -> None:
    _written(tmp_path, "zip.csv")
    assert "a ZIP archive" in run("sort", "zip.csv", "--by", "x", "-o", "o", code=2).stderr


def test_words_at_the_beginning_of_text_are_no_signatures(run: Run, tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("PAR1,ORC\n1,2\n")
    assert run("sql", "select PAR1 from 'words.csv'").stdout.lower().startswith("par1\n")


@pytest.mark.parametrize(
    ("delimiter", "typed", "python"),
    [(";", "';'", ";"), ("\t", r"'\t'", r"\t"), ("|", "'|'", "|")],
)
def test_a_file_with_another_delimiter_is_answered_with_the_option(
    run: Run, tmp_path: Path, delimiter: str, typed: str, python: str
) -> None:
    (tmp_path / "other.csv").write_text("x,y\n3,4\n1,2\n".replace(",", delimiter))
    shown = run("sort", "other.csv", "--by", "x", "-o", "out.csv", code=2).stderr
    assert f"`--delimiter {typed}`" in shown
    assert f"`--delimiter {typed}`" in run("sql", "select x from 'other.csv'", code=2).stderr
    run("sort", "other.csv", "--by", "x", "-o", "out.csv", "--delimiter", typed.strip("'"))
    assert (tmp_path / "out.csv").read_text() == "x,y\n1,2\n3,4\n"
    for wrong in ["x > 1", "y = 4"]:
        with pytest.raises(eu.UsageError) as refused:
            eu.query(eu.scan(tmp_path / "other.csv")).filter(wrong).to_pydict()
        assert f'`delimiter="{python}"`' in str(refused.value)


def test_remedies_have_the_options_of_the_command_line_in_it_and_those_of_python_there(
    run: Run, tmp_path: Path
) -> None:
    shown = run("sort", "a.csv", "--by", "x", "-o", "a.csv", code=2).stderr
    assert "`--overwrite`" in shown and "overwrite=True" not in shown
    (tmp_path / "latin.csv").write_bytes("x\nß\n".encode("latin-1"))
    shown = run("sort", "latin.csv", "--by", "x", "-o", "out.csv", code=3).stderr
    assert "`--encoding latin-1`" in shown
    with pytest.raises(eu.UsageError) as refused:
        eu.query(eu.scan(tmp_path / "a.csv")).save(tmp_path / "a.csv")
    assert "`overwrite=True`" in str(refused.value) and "--overwrite" not in str(refused.value)


def test_options_that_a_command_lacks_stay_in_the_spelling_of_python(
    run: Run, tmp_path: Path
) -> None:
    words = ["sort", "a.csv", "--by", "x", "-o", "out.csv", "--print"]
    (tmp_path / "flow.json").write_text(run(*words).stdout)
    run("run", "flow.json")
    assert "`overwrite=True`" in run("run", "flow.json", code=2).stderr
