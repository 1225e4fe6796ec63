"""The names of functions that the manual and the shell list are those that queries may call."""

from __future__ import annotations

import re

import pytest

import euphrates as eu
from euphrates._shell.completion import functions_by_kind, words


class Session:
    tables: dict[str, str] = {"sales": "sales.csv"}  # noqa: RUF012

    def columns(self) -> list[str]:
        return ["summer"]


@pytest.mark.parametrize("kind", ["scalar", "aggregate"])
def test_listed_functions_are_known(kind: str) -> None:
    unknown = []
    for name in functions_by_kind()[kind][::10]:
        arguments = ", ".join(["n"] * 9)
        try:
            assert eu.sql(f"select {name}({arguments}) from t", t={"n": [1]}).schema
        except eu.UsageError as error:
            if "no function named" in str(error):
                unknown.append(name)
    assert not unknown


def test_listed_functions_can_be_called() -> None:
    """Those that the planner alone knows fail however they are called."""
    failed = {}
    for name in functions_by_kind()["scalar"]:
        for arguments in ("", "1"):
            try:
                eu.sql(f"select {name}({arguments}) as x").collect(cores=1)
            except eu.EuphratesError as error:
                if re.search("no function named|source dependent", str(error)):
                    failed[name] = str(error)
    assert not failed


def test_the_shell_completes_columns_before_functions() -> None:
    assert words(Session(), "su") == ["summer", "summarize"]
    assert "regexp_extract" in words(Session(), "regexp_e")
