"""Modules that a project's scripts define are offered once the script has run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from studio_server import Studio, flow

OWN_MODULES = '''"""Modules of a project, and a flow of them."""

import pathlib
from typing import Literal

import euphrates as eu

pathlib.Path("ran").touch()


def doubled(batch, times: int = 2):
    """Every row some times over."""
    return batch


def _hidden(batch):
    return batch


def says(text: str):
    return text


class First(eu.Module):
    """Hands on the first rows.

    Of every instance.
    """

    outputs = ("out", "rest")

    def __init__(self, rows: int, how: Literal["fast", "slow"] = "fast"):
        self.rows = rows

    def run(self, ports):
        for batch in ports:
            ports.put(batch.slice(0, self.rows))


class Open(eu.Module):
    def __init__(self, *names):
        self.outputs = names

    def run(self, ports):
        pass
'''


def test_user_modules_are_listed_after_their_script_runs(studio: Studio) -> None:
    root = Path(studio.ask("GET", "/api/session")["root"])
    (root / "own").mkdir()
    (root / "own" / "mine.py").write_text(OWN_MODULES)
    document = flow(
        ("generate", {"what": "integers", "rows": 100}),
        ("python", {"module": "own/mine.py:First", "kwargs": {"rows": 3}}),
        ("collect", {}),
    )
    document["modules"].append({"id": "rest", "module": "collect", "config": {}})
    document["queues"].append({"from": "python_1", "output": "rest", "to": "rest"})

    def own() -> dict[str, Any]:
        return {one["name"]: one for one in studio.ask("GET", "/api/modules") if "own" in one}

    # Inspecting it runs nothing.
    studio.ask("POST", "/api/check", {"document": document, "variables": {}})
    studio.ask("GET", "/api/file?path=own/mine.py")
    assert studio.ask("POST", "/api/script", {"path": "own/mine.py"}) == {"needs_trust": True}
    assert own() == {} and not (root / "ran").exists()
    # It defines modules and no flow.
    asked = {"path": "own/mine.py", "run": True}
    assert studio.ask("POST", "/api/script", asked) == {"document": None, "modules": 3}
    assert (root / "ran").exists()
    known = own()
    assert list(known) == [f"own/mine.py:{name}" for name in ("First", "Open", "doubled")]
    first = known["own/mine.py:First"]
    assert (first["summary"], first["detail"]) == ("Hands on the first rows.", "Of every instance.")
    assert (first["inputs"], first["outputs"]) == (["in"], ["out", "rest"])
    assert first["config"]["required"] == ["rows"]
    assert first["config"]["properties"] == {
        "rows": {"type": "integer"},
        "how": {
            "oneOf": [{"type": "string", "const": word} for word in ("fast", "slow")],
            "default": "fast",
        },
    }
    assert first["own"]["title"] == "First" and first["own"]["file"] == "own/mine.py"
    assert known["own/mine.py:Open"]["outputs"] == "configured"
    assert known["own/mine.py:Open"]["config"]["additionalProperties"] is True
    doubled = known["own/mine.py:doubled"]
    assert doubled["own"]["module"] == "map" and doubled["own"]["arguments"] == "arguments"
    assert doubled["summary"] == "Every row some times over."
    assert doubled["config"]["properties"] == {"times": {"type": "integer", "default": 2}}
    # A flow of them runs, in process and on workers, which find the script.
    (root / "ran").unlink()
    for cluster in ("", "processes:2"):
        run = studio.ended(studio.run(document, cluster=cluster))
        assert run["state"] == "done", run
        assert run["collected"]["collect_2"]["rows"][0] == ["0"]


def test_script_modules_are_named_relative_to_the_project(studio: Studio) -> None:
    root = Path(studio.ask("GET", "/api/session")["root"])
    text = OWN_MODULES + (
        "\nflow = eu.Flow('own')\n"
        "flow.chain(eu.generate('integers', rows=4), eu.map(doubled), eu.collect())\n"
        "print('{')\nprint('hello')\n"
    )
    (root / "flow.py").write_text(text)
    told = studio.ask("POST", "/api/script", {"path": "flow.py", "run": True})
    assert told["document"]["modules"][1]["config"] == {"function": "flow.py:doubled"}
    assert studio.ended(studio.run(told["document"]))["state"] == "done"
    # Removed definitions are forgotten when it runs again.
    (root / "flow.py").write_text("x = 1\n")
    with pytest.raises(AssertionError, match="neither a flow nor a module"):
        studio.ask("POST", "/api/script", {"path": "flow.py", "run": True})
