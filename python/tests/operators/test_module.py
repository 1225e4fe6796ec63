"""Modules written in Python, with their own ports."""

from __future__ import annotations

import collections
import enum
import json
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu
from functions import Last, Numbers, Paired, Split

Run = Callable[..., eu.Table]


def split_flow(split: Any) -> tuple[eu.Flow, eu.Placed, eu.Placed]:
    flow = eu.Flow("split")
    source = flow.place(eu.generate("integers", rows=300_000), count=1)
    node = flow.place(split, count=1)
    even, odd = flow.place(eu.collect()), flow.place(eu.collect())
    flow.attach(source, node)
    flow.attach(node, even, output="even")
    flow.attach(node, odd, output="odd")
    return flow, even, odd


def test_named_outputs() -> None:
    flow, even, odd = split_flow(Split())
    report = flow.go()
    assert report.collected(even).to_pydict()["n"][0] == 0
    assert len(report.collected(even)) + len(report.collected(odd)) == 300_000


def test_constructor_arguments_are_saved_in_the_document() -> None:
    flow, even, _ = split_flow(Split(first=1))
    config = json.loads(flow.to_json())["modules"][1]["config"]
    assert config == {"module": "functions:Split", "kwargs": {"first": 1}}
    report = eu.Flow.from_json(flow.to_json()).go()
    assert report.collected(even).to_pydict()["n"][0] == 65536


def test_arguments_roundtrip_or_stay_in_process(collected: Run) -> None:
    class Level(enum.IntEnum):
        LOW = 1

    class Tells(eu.Module):
        inputs = ()

        def __init__(self, *args: Any) -> None:
            self.args = args

        def schemas(self, inputs: list[eu.Schema]) -> Any:
            return pa.schema({"kind": pa.string()})

        def run(self, ports: eu.Ports) -> None:
            ports.put(pa.table({"kind": [type(arg).__name__ for arg in self.args]}))

    args = (Level.LOW, collections.defaultdict(int), [Level.LOW], 1, "a", {"b": [None]})
    for given in (args[:1], args[1:2], args[2:3], args[3:]):
        rows = collected(Tells(*given)).to_pydict()["kind"]
        # From each instance.
        assert rows[: len(given)] == [type(arg).__name__ for arg in given]


def test_run_order_from_source_reaches_the_sink() -> None:
    Last.seen.clear()
    flow = eu.Flow()
    flow.chain(Numbers(100, rows=3), Last())
    assert flow.explain().data["queues"][0]["unit"] == "run"
    flow.go()
    assert Last.seen == list(range(300))


def test_select_waits_on_two_inputs() -> None:
    flow = eu.Flow()
    left = flow.place(eu.generate("integers", rows=100_000))
    right = flow.place(eu.generate("integers", rows=7))
    both = flow.place(Paired())
    flow.attach(left, both, input="left")
    flow.attach(right, both, input="right")
    flow.attach(both, flow.place(eu.collect()))
    rows: dict[str, int] = {}
    for row in flow.go().collected().to_pylist():
        rows[row["side"]] = rows.get(row["side"], 0) + row["rows"]
    assert rows == {"left": 100_000, "right": 7}


def test_unserializable_module_stays_in_process(collected: Run) -> None:
    class Adds(eu.Module):
        def __init__(self, function: Callable[[int], int]) -> None:
            self.function = function

        def schemas(self, inputs: list[eu.Schema]) -> Any:
            return pa.schema({"n": pa.int64()})

        def run(self, ports: eu.Ports) -> None:
            for batch in ports:
                ports.put(pa.table({"n": [self.function(n) for n in batch.to_pydict()["n"]]}))

    rows = collected(eu.generate("integers", rows=3, order=True), Adds(lambda n: n + 10))
    assert sorted(rows.to_pydict()["n"]) == [10, 11, 12]


def module(run: Callable[[Any, eu.Ports], None], **attributes: Any) -> eu.Module:
    cls = type("Own", (eu.Module,), {"run": run, **attributes})
    made: eu.Module = cls()
    return made


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda self, ports: ports.get("inn"), "did you mean `in`"),
        (lambda self, ports: ports.get(1), "no input 1"),
        (lambda self, ports: ports.put("ou", ports.get()), "did you mean `out`"),
        (lambda self, ports: ports.put(3), "put was given int"),
        (lambda self, ports: ports.put(pa.table({"m": [1]})), "promised were n: Int64"),
        (lambda self, ports: ports.end_run(), "end_run without begin_run"),
        (lambda self, ports: [ports.begin_run(0), ports.begin_run(1)], "begin_run before"),
        (lambda self, ports: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_wrong_port_use_is_rejected(
    run: Callable[[Any, eu.Ports], None], says: str, collected: Run
) -> None:
    with pytest.raises(eu.EuphratesError, match=says) as caught:
        collected(eu.generate("integers", rows=3), module(run))
    assert "module python_1" in str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"inputs": ("a", "a")}, "a name of its own"),
        ({"order": "odd"}, "no order named `odd`"),
        ({"schemas": lambda self, inputs: []}, "returned 0 schemas for 1 outputs"),
        ({"schemas": lambda self, inputs: [3]}, "returned int, not a schema"),
        ({"inputs": ()}, "does not say what it makes"),
    ],
)
def test_invalid_module_classes_are_rejected(attributes: Any, says: str) -> None:
    flow = eu.Flow()
    placed = flow.place(module(lambda self, ports: None, **attributes))
    if "inputs" not in attributes:
        flow.attach(flow.place(eu.generate("integers", rows=3)), placed)
    flow.attach(placed, flow.place(eu.collect()))
    with pytest.raises(eu.UsageError, match=says):
        flow.check()


