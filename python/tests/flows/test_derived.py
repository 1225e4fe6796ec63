"""Derived files are fresh, and module functions match their specs."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import euphrates as eu
from euphrates._tools import derive
from euphrates._tools.functions import options_of, parameter_name, required_of

ROOT = Path(__file__).resolve().parents[3]


def test_derived_files_are_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    derived = derive.derived()
    stale = [path for path, text in derived.items() if path.read_text() != text]
    assert not stale, "run `make derive`"
    assert {*derive.FUNCTIONS.glob("*.py")} <= set(derived), "a function of no module"
    codes = {path for path in derive.STUDIO_FLOWS.iterdir() if path.suffix != ".json"}
    assert codes and codes <= set(derived), "code of a document that is not there any more"


@pytest.mark.parametrize("name", sorted(eu.modules.SPECS))
def test_every_module_function_is_documented(name: str) -> None:
    spec = eu.modules.SPECS[name]
    function = getattr(eu, parameter_name(name))
    assert function.__name__ in eu.__all__
    assert spec["summary"] in function.__doc__
    assert list(inspect.signature(function).parameters) == [
        parameter_name(option)
        for option in sorted(options_of(spec), key=lambda o: o not in required_of(spec))
    ]
    undocumented = [
        option for option, schema in options_of(spec).items() if not schema.get("description")
    ]
    assert not undocumented
