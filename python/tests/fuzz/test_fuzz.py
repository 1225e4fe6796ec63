"""Random flows over random tables match DuckDB, Polars and pyarrow.

A failing case is named with the command that repeats it. `FUZZ_CASES` and `FUZZ_FIRST` set the
number of cases and the first seed; `make torture` runs many more.
"""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

from fuzz import canonical, pool, tables, values

CASES = int(os.environ.get("FUZZ_CASES", "2000"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
SHOWN = 20
"""The number of failures printed in full."""


def test_random_flows_match_other_engines() -> None:
    summary = pool.run(range(FIRST, FIRST + CASES), processes=os.cpu_count() or 2)
    print(summary.table())
    told = "\n\n".join(str(failure) for failure in summary.failures[:SHOWN])
    assert not summary.failures, f"{len(summary.failures)} of {CASES} cases failed:\n{told}"


def test_crash_and_hang_are_reported_with_their_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    [crashed] = pool.run([7], kind="aborting").failures
    assert (crashed.seed, crashed.outcome) == (7, "crashed")
    assert "--seed 7 --kind aborting" in str(crashed)
    monkeypatch.setattr(pool, "SECONDS_MAX", 5)
    [hung] = pool.run([8], kind="hanging").failures
    assert (hung.seed, hung.outcome) == (8, "hung")
    assert "forever" in hung.why, "where it hangs is told"


def test_cases_after_a_crash_are_run() -> None:
    summary = pool.run([1, 2, 3], kind="aborting", processes=1)
    assert [failure.seed for failure in summary.failures] == [1, 2, 3]


def test_seed_reproduces_its_table() -> None:
    def made(seed: int) -> pa.Table:
        luck = random.Random(seed)
        return tables.table(luck, [values.any_type(luck) for _ in range(4)], 50)

    for seed in range(50):
        one, other = made(seed), made(seed)
        assert one.schema == other.schema
        assert canonical.rows(one) == canonical.rows(other)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_bitwise_differences_are_detected(kind: pa.DataType) -> None:
    def table(*numbers: float) -> pa.Table:
        bits = [values.float_bits(number, kind) for number in numbers]
        return pa.table({"x": values.of_raw(bits, kind)})

    def difference(one: pa.Table, other: pa.Table, *, loose: bool) -> str | None:
        return canonical.difference(one, other, ordered=True, exact=True, loose=loose)

    nan = float("nan")
    for one, other in [(0.0, -0.0), (nan, -nan)]:
        assert difference(table(one), table(other), loose=False)
        assert not difference(table(one), table(other), loose=True)
    assert not difference(table(nan, 1.0), table(nan, 1.0), loose=False)
    assert difference(table(1.0, 2.0), table(2.0, 1.0), loose=True)
