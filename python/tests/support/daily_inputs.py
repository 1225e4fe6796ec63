"""The files that the daily tasks read."""

from __future__ import annotations

import json
from pathlib import Path

import euphrates as eu

MODEL = """
import json

import pyarrow as pa


class Model:
    def __init__(self, path):
        with open(path) as file:
            self.words = json.load(file)

    def __call__(self, batch):
        rows = batch.to_pydict()
        scores = [self.words[text] for text in rows["text"]]
        return pa.table({"id": pa.array(rows["id"], "int64"), "score": pa.array(scores, "double")})
"""

WEIGHTS = json.dumps({"word": 1.0, "long word": 2.0})


def write(folder: Path) -> None:
    """Writes all of them to a folder."""
    for name in ("in", "logs"):
        (folder / name).mkdir()
    for part in range(2):
        lines = ["id,day,price,land", "1,2024-01-02,2.5,Sumer", f"{part + 2},2024-01-01,1,Akkad"]
        lines.append("?,2024-01-03,1,Sumer" if part else "9,2024-01-03,1,Sumer")
        (folder / f"in/{part}.csv").write_text("\n".join(lines) + "\n")
    log = "2024-01-02T10:00:01 GET / 200\n2024-01-02T10:59:00 GET /x 404\n"
    (folder / "logs/a.log").write_text(log + "2024-01-02T11:00:00 GET / 200\n" * 2)
    (folder / "models.py").write_text(MODEL)
    (folder / "weights.json").write_text(WEIGHTS)
    texts = ["word", "long word", "unknown"]
    tables = {
        "texts": {"id": [0, 1, 2], "text": texts},
        "orders": {"order_id": [1, 2, 3], "customer": ["a", "b", "a"]},
        "items": {"order_id": [1, 1, 2, 3], "price": [5, 2, 9, 1], "amount": [1, 2, 1, 4]},
        "customers": {"customer": ["a", "b"], "land": ["Sumer", "Akkad"]},
        "prices": {"id": [1, 2, 1], "updated_at": [1, 2, 3], "price": [4, 5, 6]},
    }
    for name, rows in tables.items():
        eu.query(rows).save(folder / f"{name}.parquet")
