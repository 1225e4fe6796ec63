"""Nested expressions take time linear in their length: nothing doubles per level."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest

import euphrates as eu

#: The parser's limit on brackets per level.
NESTED = 48

#: The text around an expression, and the innermost text; DuckDB agrees for a few levels. (At 48
#: levels some take it exponential time.)
NESTS = {
    "between": ("(", " between false and true)", "b"),
    "between, mixed": ("case when ", " between 0 and d then 1 else 2 end", "i + 1"),
    "between, from": ("(b between ", " and true)", "false"),
    "between, to": ("(b between false and ", ")", "false"),
    "not between": ("(", " not between true and false)", "false"),
    "between computed": ("case when i + 1 between 0 and (", ") then 1 else 0 end", "i"),
    "case": ("case ", " when 1 then 1 when d then 2 else 3 end", "i"),
    "case, mixed": ("case ", " when u then 1 when 2.5 then 2 when d then 3 else 4 end", "i"),
    "case of the same type": ("case ", " when 1 then 2 when 2 then 1 else 3 end", "i"),
    "case, when": ("case i + 1 when ", " then 1 when 2.5 then 2 else 3 end", "i"),
    "case, then": ("case i + 1 when 2 then ", " when 2.5 then 7 else 2 end", "i"),
    "case, else": ("case i + 1 when 2.5 then 1.5 else ", " end", "i"),
    "case of conditions": ("case when ", " > 1 then 1 else 2 end", "i"),
    "case of what is known": ("case when i is not null then ", " end", "i"),
    "in": ("(", " in (true, false))", "b"),
    "in, computed": ("(", " in (b, b = false, null))", "b"),
    "in, mixed": ("case when ", " in (1, d, u, 2.5, dc) then 1 else 2 end", "i"),
    "in, an item": ("case when i + 1 in (1.5, ", ") then 1 else 2 end", "i"),
    "not in": ("(", " not in (b, false))", "b"),
    "greatest": ("greatest(", ", d, i)", "i"),
    "least": ("least(d, ", ", 2)", "i"),
    "is distinct from": ("(", " is distinct from b)", "b"),
    "is not distinct from": ("(", " is not distinct from b)", "b"),
    "equal": ("(", " = b)", "b"),
    "and": ("(", " and b)", "b"),
    "and, right": ("(b and ", ")", "b"),
    "or, right": ("(b = false or ", ")", "b"),
    "divided": ("(i // ", ")", "i"),
    "modulo": ("(", " % 5)", "i"),
    "minus": ("(- ", ")", "i"),
    "decimals": ("(dc + ", ")", "dc"),
    "cast": ("cast(", " as bigint)", "i"),
    "try_cast": ("try_cast(", " as bigint)", "i"),
    "try_cast of decimals": ("try_cast(", " as decimal(38, 10))", "dc"),
    "date_trunc": ("date_trunc('day', ", ")", "t"),
    "extract": ("(1 + extract(year from t) - ", ")", "i"),
    "times": ("(t + (", " - t))", "t"),
    "||": ("(", " || s)", "s"),
    "concat": ("concat(", ", s)", "s"),
    "nullif": ("nullif(", ", 7)", "i"),
    "nullif, null": ("nullif(", ", null)", "n"),
    "nullif, mixed": ("nullif(", ", 7.5)", "i + 1"),
    "coalesce": ("coalesce(n, ", ")", "i"),
    "round": ("round(", ", 2)", "d"),
    "power": ("power(", ", 1)", "d"),
    "is not true": ("(", " is not true)", "b"),
    "is null": ("(", " is null)", "b"),
    "like": ("case when s like ", " then 'x' else 'y' end", "s"),
    "upper": ("upper(", ")", "s"),
    "substring": ("substring(", " from 1 for 3)", "s"),
    "trim": ("trim(", ")", "s"),
    "position": ("position('1' in cast(", " as text))", "i"),
}  # fmt: skip

#: Prints the deepest accepted nesting, and the values of a few levels, here and in DuckDB.
CODE = """
import json, sys, datetime, decimal, duckdb, pyarrow as pa, euphrates as eu
table = pa.table({
    "i": [1], "n": pa.array([None], pa.int64()), "d": [2.5], "u": pa.array([3], pa.uint8()),
    "dc": pa.array([decimal.Decimal("1.25")], pa.decimal128(10, 2)), "b": [True], "s": ["x"],
    "t": [datetime.datetime(2024, 5, 6, 7, 8, 9)]})
rows = table
def ours(text):
    flow = eu.Flow("nested")
    flow.chain(eu.from_arrow(table), eu.project([text + " as x"]), eu.collect())
    return pa.table(flow.go(progress=False).collected())["x"][0].as_py()
