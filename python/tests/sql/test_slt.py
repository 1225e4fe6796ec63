"""The files of `crates/cli/tests/slt` have the results of DuckDB."""

from __future__ import annotations

import pytest

from slt.__main__ import FOLDER, contents, names
from slt.records import parsed


@pytest.mark.parametrize("name", names())
def test_results_are_those_of_duckdb(name: str) -> None:
    written = (FOLDER / f"{name}.slt").read_text()
    assert written == contents(name), f"run `python -m slt {name}`"


def test_what_is_skipped_says_why() -> None:
    for name in names():
        reason = ""
        for record in parsed((FOLDER / f"{name}.slt").read_text()):
            comments = [line for line in record.above if line.startswith("#")]
            reason = comments[-1] if comments else reason
            conditions = [line for line in record.above if not line.startswith("#")]
            assert not conditions or reason, record.sql
