"""Few, large values under a small budget: the whole matrix is `python wide_rows.py`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from wide_rows import MIB, Case, allowed, inputs, run

CASES = [
    Case("sort", 1_000_000, 600),
    Case("sort", 1_000_000, 300, cluster="processes:2"),
    Case("sort", 1_000_000, 150, "equal"),
    Case("sort", 1_000_000, 150, "groups"),
    Case("sort:several", 100_000, 1500, "distinct"),
    Case("merge", 1_000_000, 80),
    Case("values", 10_000_000, 20),
    Case("union", 1_000_000, 100, "binary"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_long_values_keep_within_the_budget(case: Case, tmp_path: Path) -> None:
    files = inputs(case, tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    outcome = run(case, files, folder)
    assert not outcome.error
    assert outcome.peak <= allowed(case), f"{outcome.peak / MIB:.0f} MiB"
    if case.what.startswith(("sort", "merge")):
        ends, rows = [], 0
        with pa.memory_map(str(folder / "out0.arrow")) as file, pa.ipc.open_file(file) as out:
            for at in range(out.num_record_batches):
                values = out.get_batch(at).column("s")
                rows += len(values)
                ends += [value.as_py()[:4] + value.as_py()[-12:] for value in values]
        assert rows == case.rows * (2 if case.what == "merge" else 1)
        assert ends == sorted(ends)
