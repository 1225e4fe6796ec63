"""Modules that preserve their input, or only reorder it, in the middle of a flow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import euphrates as eu

from . import oracles, steps, tables, values
from .columns import Expected
from .context import Context, WrongAnswerError
from .steps import State


def same(batch: eu.Batch) -> Any:
    """Returns its batch by way of pyarrow."""
    return batch.to_pyarrow()


def count_of_keys(part: eu.Batch) -> Any:
    """The number of rows of each key of a partition: its last column."""
    table = pa.table(part)
    keys = table.column(table.num_columns - 1)
    return pa.table({"key": keys.cast(pa.int64())}).group_by("key").aggregate([([], "count_all")])


def identity(state: State) -> State:
    """A random one of them."""
    ways = [through_map, tee_and_union, divide_and_union, whole_sample]
    return state.context.luck.choice(ways)(state)


def through_map(state: State) -> State:
    """A Python function that returns its input."""
    state.context.tell("map")
    return state.then(eu.map(same), state.expected, state.ordered)


def tee_and_union(state: State) -> State:
    """Every row twice."""
    state.context.tell("tee and union")
    size = len(state.expected)
    twice = state.expected.take([*range(size)] * 2, [0] * (2 * size))
    return _apart_and_together(state, eu.tee(), 2, twice)


def divide_and_union(state: State) -> State:
    """Rows divided by ranges of their number, and united again."""
    if tables.ROW not in state.expected.columns:
        return state
    state.context.tell("divide and union")
    bag = Expected(state.expected.columns, [0] * len(state.expected))
    ways = state.context.luck.choice([1, 2, 3])
    return _apart_and_together(state, eu.divide([tables.ROW]), ways, bag)


def _apart_and_together(state: State, module: Any, ways: int, expected: Expected) -> State:
    flow = state.flow
    apart, together = flow.place(module), flow.place(eu.union())
    flow.attach(state.placed, apart)
    for way in range(ways):
        flow.attach(apart, together, output=way, input=way)
    return State(state.context, flow, together, expected, False)


def whole_sample(state: State) -> State:
    """A sample of all rows."""
    state.context.tell("sample")
    if state.context.luck.random() < 0.5:
        return state.then(eu.sample(fraction=1.0), state.expected, state.ordered)
    bag = Expected(state.expected.columns, [0] * len(state.expected))
    module = eu.sample(rows=len(state.expected) + 1)
    return state.then(module, bag, False, many=False)


def merging(context: Context) -> None:
    """Sorted streams merged into one; among equal keys the earlier input comes first."""
    flow = eu.Flow("fuzz")
    parts = []
    kinds = steps.sortable_types(context)
    by = [steps.key(context, at) for at in ["c0", "c1"][: context.luck.choice([1, 2])]]
    for _ in range(context.luck.randrange(1, 4)):
        rows = tables.row_count(context.data, 500)
        made = tables.table(context.data, kinds, rows, few=[0], names=["c0", "c1"])
        state = steps.start(context, context.table(made), flow=flow, ordered=True)
        if not {"c0", "c1"} <= state.expected.columns.keys():
            return
        wanted = oracles.sort(context.luck, state.expected, by, True)
        parts.append(state.then(eu.sort(by, stable=True), wanted, True))
    context.tell(f"merge {len(parts)} by {by}")
    merge = flow.place(eu.merge(by))
    whole = parts[0].expected
    flow.attach(parts[0].placed, merge, input=0)
    for at, part in enumerate(parts[1:], 1):
        flow.attach(part.placed, merge, input=at)
        names = part.expected.columns.items()
        columns = {name: column.behind(whole.columns[name]) for name, column in names}
        whole = Expected(columns, [*range(len(whole) + len(part.expected))])
    wanted = oracles.sort(context.luck, whole, by, True)
    flow.attach(merge, flow.place(eu.collect()))
    found = pa.table(context.go(flow).collected())
    wrong = wanted.difference(found, exact=True)
    if wrong:
        raise WrongAnswerError(wrong)


def whole_groups(context: Context) -> None:
    """After a partition, a function sees all rows of a key together, and each key once."""
    rows = tables.row_count(context.data)
    keys = [context.data.randrange(context.luck.choice([1, 5, 1000])) for _ in range(rows)]
    kinds = steps.sortable_types(context)
    made = tables.table(context.data, kinds, rows, numbered=None)
    table = made.append_column("key", pa.array(keys, pa.int64()))
    state = steps.start(context, table)
    context.tell(table.schema)
    by = [{"column": "key", "descending": context.luck.random() < 0.5}]
    flow = state.flow
    flow.chain(state.placed, eu.partition(by, together=True), eu.map(count_of_keys), eu.collect())
    found = pa.table(context.go(flow).collected())
    counts = {key: keys.count(key) for key in set(keys)}
    pairs = list(zip(found["key"].to_pylist(), found["count_all"].to_pylist()))
    if len(pairs) != len(counts) or dict(pairs) != counts:
        raise WrongAnswerError(f"{pairs[:10]}… instead of {list(counts.items())[:10]}…")


def again(context: Context) -> None:
    """`resume` skips finished outputs, unless their sources have changed."""
    context.place = "here"
    # pyarrow cannot unify dictionaries with nulls, as a file needs.
    kinds = [values.leaf(context.data) for _ in range(2)]
    table = tables.table(context.data, kinds, 50)
    source, target = context.path(".arrow"), context.path(".arrow")
    steps.save_arrow(table, source)
    flow = eu.Flow("again")
    flow.chain(eu.scan(source, order=True), eu.save(target))
    for made_before in (False, True, True):
        if bool(context.go(flow, resume=True).made_before) != made_before:
            raise WrongAnswerError(f"made before: not {made_before}")
        found = context.collected(eu.scan(target, order=True))
        wrong = Expected.of(table, True).difference(found, exact=False)
        if wrong:
            raise WrongAnswerError(wrong)
    steps.save_arrow(table.slice(1), source)
    try:
        context.go(flow, resume=True)
    except eu.UsageError as error:
        if "has changed" not in str(error):
            raise
    else:
        raise WrongAnswerError("the source has changed, and the output was taken for its own")
