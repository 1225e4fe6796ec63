"""A join before a `limit` ends when the limit has enough, whichever instances have noticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu
from join_tables import HOWS, spill_tables, tables

SPILLING = {"memory": "32MiB"}
ROWS = 200_000


@pytest.fixture(scope="module", params=["program", "processes"])
def place(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Options of `go`: this process, or two others."""
    if request.param == "program":
        yield {}
        return
    with eu.Cluster.processes(2) as cluster:
        yield {"cluster": cluster}


def limited(left: Any, right: Any, rows: int, go: dict[str, Any], **options: Any) -> int:
    """The rows that come out of a join by `k` on four instances behind a limit."""
    flow = eu.Flow("limited")
    join = flow.place(eu.join("k", **options), count=4)
    for side, source in (("left", left), ("right", right)):
        flow.attach(source(flow), join, input=side)
    limit = flow.place(eu.limit(rows))
    # With so little room, an instance with many rows waits until the limit takes them or leaves.
    flow.attach(join, limit, bytes_max="64KiB")
    flow.attach(limit, flow.place(eu.collect()))
    return len(flow.go(**go).collected())


def given(table: pa.Table) -> Any:
    return lambda flow: flow.place(eu.from_arrow(table))


class OneBatch(eu.Module):
    """Rows without keys in one batch: one instance of the join gets all of them."""

    inputs = ()

    def run(self, ports: Any) -> None:
        ports.put(pa.table({"k": pa.nulls(ROWS, pa.int64()), "row": range(ROWS)}))

    def schemas(self, inputs: Any) -> Any:
        return [{"k": "int64", "row": "int64"}]


def one_batch(flow: eu.Flow) -> Any:
    return flow.place(OneBatch(), count=1)


@pytest.mark.parametrize("rows", [0, 1, 10])
@pytest.mark.parametrize(
    ("how", "side"),
    [("left", "left"), ("full", "left"), ("anti", "left"), ("right", "right"), ("full", "right")],
)
def test_one_instance_has_all_rows_of_the_build_side(
    how: str, side: str, rows: int, place: dict[str, Any]
) -> None:
    """The instance puts them before all have taken the build side, for which the others wait."""
    few = given(pa.table({"k": [1, 2], "other": [3, 4]}))
    left, right = (one_batch, few) if side == "left" else (few, one_batch)
    assert limited(left, right, rows, place, how=how, build=side) == rows


@pytest.mark.parametrize("rows", [0, 1, 10])
@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", HOWS)
def test_joins_beyond_memory(how: str, build: str, rows: int, place: dict[str, Any]) -> None:
    left, right = spill_tables(list(range(ROWS)), ROWS // 2)
    left = left.append_column("pad_left", right["pad"].slice(0, left.num_rows))
    # No left row has one of the last keys.
    left = left.set_column(0, "k", pa.compute.subtract(left["k"], 10_000))
    go = {**place, **SPILLING}
    assert limited(given(left), given(right), rows, go, how=how, build=build) == rows


@pytest.mark.parametrize("rows", [0, 1, 10])
@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", HOWS)
def test_joins_in_memory(how: str, build: str, rows: int, place: dict[str, Any]) -> None:
    left, right = (
        pa.Table.from_batches(table.select(columns).to_batches(max_chunksize=500))
        for table, columns in zip(
            tables(4, rows=20_000), (["k", "a_text"], ["k", "b_text"]), strict=True
        )
    )
    assert limited(given(left), given(right), rows, place, how=how, build=build) == rows


class Passing(eu.Module):
    """Passes its batches on; instance 0 has enough after one."""

    def run(self, ports: Any) -> None:
        for batch in ports:
            ports.put(batch)
            if ports.instance == 0:
                return

    def schemas(self, inputs: Any) -> Any:
        return [inputs[0]]


def test_consumer_of_a_pairwise_queue_that_ends_takes_no_rows_from_others() -> None:
    keys = pa.table({"k": range(ROWS), "text": ["x" * 60] * ROWS})
    table = pa.Table.from_batches(keys.to_batches(max_chunksize=2000))
    flow = eu.Flow("pairs")
    join = flow.place(eu.join("k", build="right"), count=4)
    for side in ("left", "right"):
        flow.attach(flow.place(eu.from_arrow(table)), join, input=side)
    passing = flow.place(Passing(), count=4)
    flow.attach(join, passing, queue="pairwise", bytes_max="16KiB")
    flow.attach(passing, flow.place(eu.collect()))
    try:
        rows = len(flow.go(memory="16MiB", progress=False).collected())
    except eu.FlowError as error:
        assert "stands still" in str(error)
    else:
        assert rows > ROWS // 2
