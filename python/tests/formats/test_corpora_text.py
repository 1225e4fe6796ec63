"""Third-party JSON and CSV files: read as other readers do, or rejected as they do."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.json as pa_json
import pytest

import euphrates as eu

Run = Callable[..., eu.Table]

CORPORA = Path(
    os.environ.get("EUPHRATES_CORPORA") or Path(__file__).parents[3] / "../shared/corpora"
)
JSON = CORPORA / "json-test-suite" / "test_parsing"
CSV = CORPORA / "csv-spectrum" / "csvs"

TYPED = (eu.UsageError, eu.CorruptError)


def files(folder: Path, pattern: str) -> list[Path]:
    if not folder.is_dir():
        pytest.skip(f"no corpus in {folder}: set EUPHRATES_CORPORA")
    return sorted(folder.glob(pattern))


def records(path: Path) -> list[Any]:
    """The records of a file by Python's JSON reader: an array is its elements."""
    value = json.loads(path.read_bytes().decode("utf-8-sig"))
    return value if isinstance(value, list) else [value]


def expected(values: list[Any]) -> list[dict[str, Any]]:
    """The records as a table: objects are rows, other values one column."""
    if values and all(isinstance(value, dict) and value for value in values):
        return values
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 or kinds == {dict}:
        values = [None if value is None else json.dumps(value) for value in values]
    return [{"json": value} for value in values]


def refused_by_others(path: Path) -> str:
    """The other readers that reject a file."""
    refusing = []
    try:
        duckdb.sql(f"from read_json('{path}')").fetchall()
    except duckdb.Error:
        refusing.append("DuckDB")
    try:
        pa_json.read_json(path)
    except (ValueError, NotImplementedError):
        refusing.append("pyarrow")
    return ", ".join(refusing)


def show(title: str, counts: Counter[str]) -> None:
    print(f"\n{title}")
    for what, count in sorted(counts.items()):
        print(f"  {count:4} {what}")


def resaved(path: Path, copy: Path) -> Any:
    """The JSON of a single-record file after reading and writing it."""
    flow = eu.Flow("copy")
    flow.chain(eu.scan(str(path)), eu.save(str(copy)))
    flow.go()
    return json.loads(copy.read_bytes())


def test_valid_json_is_read_and_invalid_rejected(tmp_path: Path, collected: Run) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for path in files(JSON, "*.json"):
        kind = path.name[0]
        try:
            table = collected(eu.scan(str(path), order=True)).to_pylist()
        except TYPED as error:
            if "has a NUL in it" in str(error):
                # Arrow's C interface ends names at a NUL. The file itself is read.
                counts[f"{kind}_ read, and not given to Python"] += 1
                assert resaved(path, tmp_path / "named.json") == json.loads(path.read_bytes())
                continue
            assert path.name in str(error), error
            others = refused_by_others(path)
            counts[f"{kind}_ refused (also by {others or 'no other'})"] += 1
            if kind == "y":
                wrong.append(f"{path.name} is refused: {error}")
            continue
        counts[f"{kind}_ read"] += 1
        if kind == "n":
            wrong.append(f"{path.name} is read: {path.read_bytes()[:60]!r}")
        elif kind == "y" and table != expected(records(path)):
            wrong.append(f"{path.name} is {table}, not {expected(records(path))}")
        copy = tmp_path / "copy.json"
        flow = eu.Flow("copy")
        flow.chain(eu.scan(str(path), order=True), eu.save(str(copy), overwrite=True))
        try:
            flow.go()
        except eu.FlowError as error:
            # JSON has no infinity, as which some of these exponents are read.
            assert "infinity" in str(error), error
            counts[f"{kind}_ not written: no number of JSON"] += 1
            continue
        if table:
            again = collected(eu.scan(str(copy), order=True)).to_pylist()
            same = again == table or all(value is None for row in table for value in row.values())
            if not same:
                wrong.append(f"{path.name} comes back as {again}, not {table}")
    show("JSONTestSuite", counts)
    assert not wrong, "\n".join(wrong)


def unix(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: text.replace("\r\n", "\n") for name, text in row.items()} for row in rows]


def test_csv_matches_its_json_twin(tmp_path: Path, collected: Run) -> None:
    counts: Counter[str] = Counter()
    for path in files(CSV, "*.csv"):
        says = json.loads((CSV.parent / "json" / f"{path.stem}.json").read_bytes())
        says = says if isinstance(says, list) else [says]
        names = next(csv.reader(path.read_text().splitlines()))
        options: dict[str, Any] = {"types": dict.fromkeys(names, "string"), "null_values": []}
        table = collected(eu.scan(str(path), order=True, **options)).to_pylist()
        if path.stem == "location_coordinates":
            # Its JSON file has another telephone number.
            assert table[0].pop(names[0]) == "2095257564" and says[0].pop(names[0])
        # Line ends within quotes are those of the file.
        assert unix(table) == unix(says), path
        copy = tmp_path / path.name
        flow = eu.Flow("copy")
        flow.chain(eu.scan(str(path), order=True, **options), eu.save(str(copy)))
        flow.go()
        again = collected(eu.scan(str(copy), order=True, **options)).to_pylist()
        assert [row | again[n] for n, row in enumerate(table)] == again, path
        counts["read, equal, and written and read back"] += 1
    show("csv-spectrum", counts)
