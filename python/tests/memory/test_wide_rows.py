"""Large values under a small budget; `python wide_rows.py` runs the whole matrix."""

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
    Case("values", 5_000_000, 40),
    Case("sort", 10_000_000, 20),
    Case("group", 10_000_000, 20),
    Case("join:key", 10_000_000, 12),
    Case("sort", 10_000, 10_000, "list", 64 * MIB),
    Case("union", 1_000_000, 100, "binary"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_long_values_stay_within_the_memory_budget(case: Case, tmp_path: Path) -> None:
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


# Each row exceeds the limit of an instance; without the limit, some fill the memory.
TOO_LONG = [
    Case("sort", 20_000_000, 4),
    Case("sort:payload", 20_000_000, 4),
    Case("merge", 20_000_000, 4),
    Case("join:n", 20_000_000, 4),
    Case("group", 20_000_000, 4),
    Case("distinct", 20_000_000, 4),
    Case("limit", 30_000_000, 4),
    Case("union", 20_000_000, 4, cluster="processes:2"),
    Case("sort", 200_000_000, 2),
]


@pytest.mark.parametrize("case", TOO_LONG, ids=str)
def test_oversized_row_is_rejected(case: Case, tmp_path: Path) -> None:
    files = inputs(case, tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    outcome = run(case, files, folder)
    assert "ResourceError" in outcome.error
    assert "a row" in outcome.error
    assert "give the flow more memory" in outcome.error
    assert outcome.peak <= allowed(case), f"{outcome.peak / MIB:.0f} MiB"


def test_indistinguishable_key_prefixes_are_rejected(tmp_path: Path) -> None:
    # Seven prefixes of ten megabytes; the memory holds one.
    case = Case("sort", 10_000_000, 40, "groups")
    files = inputs(case, tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    outcome = run(case, files, folder)
    assert "ResourceError" in outcome.error
    assert "could not be told apart" in outcome.error
    assert outcome.peak <= allowed(case), f"{outcome.peak / MIB:.0f} MiB"
