"""The names of functions that the manual and the shell list are those that queries may call."""

from __future__ import annotations

import pytest

import euphrates as eu
from euphrates import _euphrates
from euphrates._shell.completion import words


class Session:
    tables: dict[str, str] = {"sales": "sales.csv"}  # noqa: RUF012

    def columns(self) -> list[str]:
        return ["summer"]


@pytest.mark.parametrize("kind", ["scalar", "aggregate"])
def test_listed_functions_are_known(kind: str) -> None:
    unknown = []
    for name in _euphrates.sql_functions()[kind][::10]:
        arguments = ", ".join(["n"] * 9)
        try:
            assert eu.sql(f"select {name}({arguments}) from t", t={"n": [1]}).schema
        except eu.UsageError as error:
            if "no function named" in str(error):
                unknown.append(name)
    assert not unknown


def test_the_shell_completes_columns_before_functions() -> None:
    assert words(Session(), "su") == ["summer"]
    assert "regexp_extract" in words(Session(), "regexp_e")
