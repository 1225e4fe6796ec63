"""The kinds of cases: the flow built, and its oracle."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa

import euphrates as eu

from . import canonical, identities, oracles, steps, tables, values
from .columns import normal
from .context import Context, WrongAnswerError
from .steps import State


def passing(context: Context) -> None:
    """Pass-through: every type, in every form of input."""
    state = steps.start(context, _table(context))
    for _ in range(context.luck.randrange(2)):
        ways = [steps.choose, steps.some_rows, steps.limit, identities.identity]
        state = context.luck.choice(ways)(state)
        if state.left is not None:
            break
    _compare(state)


def sorting(context: Context) -> None:
    """Sorts, alone and combined with other modules."""
    _chain(context, [steps.sort, steps.sort, steps.partition])


def joining(context: Context) -> None:
    """Joins, alone and combined with other modules."""
    _chain(context, [steps.join])


def uniting(context: Context) -> None:
    """Unions, alone and combined with other modules."""
    _chain(context, [steps.union])


def grouping(context: Context) -> None:
    """Groups of a table, or of a step's output."""
    flat = [values.leaf(context.data) for _ in range(context.data.randrange(1, 4))]
    flat += [values.any_type(context.data)]
    rows = tables.row_count(context.data)
    few = [at for at in range(len(flat)) if context.data.random() < 0.7]
    table = context.table(tables.table(context.data, flat, rows, few=few))
    state = steps.start(context, table)
    if context.luck.random() < 0.3 and tables.ROW in table.column_names:
        before = [steps.some_rows, steps.union, steps.sort, steps.choose]
        state = context.luck.choice(before)(state)
    _groups(state)


def _chain(context: Context, main: list[Callable[[State], State]]) -> None:
    state = steps.start(context, _table(context))
    around = [steps.choose, steps.some_rows, identities.identity]
    draw = context.luck.random
    if tables.ROW not in state.expected.columns:
        return _compare(state)
    if draw() < 0.3:
        state = context.luck.choice(around)(state)
    state = context.luck.choice(main)(state)
    if draw() < 0.4:
        state = context.luck.choice([*around, steps.sort])(state)
    if draw() < 0.2:
        state = steps.limit(state)
    return _compare(state)


def _table(context: Context) -> pa.Table:
    luck = context.data
    types = [values.any_type(luck) for _ in range(luck.randrange(1, 6))]
    few = [at for at in range(len(types)) if luck.random() < 0.5]
    made = tables.table(luck, types, tables.row_count(luck), few=few)
    context.tell(made.schema)
    return context.table(made)


def _compare(state: State) -> None:
    out = state.flow.place(eu.collect())
    state.flow.attach(state.placed, out)
    found = pa.table(state.context.go(state.flow).collected())
    found.validate(full=True)
    if state.left is not None and not all_apart(state.left.groups):
        return _some_of(state, found)
    wrong = state.expected.difference(found, exact=True)
    if wrong:
        raise WrongAnswerError(wrong)


def all_apart(groups: list[int]) -> bool:
    """Whether the expected order of the rows is total."""
    return len(set(groups)) == len(groups)


def _some_of(state: State, found: pa.Table) -> None:
    """A limit without an order may return any rows."""
    assert state.left is not None
    if found.num_rows != len(state.expected):
        raise WrongAnswerError(f"{found.num_rows} rows instead of {len(state.expected)}")
    have, left = canonical.rows(found), state.left.rows()
    more = canonical.collections.Counter(have) - canonical.collections.Counter(left)
    if more:
        raise WrongAnswerError(f"rows that were not there: {list(more)[:3]}")


def _groups(state: State) -> None:
    context, expected = state.context, state.expected
    usable = {name: one for name, one in expected.columns.items() if steps.can_be_key(one)}
    by = context.luck.sample(list(usable), min(len(usable), context.luck.choice([0, 1, 1, 2, 3])))
    asked: dict[str, tuple[str, str | None]] = {"n": ("count", None)}
    for at in range(context.luck.randrange(4)):
        name = context.luck.choice(list(usable)) if usable else None
        if name is not None:
            functions = _functions(usable[name].norm.type, usable[name].kind)
            asked[f"v{at}"] = (context.luck.choice(functions), name)
    spelled = {name: _spelled(*what) for name, what in asked.items()}
    context.tell(f"aggregate by {by}, {spelled}")
    out = state.flow.place(eu.collect())
    last = state.then(eu.aggregate(by, values=spelled), expected, False)
    state.flow.attach(last.placed, out)
    try:
        wanted = oracles.groups(expected, by, list(asked.values()))
    except oracles.DoesNotFitError as overflow:
        return _fails(state, str(overflow))
    for at, (name, (function, of)) in enumerate(asked.items()):
        if function == "sum" and _is_too_large(usable[of].norm.type, at, wanted):
            return _fails(state, f"{name} does not fit")
    may_fail = any(
        function == "avg" and _sum_may_overflow(usable[of].norm) for function, of in asked.values()
    )
    try:
        found = pa.table(context.go(state.flow).collected())
    except eu.FlowError as error:
        if may_fail and "too large" in str(error):
            return None
        raise
    return _same_groups(found, by, list(asked.values()), wanted)