for name, (open_, close, middle) in json.loads(sys.argv[1]).items():
    print("now", name, flush=True)
    nested = lambda levels: open_ * levels + middle + close * levels
    for deepest in range(int(sys.argv[2]), 0, -1):
        try:
            ours(nested(deepest).replace("//", "/"))
            break
        except eu.UsageError:
            pass  # Too deep for the parser, which does not always say so.
    found = [ours(nested(levels).replace("//", "/")) for levels in (1, 2, 5)]
    texts = [f"select {nested(levels)} as x from rows" for levels in (1, 2, 5)]
    expected = [duckdb.sql(text).fetchall()[0][0] for text in texts]
    print(json.dumps([name, deepest, str(found), str(expected), found == expected]), flush=True)
"""


def test_nested_operands_are_evaluated_once() -> None:
    """Evaluation that doubles at each of 48 levels would not end."""
    command = [sys.executable, "-c", CODE, json.dumps(NESTS), str(NESTED)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"not done: {(late.stdout or b'').decode().splitlines()[-1]}")
    assert child.returncode == 0, child.stderr
    lines = [line for line in child.stdout.splitlines() if not line.startswith("now ")]
    results = [json.loads(line) for line in lines]
    assert [name for name, *_ in results] == list(NESTS)
    assert [result for result in results if not result[-1] or result[1] < 12] == []


def test_error_in_nested_keywords_is_reported_promptly() -> None:
    """The parser backtracks at each such word, to read it as a name."""
    code = """
import sys, pyarrow as pa, euphrates as eu
table = pa.table({"i": [1]})
for open_ in ["cast(", "case when ", "position('x' in ", "extract(day from ", "floor("]:
    for middle in ["i", "i i", "("]:
        print(open_, middle, flush=True)
        flow = eu.Flow("x")
        flow.chain(eu.from_arrow(table), eu.project([open_ * 40 + middle]), eu.collect())
        try:
            flow.check()
        except eu.UsageError:
            continue
        sys.exit("taken")
print("done", flush=True)
"""
    command = [sys.executable, "-c", code]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"not done: {(late.stdout or b'').decode().splitlines()[-1]}")
    assert child.stdout.endswith("done\n"), child.stderr


def test_column_name_may_be_an_sql_keyword() -> None:
    table = pa.table({name: [1] for name in ["floor", "position", "case", "extract", "trim"]})
    flow = eu.Flow("words")
    text = "floor + position + extract + 1 as x"
    flow.chain(eu.from_arrow(table), eu.project([text]), eu.collect())
    assert pa.table(flow.go(progress=False).collected())["x"].to_pylist() == [4]


def test_shared_operands_stay_lazy() -> None:
    """A shared operand is evaluated lazily: it raises no error where it is not needed."""
    table = pa.table(
        {
            "i": pa.array([0, 1, 2, None]),
            "d": pa.array([float("nan"), -0.0, 2.5, None]),
            "b": pa.array([True, False, None, True]),
        }
    )
    cases = {
        "i + 1 between 2 and 6 / i": [False, True, True, None],
        "i + 1 not between 2 and 6 / i": [True, False, False, None],
        "i <> 0 and i + 1 between 1 and 6 / i": [False, True, True, None],
        "d + 0 between 0 and d": [True, True, True, None],
        "d * 1 between 3 and cast('inf' as double)": [False, False, False, None],
        "case i + 1 when 1 then 7 when 2.5 then 8 when 3 then 6 / i else -1 end": [7, -1, 3, -1],
        "(i + 1) in (1, 2.5, 6 / (i + 1))": [True, False, False, None],
        "(i + 1) in (1, 2.5, null)": [True, None, None, None],
        "(i + 1) not in (1, 2.5, 3)": [False, True, False, None],
        "nullif(d + 0, 0)": [float("nan"), None, 2.5, None],
        "nullif(i + 1, cast(b as int))": [None, 2, 3, None],
    }
    for text, expected in cases.items():
        flow = eu.Flow("lazy")
        flow.chain(eu.from_arrow(table, order=True), eu.project([f"{text} as x"]), eu.collect())
        found = pa.table(flow.go(progress=False).collected())["x"].to_pylist()
        assert repr(found) == repr(expected), text


def test_guards_hold_at_any_depth() -> None:
    table = pa.table({"i": pa.array([0, 1, 2, None]), "b": pa.array([True, False, None, True])})
    levels = 20
    text = "(i <> 0 and 6 / i > 2 and " * levels + "b is not null" + ")" * levels
    flow = eu.Flow("guards")
    flow.chain(eu.from_arrow(table, order=True), eu.project([f"{text} as x"]), eu.collect())
    found = pa.table(flow.go(progress=False).collected())["x"].to_pylist()
    assert found == [False, True, False, None]
