"""The flow API: place, attach, go, and its errors."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu


def test_flow_is_placed_attached_and_run() -> None:
    flow = eu.Flow("count")
    numbers = flow.place(eu.generate("integers", rows=100_000), count=2)
    counted = flow.place(eu.count())
    assert flow.attach(numbers, counted, bytes_max="1MiB").id == "count_1"
    flow.attach(counted, flow.place(eu.collect()))
    report = flow.go()
    assert report.collected().to_pylist() == [{"count": 100_000}]
    assert [module.id for module in report.modules] == ["generate_1", "count_1", "collect_1"]
    assert report.modules[0].rows_out == 100_000
    assert report.seconds > 0
    assert "generate_1" in str(report)
    assert "generate_1" in report._repr_html_()
    assert json.loads(report.to_json())["name"] == "count"


def test_arrows_and_ports_connect_modules() -> None:
    from functions import Split

    flow = eu.Flow()
    split = flow.place(eu.generate("integers", rows=300_000)) >> Split()
    even, odd = flow.place(eu.collect()), flow.place(eu.collect())
    assert (split["even"] >> even) is not None
    split["odd"] >> odd["in"]  # type: ignore[operator]
    report = flow.go()
    assert len(report.collected(even)) + len(report.collected(odd.id)) == 300_000
    with pytest.raises(eu.UsageError, match="several modules collected"):
        report.collected()
    with pytest.raises(eu.UsageError, match="collected no rows"):
        report.collected("split_1")


def test_module_ids_are_unique_and_selectable() -> None:
    flow = eu.Flow()
    assert [flow.place(eu.count()).id for _ in range(2)] == ["count_1", "count_2"]
    assert flow.place(eu.count(), id="mine").id == "mine"
    with pytest.raises(eu.UsageError, match="`mine`"):
        flow.place(eu.count(), id="mine")
    with pytest.raises(eu.UsageError, match="another flow"):
        eu.Flow().attach(flow.place(eu.count()), "x")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (eu.save("out.csv"), eu.save("./out.csv", overwrite=True), r"/out\.csv"),
        (eu.write("kept"), eu.write("kept", overwrite=True), "collection kept"),
    ],
)
def test_two_modules_with_one_output_are_rejected(one: object, other: object, both: str) -> None:
    flow = eu.Flow()
    tee = flow.place(eu.generate("integers", rows=10)) >> eu.tee()
    for sink in (one, other):
        flow.attach(tee, flow.place(sink))
    with pytest.raises(eu.UsageError, match=f"{both} is made by two modules"):
        flow.check()


def test_module_functions_have_real_signatures() -> None:
    signature = inspect.signature(eu.generate)
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    assert kinds["what"] is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert kinds["rows"] is inspect.Parameter.KEYWORD_ONLY
    assert "TPC-H" in (eu.generate.__doc__ or "")
    with pytest.raises(TypeError, match="rowz"):
        eu.generate("integers", rowz=1)
    with pytest.raises(TypeError, match="what"):
        eu.generate()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda flow: None, "no modules"),
        (lambda flow: flow.place(eu.generate("integers", rows=1)), "goes nowhere"),
        (lambda flow: flow.chain(eu.generate("integers"), eu.collect()), "`rows` is missing"),
        (lambda flow: flow.chain(eu.module("sirt"), eu.collect()), "did you mean `sort`"),
        (lambda flow: flow.chain(eu.module("count", {"a": 1}), eu.collect()), "`a`"),
        (lambda flow: flow.attach("a", "b"), "no module"),
    ],
)
def test_invalid_flows_are_rejected_before_the_run(
    change: Callable[[eu.Flow], object], says: str
) -> None:
    flow = eu.Flow()
    with pytest.raises(eu.UsageError, match=says) as caught:
        change(flow)
        flow.go()
    assert caught.value.kind == "usage"
    assert isinstance(caught.value, eu.EuphratesError)


def test_error_has_place_and_remedy_and_pickles() -> None:
    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=1), eu.sort(["m"]), eu.collect())
    with pytest.raises(eu.UsageError) as caught:
        flow.check()
    error = caught.value
    assert error.place is not None
    assert error.place.startswith("module sort_1")
    assert error.remedy
    assert f"remedy: {error.remedy}" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.place, again.remedy) == (str(error), error.place, error.remedy)


def test_variables_are_bound_at_run_time() -> None:
    flow = eu.Flow()
    rows = eu.var("rows", default=3, doc="how many")
    flow.chain(eu.generate("integers", rows=rows), eu.collect())
    assert len(flow.go().collected()) == 3
    assert len(flow.go(rows=7).collected()) == 7
    assert len(flow.go(variables={"rows": 8}).collected()) == 8
    with pytest.raises(eu.UsageError, match="did you mean `rows`"):
        flow.go(rowz=7)
    with pytest.raises(eu.UsageError, match="two values"):
        flow.variable("rows", default=4)


def test_documents_roundtrip_through_files(tmp_path: Path) -> None:
    flow = eu.Flow("saved")
    flow.chain(eu.generate("integers", rows=5), eu.collect())
    flow.save(tmp_path / "flow.json")
    again = eu.Flow.load(tmp_path / "flow.json")
    assert again.to_json() == flow.to_json()
    assert len(again.go().collected()) == 5
    with pytest.raises(eu.UsageError, match="not valid JSON"):
        eu.Flow.from_json("{")
    with pytest.raises(eu.UsageError, match="upgrade"):
        eu.Flow.from_json('{"euphrates": 99, "name": "x", "modules": []}')


def test_in_process_objects_are_not_saved() -> None:
    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=5), eu.map(lambda batch: batch), eu.collect())
    assert len(flow.go().collected()) == 5
    with pytest.raises(eu.UsageError, match=r"module map_1: .*lambda.*this process") as caught:
        flow.to_json()
    assert "can be imported" in str(caught.value)
    with pytest.raises(eu.UsageError, match="this process"):
        flow.code()
    assert "a Python object" in flow.draw("mermaid")


def test_explain_describes_the_plan() -> None:
    flow = eu.Flow("explained")
    flow.chain(eu.generate("integers", rows=5), eu.sort(["n"]), eu.collect())
    explained = flow.explain()
    ids = [module["id"] for module in explained.data["modules"]]
    assert ids == ["generate_1", "sort_1_partition", "sort_1", "collect_1"]
    assert "sort_1 → collect_1" in str(explained)
    assert "n: Int64" in str(explained)
    with pytest.raises(eu.UsageError, match="no variable"):
        flow.explain(nothing=1)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1000, 1000),
        ("64MB", 64_000_000),
        ("1GiB", 1 << 30),
        ("1.5 kb", 1500),
        ("12", 12),
        (1e9, 10**9),
    ],
)
def test_sizes_are_parsed(text: float | str, size: int) -> None:
    from euphrates._options import size as parsed

    assert parsed(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", "1XB", 0, "1iB", 0.5, float("nan"), [1]])
def test_invalid_sizes_are_rejected(text: object) -> None:
    with pytest.raises(eu.UsageError):
        eu.Flow().go(memory=text)  # type: ignore[arg-type]


def test_budget_below_the_least_share_is_refused() -> None:
    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=100_000), eu.sort(["n desc"]), eu.collect())
    with pytest.raises(eu.UsageError, match="1000 bytes of memory") as refused:
        flow.go(memory="1kB")
    assert refused.value.remedy == "give at least 4MiB, better 128MiB"
    assert flow.go(memory="4MiB").collected().num_rows == 100_000


def test_started_flow_can_be_awaited() -> None:
    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=1_000_000), eu.count(), eu.collect())
    running = flow.start()
    assert running.wait()
    assert [module.state for module in running.progress().modules] == ["ended"] * 3
    assert running.finish().collected().to_pydict() == {"count": [1_000_000]}
    with pytest.raises(eu.UsageError, match="already"):
        running.finish()


def test_cancelled_flow_raises_interrupted() -> None:
    flow = eu.Flow()
    flow.chain(eu.generate("records", rows=10**12), eu.count(), eu.collect())
    running = flow.start()
    assert not running.wait(0.01)
    running.cancel()
    assert running.wait()
    with pytest.raises(eu.Interrupted):
        running.finish()


TRACED = """
import sys
import threading
import euphrates as eu

