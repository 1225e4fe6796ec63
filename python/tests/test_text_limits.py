"""Text at the border of what its format can say: what comes back, what is refused, and why."""

from __future__ import annotations

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
def test_a_byte_order_mark_that_is_data_comes_back(
    options: dict[str, Any], tmp_path: Path, collected: Run
) -> None:
    path = tmp_path / "marked.csv"
    table = pa.table({MARK + "a": [MARK + "x", MARK, "y"], "b": ["1x", MARK, MARK + MARK]})
    for header in (True, False):
        save(table, path, header=header, **options)
        found = collected(eu.scan(path, header=header, order=True, **options)).to_pyarrow()
        assert found.rename_columns(table.column_names) == table
        assert found.column_names == (table.column_names if header else ["column_1", "column_2"])


def test_a_byte_order_mark_that_cannot_be_quoted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(eu.FlowError, match="byte order mark"):
        save(pa.table({"a": [MARK], "b": [MARK]}), tmp_path / "marked.csv", quote="")
