"""Tables of very many columns: work per column must not depend on the number of columns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COLUMNS = {"csv": 200_000, "arrow": 200_000, "parquet": 100_000}
"""By format; a column of Parquet takes more work, for its pages and its entry in the footer."""
PATIENCE_SECONDS = 240
"""A flow takes seconds; quadratic work in the number of columns would exceed this."""

FLOWS = """
import sys
import euphrates as eu

def flow(*modules):
    flow = eu.Flow("wide")
    flow.chain(*modules)
    flow.go(progress=False)

header, kind, last = sys.argv[1:]
flow(eu.scan(header), eu.save(f"first.{kind}"))
flow(eu.scan(f"first.{kind}"), eu.sort(["c7 desc"]), eu.filter("c3 >= 3"), eu.save(f"last.{kind}"))
flow(eu.scan(f"last.{kind}", columns=["c5", last], order=True), eu.save("few.csv"))
"""


@pytest.mark.parametrize("kind", COLUMNS)
def test_table_of_very_many_columns_is_sorted(kind: str, tmp_path: Path) -> None:
    columns = COLUMNS[kind]
    names = [f"c{number}" for number in range(columns)]
    rows = [",".join(str(number + row) for number in range(columns)) for row in range(2)]
    header = tmp_path / "header.csv"
    header.write_text("\n".join([",".join(names), *rows, ""]))
    command = [sys.executable, "-c", FLOWS, str(header), kind, names[-1]]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=PATIENCE_SECONDS)
    expected = f"c5,{names[-1]}\n6,{columns}\n5,{columns - 1}\n"
    assert (tmp_path / "few.csv").read_text() == expected
