"""Opening a flow in the studio gives no consent to run it: no part of it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from euphrates import _euphrates
from studio_server import Studio, flow

RUST_MODULES = Path(__file__).parents[3] / "crates/modules/src/modules"

# A script that creates a file when it is imported, and another when it is called.
SCRIPT = """
import pathlib
pathlib.Path("ran-import").touch()

def touch(*arguments, **keywords):
    pathlib.Path("ran-call").touch()
"""

# The configuration of each module that runs Python; `ran-NAME` exists if it ran. The positional
# argument of `pydoc.pipepager` is a text, and `cmd` a shell command.
HOSTILE: dict[str, list[dict[str, Any]]] = {
    "map": [
        {"function": "script.py:touch"},
        {"function": "pydoc:pipepager", "arguments": {"cmd": "touch ran-map"}},
        {"function": "os:system"},
    ],
    "python": [
        {"module": "script.py:touch"},
        {"module": "os:system", "args": ["touch ran-python"]},
        {"module": "pydoc:pipepager", "args": ["", "touch ran-python"]},
        {"module": "pydoc:pipepager", "kwargs": {"text": "", "cmd": "touch ran-python"}},
    ],
    "from_arrow": [
        {"data": "script.py:touch"},
        {"data": "script:touch"},
        {"data": "os:system"},
    ],
    "external_sql": [
        {"query": "copy (select 1) to 'ran-sql'", "engine": "duckdb"},
        {"query": "select 1", "engine": "script"},
        {"query": "install script from 'ran-sql'"},
    ],
}


def python_modules() -> list[str]:
    """The modules of the registry that are not written in Rust."""
    rust = {path.stem for path in RUST_MODULES.glob("*.rs")}
    return sorted({spec["name"] for spec in json.loads(_euphrates.specs())} - rust)


def placed(module: str, config: dict[str, Any]) -> dict[str, Any]:
    if module == "from_arrow":
        return flow((module, config), ("collect", {}))
    source = ("generate", {"what": "integers", "rows": 10})
    return flow(source, (module, config), ("collect", {}))


def ran(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("ran-*"))


@pytest.mark.parametrize("module", python_modules())
def test_opening_and_checking_run_no_user_code(studio: Studio, module: str) -> None:
    root = Path(studio.ask("GET", "/api/session")["root"])
    (root / "script.py").write_text(SCRIPT)
    assert HOSTILE.get(module), f"say what a hostile `{module}` would run"
    for number, config in enumerate(HOSTILE[module]):
        document = placed(module, config)
        path = f"hostile{number}.json"
        (root / path).write_text(json.dumps(document))
        assert path in {one["path"] for one in studio.ask("GET", "/api/files")["files"]}
        # The page draws it and generates its code from these two answers alone.
        opened = studio.ask("GET", f"/api/file?path={path}")
        assert json.loads(opened["text"]) == document
        checked = studio.ask("POST", "/api/check", {"document": document, "variables": {}})
        ids = {one["id"] for one in checked["modules"]}
        assert ids == {one["id"] for one in document["modules"][:-1]} - {
            node["id"] for node in document["modules"] if node["module"] == module
        }
        # A value from a variable behaves the same.
        name = next(iter(config))
        bound = {**config, name: {"$var": "it"}}
        document = {**placed(module, bound), "variables": {"it": {"default": config[name]}}}
        studio.ask("POST", "/api/check", {"document": document, "variables": {"it": config[name]}})
    studio.ask("GET", "/api/modules")
    studio.ask("GET", "/api/file?path=script.py")
    assert studio.ask("POST", "/api/script", {"path": "script.py"}) == {"needs_trust": True}
    assert ran(root) == []


def test_running_a_flow_runs_its_user_code(studio: Studio) -> None:
    """Proves that the test above would detect execution."""
    root = Path(studio.ask("GET", "/api/session")["root"])
    (root / "script.py").write_text(SCRIPT)
    studio.ended(studio.run(placed("map", HOSTILE["map"][0])))
    studio.ended(studio.run(placed("python", HOSTILE["python"][1])))
    assert ran(root) == ["ran-call", "ran-import", "ran-python"]


def test_drawing_and_code_generation_run_no_user_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    for module, configs in HOSTILE.items():
        for config in configs:
            text = json.dumps(placed(module, config))
            for language in ("python", "rust"):
                assert _euphrates.code(text, language)
            for picture in ("svg", "mermaid", "dot"):
                assert _euphrates.draw(text, picture)
    assert ran(tmp_path) == []
