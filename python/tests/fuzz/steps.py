"""Steps of a flow, each with its expected output."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.ipc

import euphrates as eu

from . import oracles, tables, values
from .columns import Column, Expected
from .context import Context

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
WHERE = {
    "r < r_right": "l.row_ < r.row_",
    "r % 3 <> r_right % 2": "l.row_ % 3 <> r.row_ % 2",
}
"""Conditions of joins, and their form for the oracle."""


@dataclasses.dataclass
class State:
    """A partially built flow, and its expected output so far."""

    context: Context
    flow: eu.Flow
    placed: Any
    expected: Expected
    ordered: bool
    """Whether rows come in the order of `expected`, except within one group."""
    left: Expected | None = None
    """For a limit that may choose: the rows it chose from."""

    def then(self, module: Any, expected: Expected, ordered: bool, *, many: bool = True) -> State:
        """Appends a module, of `many` instances if given."""
        count = self.context.luck.choice([None, None, 1, 2, 3]) if many else None
        placed = self.flow.place(module, count=count)
        self.flow.attach(self.placed, placed)
        return State(self.context, self.flow, placed, expected, ordered)


def start(
    context: Context,
    table: pa.Table,
    *,
    flow: eu.Flow | None = None,
    ordered: bool | None = None,
) -> State:
    """A flow that begins with a table, in a random form of input."""
    if ordered is None:
        ordered = context.luck.random() < 0.5
    flow = flow or eu.Flow("fuzz")
    placed = flow.place(eu.from_arrow(_given(context, table), order=ordered))
    return State(context, flow, placed, Expected.of(table, ordered), ordered)


def _given(context: Context, table: pa.Table) -> Any:
    way = context.luck.choice(["table", "table", "batches", "reader", "function"])
    if way == "batches" and table.to_batches():
        return table.to_batches()
    if way == "reader":
        return lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    return (lambda: table) if way == "function" else table


def sort(state: State) -> State:
    """Sorts by up to three columns."""
    context, expected = state.context, state.expected
    names = [name for name, column in expected.columns.items() if can_sort(column)]
    chosen = context.luck.sample(names, min(len(names), context.luck.choice([1, 1, 2, 3])))
    if not chosen:
        return state
    by = [key(context, name) for name in chosen]
    stable = state.ordered and context.luck.random() < 0.5
    written = [
        key["column"] if context.luck.random() < 0.3 and key == _plain(key["column"]) else key
        for key in by
    ]
    context.tell(f"sort by {by}, stable {stable}")
    wanted = oracles.sort(context.luck, expected, by, stable)
    return state.then(eu.sort(written, stable=stable), wanted, True)


def partition(state: State) -> State:
    """Partitions come in key order."""
    context, expected = state.context, state.expected
    names = [name for name, column in expected.columns.items() if can_sort(column)]
    if not names:
        return state
    by = [key(context, context.luck.choice(names))]
    together = context.luck.random() < 0.5
    context.tell(f"partition by {by}, together {together}")
    wanted = oracles.sort(context.luck, expected, by, False)
    # An instance with a partition does not wait for the one before it.
    bag = Expected(wanted.columns, [0] * len(wanted))
    return state.then(eu.partition(by, together=together), bag, False)


def choose(state: State) -> State:
    """Selects some columns, in some order."""
    context, expected = state.context, state.expected
    names = list(expected.columns)
    some = context.luck.sample(names, context.luck.randrange(1, len(names) + 1))
    kept = [name for name in some if name != tables.ROW] + [tables.ROW]
    context.tell(f"project {kept}")
    wanted = {name: expected.columns[name] for name in kept if name in expected.columns}
    quoted = [quote(name) for name in wanted]
    return state.then(eu.project(quoted), Expected(wanted, expected.groups), state.ordered)


def some_rows(state: State) -> State:
    """Selects rows by their number."""
    context, expected = state.context, state.expected
    by, rest = context.luck.choice([(2, 0), (3, 1), (7, 3), (1000, 5)])
    context.tell(f"filter r % {by} = {rest}")
    numbers = expected.columns[tables.ROW].raw
    # As in SQL, the remainder of a negative number is negative.
    fits = [one is not None and abs(one) % by == rest for one in numbers]
    fits = [fit and (rest == 0 or one > 0) for fit, one in zip(fits, numbers)]
    at = [row for row, fit in enumerate(fits) if fit]
    module = eu.filter(f"{tables.ROW} % {by} = {rest}")
    return state.then(module, expected.take(at), state.ordered)


def limit(state: State) -> State:
    """The first rows, if there is an order; otherwise any rows. It ends the flow."""
    context, expected = state.context, state.expected
    size = len(expected)
    rows = context.luck.choice([0, 1, 10, size // 2, size, size + 5])
    offset = context.luck.choice([0, 0, 1, size // 3, size + 1])
    context.tell(f"limit {rows}, offset {offset}")
    at = list(range(size))[offset : offset + rows]
    module = eu.limit(rows, offset=offset)
    then = state.then(module, expected.take(at), state.ordered, many=False)
    then.left = expected
    return then


def union(state: State) -> State:
    """Appends more rows of the same types."""
    context, expected = state.context, state.expected
    if any(column.kind is None for column in expected.columns.values()):
        return state
    parts, whole = [state.placed], expected
    fields = [(name, column.kind) for name, column in expected.columns.items()]
    for _ in range(context.luck.choice([1, 1, 2])):
        rows = tables.row_count(context.data, 300)
        made = {name: values.array(context.data, kind, rows) for name, kind in fields}
        table = tables.in_pieces(context.data, pa.table(list(made.values()), names=list(made)))
        other = start(context, table, flow=state.flow)
        parts.append(other.placed)
        columns = {
            name: column.behind(whole.columns[name])
            for name, column in other.expected.columns.items()
        }
        whole = Expected(columns, [0] * (len(whole) + rows))
    context.tell(f"union of {len(parts)}")
    placed = state.flow.place(eu.union())
    for at, part in enumerate(parts):
        state.flow.attach(part, placed, input=at)
    return State(context, state.flow, placed, whole, False)


def join(state: State) -> State:
    """Joins with another table, by up to two columns."""
    context, left = state.context, state.expected
    usable = [name for name, column in left.columns.items() if can_be_key(column)]
    usable = [name for name in usable if name != tables.ROW or context.luck.random() < 0.2]
    if not usable:
        return state
    on = context.luck.sample(usable, min(len(usable), context.luck.choice([1, 1, 2])))
    how = context.luck.choice(HOWS)
    build = context.luck.choice(["auto", "left", "right"])
    types = [twin(context, left.columns[name].kind) for name in on]
    types += [values.any_type(context.data) for _ in range(context.luck.randrange(3))]
    rows = tables.row_count(context.data, 1000)
    few = range(len(on))
    right = tables.table(context.data, types, rows, few=few, numbered=tables.ROW, prefix="j")
    right = _sharing(context, left, right, on)
    keys = list(zip(on, right.column_names))
    named = [{"left": one, "right": other} for one, other in keys]
    where = context.luck.choice([None, None, *WHERE])
    context.tell(f"{how} join on {named}, build {build}, where {where}; {right.schema}")
    other = start(context, right, flow=state.flow)
    count = context.luck.choice([None, None, 1, 2, 3])
    module = eu.join(named, how=how, build=build, where=where)
    placed = state.flow.place(module, count=count)
    state.flow.attach(state.placed, placed, input="left")
    state.flow.attach(other.placed, placed, input="right")
    wanted = joined(context, left, other.expected, keys, how, where)
    return State(context, state.flow, placed, wanted, False)


def joined(
    context: Context,
    left: Expected,
    right: Expected,
    keys: list[tuple[str, str]],
    how: str,
    where: str | None,
) -> Expected:
    """The rows of a join, from the matching pairs."""
    pairs = oracles.pairs(context.luck, (left, right), keys, where and WHERE[where])
    matched = {one for one, _ in pairs}, {other for _, other in pairs}
    at: list[tuple[int | None, int | None]] = list(pairs)
    if how in ("semi", "anti"):
        rows = [row for row in range(len(left)) if (row in matched[0]) == (how == "semi")]
        return left.take(rows, [0] * len(rows))
    if how in ("left", "full"):
        at += [(row, None) for row in range(len(left)) if row not in matched[0]]
    if how in ("right", "full"):
        at += [(None, row) for row in range(len(right)) if row not in matched[1]]
    at_left, at_right = [one for one, _ in at], [other for _, other in at]
    columns = {name: column.take(at_left) for name, column in left.columns.items()}
    for one, other in keys:
        columns[one] = _key_column(left.columns[one], right.columns[other], at, how)
    for name, column in right.columns.items():
        if name not in [other for _, other in keys]:
            columns[f"{name}_right" if name in left.columns else name] = column.take(at_right)
    return Expected(columns, [0] * len(at))


def _key_column(left: Column, right: Column, at: list[Any], how: str) -> Column:
    """A key takes the value of the side that has a row: the right's in a right join."""
    if how not in ("right", "full"):
        return left.take([one for one, _ in at])
    # Where types differ, the key has a type that holds the values of both.
    kind = left.kind if left.kind == right.kind else None
    if how == "right":
        return dataclasses.replace(right.take([other for _, other in at]), kind=kind, norm=None)
    raw = [right.raw[other] if one is None else left.raw[one] for one, other in at]
    return Column(kind, raw, None)


