"""The notebook view of a flow, without a browser: the messages it sends and accepts."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm

import euphrates as eu
from euphrates import _euphrates, notebook

WAIT_SECONDS = 60
ENDLESS = 2**50


class Page(BaseComm):
    """A page that shows a view: it receives updates and acknowledges them, unless it does not
    read.
    """

    made: list[Page] = []  # noqa: RUF012 - one list for all of a test
    reads = True

    def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
        if msg_type == "comm_open":
            Page.made.append(self)
            self.state: dict[str, str] = {}
            self.told: list[dict[str, str]] = []
            self.is_news = threading.Condition()
        if "state" not in data:
            return
        with self.is_news:
            self.state.update(data["state"])
            self.told.append(data["state"])
            self.is_news.notify_all()
        if self.reads and data["state"].get("progress"):
            self.say({"seen": True})

    def say(self, content: Any) -> None:
        data = {"method": "custom", "content": content}
        self.handle_msg({"content": {"data": data}, "buffers": []})

    def heard(self, name: str) -> list[Any]:
        """All updates of one kind."""
        told = [state[name] for state in self.told if name in state]
        return [json.loads(text) for text in told if text]

    def wait(self, name: str, is_it: Any) -> Any:
        """Waits until the last update satisfies the condition."""
        with self.is_news:

            def now() -> Any:
                text = self.state.get(name)
                return text and is_it(json.loads(text))

            assert self.is_news.wait_for(now, WAIT_SECONDS)
            return json.loads(self.state[name])


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Page]]:
    monkeypatch.setattr(comm, "create_comm", Page)
    monkeypatch.setattr(Page, "made", [])
    if _euphrates.notebook() is None:
        monkeypatch.setattr(_euphrates, "notebook", lambda: "export default {}")
    yield Page.made


def view_of(flow: eu.Flow, pages: list[Page], **options: Any) -> tuple[notebook.View, Page]:
    view = eu.studio(flow, **options)
    return view, pages[-1]


def counted(rows: int) -> eu.Flow:
    flow = eu.Flow("counted")
    flow.chain(eu.generate("integers", rows=rows), eu.count(), eu.collect())
    return flow


def test_wheel_contains_the_notebook_view() -> None:
    page = _euphrates.notebook()
    if "EUPHRATES_CI" not in os.environ and page == "export default {}":
        pytest.skip("built without Node")
    assert page is not None and "export default{render" in page
    # It loads no external resource.
    assert "import(" not in page and "fetch(" not in page


def test_view_shows_a_flow_before_the_run(pages: list[Page]) -> None:
    flow = eu.Flow("shown")
    flow.chain(eu.generate("integers", rows=10), lambda batch: batch, eu.collect())
    _, page = view_of(flow, pages)
    document = json.loads(page.state["document"])
    assert [module["id"] for module in document["modules"]] == ["generate_1", "map_1", "collect_1"]
    # In-process objects have a name, and no number.
    assert document["modules"][1]["config"]["function"].endswith("<lambda>")
    assert page.state["status"] == ""


class Parted(eu.Module):
    """Every other row."""

    outputs = ("even",)

    def run(self, ports: eu.Ports) -> None:
        for batch in ports:
            ports.put("even", batch)


def test_notebook_defined_modules_are_described(pages: list[Page]) -> None:
    class Local(Parted):
        def __init__(self, kept: object) -> None:
            self.kept = kept

    flow = eu.Flow("own")
    source = flow.place(eu.generate("integers", rows=10))
    for module in (Parted, Local(object())):
        source = flow.attach(source, flow.place(module))
    flow.chain(source, lambda batch: batch, lambda batch: batch.slice(0, 1), eu.collect())
    view, page = view_of(flow, pages)
    known = {one["name"]: one for one in json.loads(page.state["modules"])}
    nodes = json.loads(page.state["document"])["modules"]
    named = [node["config"].get("module") or node["config"].get("function") for node in nodes]
    assert all(name in known for name in named[1:-1]) and len(known) == 4
    assert [known[name]["own"]["title"] for name in named[1:4]] == ["Parted", "Local", "<lambda>"]
    assert known[named[2]]["outputs"] == ["even"]
    # The page's name of a queue's end equals the engine's.
    view.run()
    assert view.wait(WAIT_SECONDS), view.error
    (*_, last) = page.heard("progress")
    assert [queue["from"][1] for queue in last["queues"]][1:3] == ["even", "even"]


def test_view_follows_a_run_to_its_report(pages: list[Page]) -> None:
    view, page = view_of(counted(1000), pages)
    view.run()
    assert view.wait(WAIT_SECONDS)
    begun, ended = page.heard("status")
    assert (begun["state"], ended["state"]) == ("running", "done")
    assert view.error is None and view.report is not None
    assert ended["report"] == json.loads(view.report.to_json())
    assert view.report.collected().to_pydict()["count"] == [1000]
    # Even a short run sends its final progress.
    (*_, last) = page.heard("progress")
    assert [module["state"] for module in last["modules"]] == ["ended"] * 3
    assert [queue["from"] for queue in last["queues"]] == [
        ["generate_1", "out"],
        ["count_1", "out"],
    ]


def test_view_runs_stops_and_reruns(pages: list[Page]) -> None:
    view, page = view_of(counted(ENDLESS), pages)
    page.say({"wish": "run"})
    running = page.wait("progress", lambda live: live["modules"][0]["rows_out"] > 0)
    assert running["queues"][0]["bound_bytes"] > 0
    page.say({"wish": "stop"})
    assert view.wait(WAIT_SECONDS)
    assert page.wait("status", lambda run: run["state"] == "stopped")["id"] == "1"
    assert view.report is None and isinstance(view.error, eu.Interrupted)
    page.say({"wish": "run"})
    assert page.wait("status", lambda run: run["state"] == "running")["id"] == "2"
    view.close()
    assert view.wait(WAIT_SECONDS)


def test_view_names_slow_instances_like_the_engine(pages: list[Page]) -> None:
    gallery = Path(__file__).parents[3] / "studio/gallery/slow_consumer.json"
    slowed = eu.perturb(instance="work.3", share=0.875)
    view, page = view_of(eu.Flow.load(gallery), pages, rows=ENDLESS, perturb=slowed)
    view.run()
    live = page.wait("progress", lambda live: live["slow"] and live["bottleneck"])
    assert [slow["name"] for slow in live["slow"]] == ["work.3"]
    view.stop()
    assert view.wait(WAIT_SECONDS)


def failing(batch: eu.Batch) -> eu.Batch:
    raise ValueError("<b>not</b> with me")


def test_view_shows_a_failure_with_its_traceback(pages: list[Page]) -> None:
    flow = eu.Flow("failing")
    flow.chain(
        eu.generate("integers", rows=10), eu.map(failing, schema={"n": "int64"}), eu.collect()
    )
    view, page = view_of(flow, pages)
    view.run()
    assert view.wait(WAIT_SECONDS)
    failure = page.wait("status", lambda run: run["state"] == "failed")["failure"]
    assert failure["module"] == "map_1"
    assert failure["message"] == "ValueError: <b>not</b> with me"
    assert "in failing" in failure["traceback"]
    assert isinstance(view.error, eu.FlowError)
    assert isinstance(view.error.__cause__, ValueError)


def test_failed_start_is_shown_and_raised(pages: list[Page]) -> None:
    flow = eu.Flow("wrong")
    flow.chain(eu.generate("integers", rows=10), eu.filter("m > 3"), eu.collect())
    view, page = view_of(flow, pages)
    with pytest.raises(eu.UsageError, match="filter_1") as raised:
        view.run()
    assert view.error is raised.value
    page.say({"wish": "run"})
    run = page.wait("status", lambda run: run["id"] == "2")
    assert run["state"] == "failed"
    assert "filter_1" in run["failure"]["message"]
    assert view.wait(0)


def test_view_runs_once_at_a_time(pages: list[Page]) -> None:
    view, page = view_of(counted(ENDLESS), pages)
    view.run()
    with pytest.raises(eu.UsageError, match="running already"):
        view.run()
    page.say({"wish": "run"})
    page.say({"wish": "anything else"})
    page.say("nonsense")
    assert json.loads(page.state["status"])["id"] == "1"
    view.stop()
    assert view.wait(WAIT_SECONDS)


def test_slow_reader_gets_bounded_updates(
    pages: list[Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    view, page = view_of(counted(1), pages)

    class Clock:
        seconds = 1000.0

        @classmethod
        def monotonic(cls) -> float:
            return cls.seconds

    monkeypatch.setattr(notebook, "time", Clock)

    def told_within(seconds: float) -> int:
        told = 0
        for _ in range(int(seconds * 4)):
            Clock.seconds += 0.25
            told += view._may_tell()
        return told

    told_within(10)
    assert told_within(10) == 10
    page.say({"seen": True})
    assert told_within(1) == 4


def test_view_takes_run_options(pages: list[Page]) -> None:
    with pytest.raises(eu.UsageError, match="no option `memry`") as raised:
        eu.studio(counted(1), memry="1GiB")
    assert raised.value.remedy == "did you mean `memory`?"


def test_missing_anywidget_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "euphrates.notebook")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(eu.UsageError) as raised:
        eu.studio(counted(1))
    assert raised.value.remedy == "pip install 'euphrates[notebook]'"


def test_missing_page_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_euphrates, "notebook", lambda: None)
    with pytest.raises(eu.UsageError, match="built without the studio"):
        eu.studio(counted(1))


def test_view_of_a_query_collects_its_rows() -> None:
    view = eu.studio(eu.query({"n": [1, 2, 3]}).filter("n > 1"))
    view.run()
    assert view.wait(WAIT_SECONDS) and view.report is not None
    assert view.report.collected().to_pydict() == {"n": [2, 3]}


def test_exported_page_has_a_picture_of_the_flow() -> None:
    flow = counted(3)
    bundle = eu.studio(flow)._repr_mimebundle_()
    assert bundle is not None
    data = bundle[0]
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"] == data["image/svg+xml"] == flow.draw()
    assert data["text/plain"] == f"<view of {flow!r}>"


def test_notebook_traceback_has_no_frames_of_the_package() -> None:
    interactiveshell = pytest.importorskip("IPython.core.interactiveshell")
    shown: list[str] = []

    class Shell(interactiveshell.InteractiveShell):  # type: ignore[misc, name-defined]
        def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
            shown.extend(stb)

    cell = 'import euphrates as eu\neu.query({"price": [1]}).filter("prize > 0").collect()'
    Shell().run_cell(cell)
    text = "\n".join(shown)
    assert "no column named `prize`" in text and "did you mean `price`?" in text
    assert "File " in text and "euphrates/" not in text and "interactiveshell" not in text
