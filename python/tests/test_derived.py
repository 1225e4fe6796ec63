"""What is derived is fresh, and what is typed is right."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import euphrates as eu
from euphrates import _derive

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("path", "write"), [(_derive.STUB, _derive.stub), (_derive.PAGE, _derive.page)], ids=str
)
def test_derived_files_are_fresh(path: Path, write: object) -> None:
    assert callable(write)
    assert (ROOT / path).read_text() == write(), "run `make derive`"


@pytest.mark.parametrize("name", sorted(eu.modules.SPECS))
def test_every_module_has_a_function_that_explains_itself(name: str) -> None:
    spec = eu.modules.SPECS[name]
    function = getattr(eu, eu.modules.parameter_name(name))
    assert function.__name__ in eu.__all__
    assert spec["summary"] in function.__doc__
    assert list(inspect.signature(function).parameters) == [
        eu.modules.parameter_name(option)
        for option in sorted(
            eu.modules.options_of(spec), key=lambda o: o not in eu.modules.required_of(spec)
        )
    ]
    undocumented = [
        option
        for option, schema in eu.modules.options_of(spec).items()
        if not schema.get("description")
    ]
    assert not undocumented
