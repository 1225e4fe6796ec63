"""Options of a run: sizes, folders and variables in the engine's form."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ._config import Gathered
from .errors import UsageError

Folder: TypeAlias = "str | os.PathLike[str]"

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def options_json(
    memory: int | float | str | None,
    cores: int | None,
    home: Folder | None,
    scratch: Folder | Sequence[Folder],
    variables: dict[str, Any],
    workers: int | None = None,
    queues: str | None = None,
    perturbations: list[dict[str, Any]] | None = None,
    resume: bool = False,
) -> str:
    """The options of a run, as JSON."""
    folders = [scratch] if isinstance(scratch, str | os.PathLike) else scratch
    given = Gathered()
    options: dict[str, Any] = {
        "scratch": [os.fspath(folder) for folder in folders],
        "variables": given.json(variables),
    }
    if given.held or given.variables:
        raise UsageError(
            "a variable's value is not JSON", remedy="give numbers, text, lists and dicts"
        )
    if memory is not None:
        options["memory_bytes"] = size(memory)
    for name, number in {"cores": cores, "workers": workers}.items():
        if number is not None:
            if number < 1:
                raise UsageError(f"{name} is {number}", remedy="give at least 1")
            options[name] = number
    if queues is not None:
        options["queues"] = queues
    if perturbations:
        options["perturbations"] = perturbations
    if resume:
        options["resume"] = True
    if home is not None:
        options["home"] = os.fspath(home)
    return json.dumps(options)


def size(size: int | float | str) -> int:
    """A number of bytes: `1000`, `1e9`, `"64MB"`, `"1.5GiB"`."""
    number = -1
    if isinstance(size, int | float) and not isinstance(size, bool) and math.isfinite(size):
        number = int(size)
    elif isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", size.lower())
        if match is not None and (match[2] or not match[3]):
            units = _BINARY_UNITS if match[3] else _UNITS
            number = int(float(match[1]) * units[match[2]])
    if not 0 < number < 2**63:
        what = 'write "512MB", "1GiB" or a number of bytes above 0'
        raise UsageError(f"{size!r} is no size", remedy=what)
    return number


def known_variables(
    call: str, given: Mapping[str, Any], variables: Mapping[str, Any], options: Iterable[str]
) -> None:
    """Rejects arguments that are neither options of the call nor variables of the flow."""
    for name in given:
        if name not in variables:
            known = {"options": [*options], "variables": [*variables]}
            listed = "; ".join(
                f"{what}: {', '.join(names)}" for what, names in known.items() if names
            )
            raise UsageError(
                f"`{call}` has no option `{name}`, and the flow no variable of this name",
                remedy=suggestion(name, [*known["options"], *variables]) or listed,
            )


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """The known name that the given one probably means."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean `{near[0]}`?" if near else None