entered = threading.Event()

def endless(batch):
    while batch.num_rows:
        entered.set()
        threading.Event().wait(0.01)
    return batch

def called():
    return "called"

flow = eu.Flow()
flow.chain(eu.generate("integers", rows=100), eu.map({function}, rows_per_call=10), eu.collect())
running = flow.start()
if {is_cancelled}:
    entered.wait()
    running.cancel()
try:
    running.finish()
except eu.Interrupted:
    print("interrupted")
sys.settrace(lambda *_: None)
print(called())
"""


@pytest.mark.parametrize(
    ("function", "is_cancelled", "printed"),
    [("lambda batch: batch", False, "called\n"), ("endless", True, "interrupted\ncalled\n")],
    ids=["ended", "cancelled"],
)
def test_calls_can_be_traced_after_a_flow_with_python_code(
    function: str, is_cancelled: bool, printed: str
) -> None:
    program = TRACED.format(function=function, is_cancelled=is_cancelled)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (printed, "")


def test_limit_behind_ordered_modules_ends_the_flow(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"n": range(1_000_000)}), path, row_group_size=100_000)
    flow = eu.Flow("first")
    projects = flow.place(eu.project(["n"]), count=4)
    flow.chain(eu.scan(path, order=True), projects, eu.limit(5), eu.collect())
    for _ in range(10):
        assert flow.go(memory="32MiB").collected().to_pydict() == {"n": [0, 1, 2, 3, 4]}


def test_progress_callback_is_called() -> None:
    heard = []
    flow = eu.Flow()
    flow.chain(eu.generate("records", rows=10**12), eu.count(), eu.collect())

    def hear(progress: eu.Progress) -> None:
        heard.append(progress)
        if len(heard) == 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        flow.go(progress=hear)
    assert heard[-1].modules[0].id == "generate_1"
    assert heard[-1].modules[0].rows_out > 0
    assert heard[-1].bytes_per_second > 0
    assert "rows in" in str(heard[-1])


def test_threads_run_flows_concurrently() -> None:
    failures = []

    def run(number: int) -> None:
        flow = eu.Flow()
        function = lambda batch: batch.slice(0, number)  # noqa: E731
        flow.chain(eu.generate("integers", rows=60_000), eu.map(function), eu.collect())
        rows = flow.go().collected().num_rows
        if rows != number:
            failures.append((number, rows))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("named", [[0, 1], [1, None], [None, 0], [None, 1]])
def test_named_outputs_leave_the_rest_to_unnamed(
    named: list[int | None],
) -> None:
    flow = eu.Flow("tee")
    tee = flow.place(eu.generate("integers", rows=10)) >> flow.place(eu.tee())
    union = flow.place(eu.union())
    for output in named:
        kept = flow.attach(tee, flow.place(eu.filter("n >= 0")), output=output)
        flow.attach(kept, union)
    flow.attach(union, flow.place(eu.collect()))
    if named == [None, 0]:
        with pytest.raises(eu.UsageError, match="output `0` is attached to"):
            flow.go(progress=False)
    else:
        assert flow.go(progress=False).collected().num_rows == 20


def test_started_flow_refuses_to_open_a_cluster() -> None:
    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=1), eu.collect())
    words: Any = "processes:2"
    with pytest.raises(eu.UsageError, match="give an open one"):
        flow.start(cluster=words)