def _fails(state: State, why: str) -> None:
    try:
        state.context.go(state.flow)
    except eu.FlowError as error:
        if "too large" not in str(error) and "overflow" not in str(error).lower():
            raise
    else:
        raise WrongAnswerError(f"there is an answer, where there is none: {why}")


def _functions(norm: pa.DataType, kind: pa.DataType | None) -> list[str]:
    functions = ["count", "count distinct"]
    if not pa.types.is_null(kind):
        functions += ["min", "max"]
    while pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_wide = pa.types.is_decimal256(kind)
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)) and (
        not is_wide
    ):
        functions += ["sum", "avg"]
    return functions


def _spelled(function: str, of: str | None) -> str:
    if of is None:
        return "count()"
    name, _, distinct = function.partition(" ")
    return f"{name}({distinct + ' ' if distinct else ''}{steps.quote(of)})"


def _sum_may_overflow(column: pa.Array) -> bool:
    """Whether decimals exceed 128 bits when summed in some order."""
    if not pa.types.is_decimal(column.type):
        return False
    unscaled = (abs(int(v.scaleb(column.type.scale))) for v in column.to_pylist() if v is not None)
    return sum(unscaled) >= 2**127


def _is_too_large(kind: pa.DataType, at: int, wanted: dict[Any, Any]) -> bool:
    if not pa.types.is_integer(kind):
        return False
    low, high = (-(2**63), 2**63) if pa.types.is_signed_integer(kind) else (0, 2**64)
    sums = [row[at * oracles.FACTS] for row in wanted.values()]
    return any(one is not None and not low <= one < high for one in sums)


def _same_groups(
    found: pa.Table, by: list[str], asked: list[tuple[str, str | None]], wanted: dict[Any, Any]
) -> None:
    plain = pa.table([normal(column) for column in found.columns], names=found.column_names)
    rows = canonical.rows(plain, loose=True)
    have = {row[: len(by)]: row[len(by) :] for row in rows}
    if len(have) != len(rows):
        raise WrongAnswerError("a group is there twice")
    if have.keys() != wanted.keys():
        more, less = have.keys() - wanted.keys(), wanted.keys() - have.keys()
        raise WrongAnswerError(f"groups too many {list(more)[:3]}, too few {list(less)[:3]}")
    for key, facts in wanted.items():
        for at, (function, _) in enumerate(asked):
            one, (value, *near) = have[key][at], facts[at * oracles.FACTS :][: oracles.FACTS]
            kind = plain.column(len(by) + at).type
            if not _is_near(function, kind, one, value, near):
                raise WrongAnswerError(
                    f"group {key}: {asked[at]} is {one} instead of {value} ({kind})"
                )


def _is_near(function: str, kind: pa.DataType, one: Any, value: Any, near: list[Any]) -> bool:
    if function in ("sum", "avg") and pa.types.is_floating(kind) and one is not None:
        return _is_near_float(function, _number(one), value, near)
    return bool(one == value)


def _is_near_float(function: str, one: float, value: Any, near: list[Any]) -> bool:
    """Compares a sum with a tolerance from its largest terms: each rounding loses 2**-53."""
    if value is None:
        return False
    size, count, odd, of_odd = near
    whole = _number(value)
    if odd:
        # Non-finite terms decide; the others do not matter.
        other = _number(of_odd)
        return (math.isnan(one) and math.isnan(other)) or one == other
    if not math.isfinite(_number(size)):
        # Whether partial sums overflow depends on their order.
        return True
    bound = Fraction(_number(size)) * count * Fraction(1, 2**52)
    if function == "avg":
        bound = bound / count + abs(Fraction(whole)) / 2**50
        whole = whole / count
    return math.isfinite(one) and abs(Fraction(one) - Fraction(whole)) <= bound


def _number(value: Any) -> float:
    """The number from the bits that `canonical` has for a double; or a number of another type."""
    if isinstance(value, int):
        return float(pa.array([value], pa.uint64()).view(pa.float64())[0].as_py())
    return float(value)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of case, and its weight."""

    run: Callable[[Context], None]
    weight: int
