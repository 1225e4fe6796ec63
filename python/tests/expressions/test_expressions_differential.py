"""Random expressions over edge values match DuckDB.

`EXPRESSION_CASES=5000` tries more cases, as `make torture` does, and `EXPRESSION_SEED=17` repeats
one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu
from expression_cases import Case, Oracle, Pair, case, plain, same

CASES = int(os.environ.get("EXPRESSION_CASES", "600"))
SEEDS = [int(os.environ["EXPRESSION_SEED"])] if "EXPRESSION_SEED" in os.environ else range(CASES)
SLICES = 5

#: Documented errors where DuckDB has a result: an integer overflow is an error here and widens
#: there; a time beyond nanoseconds is an error even behind a constant condition.
DECIDED = [
    "verflow",
    "representable i64 range",
    "common type",
    "cannot compare",
    "does not read as",
]


def of_euphrates(table: pa.Table, expressions: list[Pair]) -> list[list[Any]]:
    flow = eu.Flow("expressions")
    items = [f"{pair.ours} as x{number}" for number, pair in enumerate(expressions)]
    flow.chain(eu.from_arrow(table), eu.project(items), eu.collect())
    return [plain(column) for column in pa.table(flow.go().collected()).columns]


def differences(one: Case, oracle: Oracle) -> Iterator[str]:
    """The differences for the expressions of a case, evaluated in one flow."""
    oracle.use(one.table)
    try:
        ours = of_euphrates(one.table, one.expressions)
    except eu.EuphratesError:
        ours = None
    theirs = oracle.values([pair.theirs for pair in one.expressions])
    for number, pair in enumerate(one.expressions):
        mine = ours and ours[number]
        other = theirs and theirs[number]
        if found := difference(one, pair, mine, other, oracle):
            yield f"seed {one.seed}: {pair.ours}\n  duckdb: {pair.theirs}\n  {found}"


def difference(
    one: Case, pair: Pair, ours: list[Any] | None, theirs: list[Any] | None, oracle: Oracle
) -> str | None:
    if theirs is None:
        theirs = (oracle.values([pair.theirs]) or [None])[0]
    if ours is None:
        try:
            ours = of_euphrates(one.table, [pair])[0]
        except eu.EuphratesError as error:
            decided = any(known in str(error) for known in DECIDED)
            return None if theirs is None or decided else f"ours fails: {error}"
    for row, (mine, other) in enumerate(zip(ours, theirs or [])):
        if not same(mine, other):
            values = one.table.slice(row, 1).to_pylist()[0]
            used = {name: value for name, value in values.items() if name in pair.ours}
            return f"row {row} is {mine!r}, and {other!r} in DuckDB; {used}"
    return None


@pytest.mark.parametrize("part", range(SLICES))
def test_expressions_match_duckdb(part: int) -> None:
    oracle = Oracle(case(0).table)
    wrong = [w for seed in list(SEEDS)[part::SLICES] for w in differences(case(seed), oracle)]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])


def test_cases_are_deterministic() -> None:
    tables = [[plain(column) for column in case(7).table.columns] for _ in range(2)]
    assert tables[0] == tables[1]
    assert case(7).expressions == case(7).expressions


def test_oracle_answers_most_cases() -> None:
    cases = [case(seed) for seed in range(10)]
    oracle = Oracle(cases[0].table)
    answered = []
    for one in cases:
        oracle.use(one.table)
        answered += [oracle.values([pair.theirs]) is not None for pair in one.expressions]
    assert sum(answered) > len(answered) * 2 // 3