def test_ports_are_closed_after_the_run(collected: Run) -> None:
    kept = []
    run = lambda self, ports: kept.append((ports, ports.stream()))  # noqa: E731
    collected(eu.generate("integers", rows=3), module(run))
    ports, stream = kept[0]
    with pytest.raises(eu.UsageError, match="after `run` had returned"):
        ports.get()
    with pytest.raises(pa.ArrowInvalid, match="after `run` had returned"):
        pa.table(stream)


def test_input_stream_is_consumed_once(collected: Run) -> None:
    def run(self: Any, ports: eu.Ports) -> None:
        stream = ports.stream()
        assert pa.RecordBatchReader.from_stream(stream).schema.names == ["n"]
        ports.put(pa.RecordBatchReader.from_stream(stream))
        with pytest.raises(pa.ArrowInvalid, match="read twice"):
            pa.table(stream)

    assert len(collected(eu.generate("integers", rows=500_000), module(run))) == 500_000


def test_try_get_does_not_block(collected: Run) -> None:
    def run(self: Any, ports: eu.Ports) -> None:
        assert (ports.instance, ports.instances, ports.inputs) == (0, 1, ["in"])
        rows = 0
        while (batch := ports.try_get()) is not None:
            if batch is eu.EMPTY:
                assert not batch
                ports.check()
                continue
            while not ports.try_put("out", batch):
                ports.check()
            rows += len(batch)
        assert rows == 200_000

    rows = collected(eu.generate("integers", rows=200_000), module(run, parallel=False))
    assert len(rows) == 200_000


def test_try_put_takes_one_batch_of_any_library(collected: Run) -> None:
    def run(self: Any, ports: eu.Ports) -> None:
        for batch in ports:
            assert isinstance(batch.to_pyarrow(), pa.RecordBatch)
            while not ports.try_put(batch.to_pyarrow()):
                ports.check()
        with pytest.raises(eu.FlowError, match="try_put was given") as refused:
            ports.try_put(pa.table({"n": [1]}))
        assert refused.value.remedy == "give one record batch; `put` takes tables and streams"

    rows = collected(eu.generate("integers", rows=1000), module(run, parallel=False))
    assert rows.to_pydict()["n"] == list(range(1000))


def test_module_ends_when_its_readers_are_gone(collected: Run) -> None:
    def run(self: Any, ports: eu.Ports) -> None:
        while True:
            try:
                ports.put(pa.table({"n": [1]}))
            except Exception:
                continue

    source = module(run, inputs=(), schemas=lambda self, inputs: {"n": "int64"}, parallel=False)
    assert len(collected(source, eu.limit(3))) == 3


def test_rows_put_outside_runs_are_kept(collected: Run) -> None:
    def run(self: Any, ports: eu.Ports) -> None:
        batches = list(ports)
        ports.put(batches[0])

    with pytest.raises(eu.FlowError, match="outside of its runs"):
        collected(
            eu.generate("integers", rows=3, order=True), module(run, order="keeps", parallel=False)
        )


class Patient(eu.Module):
    """Waits for its flow to be cancelled, in a way that only `on_stop` can end."""

    inputs = ()
    entered, ended = threading.Event(), threading.Event()

    def schemas(self, inputs: list[eu.Schema]) -> Any:
        return {"n": "int64"}

    def run(self, ports: eu.Ports) -> None:
        library = threading.Event()
        ports.on_stop(library.set)
        self.entered.set()
        try:
            library.wait()
        finally:
            self.ended.set()


def test_on_stop_is_called_when_the_flow_is_cancelled() -> None:
    flow = eu.Flow("patient")
    flow.attach(flow.place(Patient(), count=1), flow.place(eu.collect()))
    running = flow.start()
    assert Patient.entered.wait(20)
    running.cancel()
    assert Patient.ended.wait(20)
    with pytest.raises(eu.Interrupted):
        running.finish()
