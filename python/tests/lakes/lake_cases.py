"""Tables for tests of Delta Lake and Iceberg, and what is in their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

import euphrates as eu

SALES = pa.table({"city": ["Ur", "Kish", "Ur", None], "n": [1, 2, 3, 4]})


def rows_of(table: Any) -> list[str]:
    """The rows, without their order."""
    table = pa.table(table)
    return sorted(map(str, table.select(sorted(table.column_names)).to_pylist()))


def by_deltalake(path: Path, **options: Any) -> pa.Table:
    return DeltaTable(path, **options).to_pyarrow_table()


def by_euphrates(path: Path, **options: Any) -> pa.Table:
    return eu.scan_delta(path, **options).to_pyarrow()


def data_files(path: Path) -> list[str]:
    """All files of a table but its log, hidden ones as well."""
    files = (file.relative_to(path) for file in path.rglob("*") if not file.is_dir())
    return sorted(str(file) for file in files if file.parts[0] != "_delta_log")


def active_files(path: Path) -> list[str]:
    folder = f"{path.resolve()}/"
    return sorted(uri.removeprefix(folder) for uri in DeltaTable(path).file_uris())


def last_commit(path: Path) -> list[dict[str, Any]]:
    """The actions of the newest commit."""
    newest = max((path / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


def commit_by_hand(path: Path, *actions: dict[str, Any]) -> None:
    """Writes a commit with these actions, as other engines would."""
    log = path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    text = "\n".join(map(json.dumps, actions))
    (log / f"{version:020}.json").write_text(text)


def metadata(fields: list[dict[str, Any]], **configuration: str) -> dict[str, Any]:
    return {
        "metaData": {
            "id": "0b6ad8a5-9d2d-4a77-b4a2-40c6dd5ed04a",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": configuration,
            "createdTime": 0,
        }
    }


def long_column(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "type": "long", "nullable": True, "metadata": {}, **options}


def protocol(reader: list[str], writer: list[str]) -> dict[str, Any]:
    if not reader:
        version = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": writer}
        return {"protocol": version}
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": reader,
            "writerFeatures": [*reader, *writer],
        }
    }