def _sharing(context: Context, left: Expected, right: pa.Table, on: list[str]) -> pa.Table:
    """A column with some of the left key's values, if the types are equal."""
    for at, name in enumerate(on):
        column = left.columns[name]
        field = right.schema.field(at)
        if column.norm is None or column.norm.type != field.type or not len(left):
            continue
        places = [context.data.randrange(len(left)) for _ in range(right.num_rows)]
        mixed = column.norm.take(pa.array(places, pa.int64()))
        right = right.set_column(at, field.with_nullable(True), mixed)
    return right


def twin(context: Context, kind: pa.DataType) -> pa.DataType:
    """A type whose values may equal those of this one."""
    types, luck = pa.types, context.luck
    while types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        return luck.choice([kind, kind, *values.SIGNED, *values.UNSIGNED])
    if kind in values.TEXTS:
        return luck.choice([kind, *values.TEXTS, pa.dictionary(pa.int32(), pa.string())])
    if kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        return luck.choice([pa.binary(), pa.large_binary(), pa.binary_view()])
    return kind


def sortable_types(context: Context) -> list[pa.DataType]:
    """Two types with an order."""
    kinds: list[pa.DataType] = []
    while len(kinds) < 2:
        kind = values.any_type(context.data)
        if can_sort(Column(kind, [], None)):
            kinds.append(kind)
    return kinds


def save_arrow(table: pa.Table, path: Any) -> None:
    """Writes the table with pyarrow."""
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())


def can_be_key(column: Column) -> bool:
    """Whether it can be a join or group key: it has a simple type."""
    return column.kind is not None and column.norm is not None


def can_sort(column: Column) -> bool:
    """Whether its order is documented."""
    return not _has(column.kind, lambda kind: pa.types.is_union(kind) or pa.types.is_interval(kind))


def _has(kind: pa.DataType | None, is_it: Callable[[pa.DataType], bool]) -> bool:
    if kind is None or is_it(kind):
        return True
    return any(_has(kind.field(at).type, is_it) for at in range(kind.num_fields))


def key(context: Context, name: str) -> dict[str, Any]:
    """A sort key, with random options."""
    draw = context.luck.random
    return {"column": name, "descending": draw() < 0.5, "nulls_first": draw() < 0.5}


def _plain(name: str) -> dict[str, Any]:
    return {"column": name, "descending": False, "nulls_first": False}


def quote(name: str) -> str:
    """A name quoted for SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
