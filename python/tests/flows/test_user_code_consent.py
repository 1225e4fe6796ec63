"""A check calls no user code without consent, for every module and every way to inspect a
document.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu
from euphrates import _euphrates

# A marker of execution: it writes a file beside the flow.
VICTIM = """
from pathlib import Path
Path(__file__).with_name("ran").write_text("imported")
import euphrates as eu
import pyarrow as pa

def rows():
    Path(__file__).with_name("ran").write_text("called")
    return pa.table({"n": [1, 2]})

def same(batch):
    Path(__file__).with_name("ran").write_text("called")
    return batch

class Same(eu.Module):
    inputs, outputs = ["in"], ["out"]
    def __init__(self, *rest):
        Path(__file__).with_name("ran").write_text("made")
    def schemas(self, inputs):
        return inputs
    def run(self, ports):
        for batch in ports:
            ports.put(batch)
"""

NUMBERS = {"id": "numbers", "module": "generate", "config": {"what": "integers", "rows": 4}}
SAVE = {"id": "save", "module": "save", "config": {"path": "out.csv"}}


def user_code() -> dict[str, dict[str, Any]]:
    """Configurations of modules that run user code, by module."""
    return {
        "from_arrow": {"data": "victim.py:rows"},
        "map": {"function": "victim.py:same"},
        "python": {"module": "victim.py:Same", "args": [1]},
        "external_sql": {"query": "copy (select 1 as n) to 'ran'"},
    }


def flow_of(module: str, config: dict[str, Any]) -> dict[str, Any]:
    """A document with the module in the middle, or first if it has no input."""
    node = {"id": "it", "module": module, "config": config}
    line = [node, SAVE] if module == "from_arrow" else [NUMBERS, node, SAVE]
    queues = [{"from": a["id"], "to": b["id"]} for a, b in zip(line, line[1:], strict=False)]
    return {"euphrates": 1, "name": "theirs", "modules": line, "queues": queues}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "victim.py").write_text(VICTIM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "euphrates", *words)
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)


def test_every_user_code_module_is_covered() -> None:
    specs = json.loads(_euphrates.specs())
    assert {spec["name"] for spec in specs if spec["user_code"]} == set(user_code())


@pytest.mark.parametrize("module", user_code())
@pytest.mark.parametrize("words", ["check", "show", "show --as json", "code"])
def test_inspecting_a_document_calls_no_user_code(folder: Path, module: str, words: str) -> None:
    (folder / "flow.json").write_text(json.dumps(flow_of(module, user_code()[module])))
    name, *more = words.split()
    done = command(folder, name, "flow.json", *more)
    assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists()
    if name == "check":
        assert f"it ({module}) was not checked: it calls user code" in done.stdout
        assert "save (save) was not checked: it follows" in done.stdout
        assert "--trust" in done.stdout


@pytest.mark.parametrize("module", user_code())
def test_trusted_document_is_fully_checked(folder: Path, module: str) -> None:
    config = {"query": "select * from input"} if module == "external_sql" else user_code()[module]
    (folder / "flow.json").write_text(json.dumps(flow_of(module, config)))
    done = command(folder, "check", "flow.json", "--trust")
    assert done.returncode == 0, done.stderr
    assert "is sound\n" in done.stdout and "not checked" not in done.stdout
    assert (folder / "ran").exists() == (module != "external_sql")


def test_pydoc_pager_is_rejected_as_a_source(folder: Path) -> None:
    config = {"module": "pydoc:pipepager", "args": ["", "touch ran"]}
    (folder / "flow.json").write_text(json.dumps(flow_of("python", config)))
    done = command(folder, "check", "flow.json")
    assert done.returncode == 0 and not (folder / "ran").exists()


def test_check_runs_no_external_program(folder: Path) -> None:
    flow = flow_of("exec", {"command": ["touch", "ran"]})
    flow["modules"][1]["config"].update({"input": "csv", "output": "lines"})
    (folder / "flow.json").write_text(json.dumps(flow))
    done = command(folder, "check", "flow.json")
    assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists()


def test_check_covers_modules_independent_of_user_code(folder: Path) -> None:
    flow = flow_of("map", user_code()["map"])
    flow["modules"].append({"id": "odd", "module": "filter", "config": {"where": "nn > 1"}})
    flow["modules"].append({"id": "tee", "module": "tee", "config": {}})
    flow["queues"][0]["to"] = "tee"
    flow["queues"] += [
        {"from": "tee", "output": "0", "to": "it"},
        {"from": "tee", "output": "1", "to": "odd"},
    ]
    flow["modules"].append({"id": "other", "module": "save", "config": {"path": "other.csv"}})
    flow["queues"].append({"from": "odd", "to": "other"})
    (folder / "flow.json").write_text(json.dumps(flow))
    done = command(folder, "check", "flow.json")
    assert done.returncode == 2
    assert "module odd" in done.stderr and "nn" in done.stderr
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("module", user_code())
def test_flow_loaded_by_a_program_is_untrusted(folder: Path, module: str) -> None:
    text = json.dumps(flow_of(module, user_code()[module]))
    (folder / "flow.json").write_text(text)
    for flow in (eu.Flow.load("flow.json"), eu.Flow.from_json(text)):
        flow.check()
        assert flow.explain().data["unchecked"] == ["it", "save"]
        assert "not checked: it, save" in str(flow.explain())
        with pytest.raises(eu.UsageError, match="calls user code"):
            flow.spelled_out()
        flow.draw()
        flow.code()
    assert not (folder / "ran").exists()


def test_built_and_explicitly_trusted_flows_are_trusted(folder: Path) -> None:
    called = []

    def same(batch: Any) -> Any:
        called.append(batch.num_rows)
        return batch

    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=4), eu.map(same), eu.save("out.csv"))
    flow.check(trust=False)
    assert called == []
    flow.check()
    assert called == [0]
    (folder / "flow.json").write_text(json.dumps(flow_of("map", user_code()["map"])))
    eu.Flow.load("flow.json").check(trust=True)
    assert (folder / "ran").read_text() == "called"


def test_notebook_view_imports_nothing_from_a_document(folder: Path) -> None:
    from euphrates._processes.own import specs_of_flow

    document = flow_of("map", user_code()["map"])
    assert specs_of_flow(document, {}, may_import=False) == []
    assert not (folder / "ran").exists()
    assert [spec["name"] for spec in specs_of_flow(document, {}, may_import=True)]
