"""Tables of very many columns: work per column must not depend on the number of columns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COLUMNS = 200_000
PATIENCE_SECONDS = 240
"""A flow takes seconds; quadratic work in the number of columns would exceed this."""

FLOWS = """
import sys
import euphrates as eu

def flow(*modules):
    flow = eu.Flow("wide")
    flow.chain(*modules)
    flow.go(progress=False)

header, kind = sys.argv[1:]
flow(eu.scan(header), eu.save(f"first.{kind}"))
flow(eu.scan(f"first.{kind}"), eu.sort(["c7 desc"]), eu.filter("c3 >= 3"), eu.save(f"last.{kind}"))
flow(eu.scan(f"last.{kind}", columns=["c5", "c199999"], order=True), eu.save("few.csv"))
"""


@pytest.mark.parametrize("kind", ["csv", "arrow", "parquet"])
def test_table_of_200_000_columns_is_sorted(kind: str, tmp_path: Path) -> None:
    names = ",".join(f"c{number}" for number in range(COLUMNS))
    rows = [",".join(str(number + row) for number in range(COLUMNS)) for row in range(2)]
    header = tmp_path / "header.csv"
    header.write_text("\n".join([names, *rows, ""]))
    command = [sys.executable, "-c", FLOWS, str(header), kind]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=PATIENCE_SECONDS)
    assert (tmp_path / "few.csv").read_text() == "c5,c199999\n6,200000\n5,199999\n"
