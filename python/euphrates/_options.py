"""Options of a run: sizes, folders and variables in the engine's form."""

from __future__ import annotations

import math
import os

from ._config import Gathered
from .errors import UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeAlias

    from .perturbation import Perturbation

    Folder: TypeAlias = str | os.PathLike[str]

_WORDS = {None: "null", True: "true", False: "false"}
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
    perturb: Perturbation | Sequence[Perturbation] = (),
    resume: bool = False,
    metrics: str | int | None = None,
    event_log: Folder | None = None,
    cache: int | float | str | None = None,
) -> str:
    """The options of a run, as JSON."""
    folders = scratch if isinstance(scratch, list | tuple) else [scratch]
    given = Gathered()
    options: dict[str, Any] = {
        "scratch": [path_text("scratch", folder) for folder in folders],
        "variables": given.json(variables),
    }
    if given.held or given.variables:
        raise UsageError(
            "a variable's value is not JSON", remedy="give numbers, text, lists and dicts"
        )
    if memory is not None:
        options["memory_bytes"] = size(memory)
    if cache is not None:
        options["cache_bytes"] = size(cache)
    for name, number in {"cores": cores, "workers": workers}.items():
        if number is not None:
            options[name] = whole_number(name, number)
    if queues is not None:
        options["queues"] = queues
    if perturb != ():
        from .perturbation import perturbations_json

        options["perturbations"] = perturbations_json(perturb)
    if resume:
        options["resume"] = True
    if metrics is not None:
        options["metrics"] = str(metrics)
    if event_log is not None:
        options["event_log"] = path_text("event_log", event_log)
    if home is not None:
        options["home"] = path_text("home", home)
    return json_text(options)


def size(size: int | float | str) -> int:
    """A number of bytes: `1000`, `1e9`, `"64MB"`, `"1.5GiB"`."""
    number = -1
    if isinstance(size, int | float) and not isinstance(size, bool) and math.isfinite(size):
        number = int(size)
    elif isinstance(size, str):
        number = _size_of_text(size.strip().lower())
    if not 0 < number < 2**63:
        what = 'write "512MB", "1GiB" or a number of bytes above 0'
        raise UsageError(f"{size!r} is no size", remedy=what)
    return number


def _size_of_text(text: str) -> int:
    """The bytes of a size like `1.5gib`; -1 if it is none."""
    text = text.removesuffix("b")
    units = _BINARY_UNITS if text.endswith("i") else _UNITS
    text = text.removesuffix("i")
    unit = text[-1:] if text[-1:].isalpha() else ""
    digits = text.removesuffix(unit).rstrip()
    if unit not in units or not all(part.isdecimal() for part in digits.split(".", 1)):
        return -1
    return int(float(digits) * units[unit])


def json_text(value: Any) -> str:
    """The JSON of a document or of options: plain values, as `Gathered.json` makes them."""
    # `json.dumps` is for the rest: loading `json` takes longer than a small flow.
    kind = type(value)
    if value is None or kind is bool:
        return _WORDS[value]
    if kind is int or (kind is float and math.isfinite(value)):
        return repr(value)
    if kind is str and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    if kind is list:
        return f"[{', '.join([json_text(member) for member in value])}]"
    if kind is dict and all(type(key) is str for key in value):
        members = [f"{json_text(key)}: {json_text(member)}" for key, member in value.items()]
        return f"{{{', '.join(members)}}}"
    import json

    return json.dumps(value)


def known_variables(
    call: Callable[..., Any],
    given: Mapping[str, Any],
    variables: Mapping[str, Any],
    more: Iterable[str] = (),
) -> None:
    """Rejects arguments that are neither options of the call nor variables of the flow; `more` are
    options that the user could have meant, of the method that passes the arguments on.
    """
    for name in given:
        if name not in variables:
            raise _unknown_variable(name, call, variables, more)


def known_options(
    call: Callable[..., Any],
    given: Mapping[str, Any],
    variables: Mapping[str, Any],
    more: Iterable[str],
) -> None:
    """Rejects arguments that will be unknown to the call."""
    if given:
        options = _options_of(call)
        strange = {name: value for name, value in given.items() if name not in options}
        known_variables(call, strange, variables, more)


def _options_of(call: Callable[..., Any]) -> list[str]:
    """The parameters that can only be given by their names."""
    import inspect

    parameters = inspect.signature(call).parameters.values()
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def _unknown_variable(
    name: str, call: Callable[..., Any], variables: Mapping[str, Any], more: Iterable[str]
) -> UsageError:
    from ._other_names.arguments import option

    options = [*more, *_options_of(call)]
    known = {"options": options, "variables": [*variables]}
    listed = "; ".join(f"{what}: {', '.join(names)}" for what, names in known.items() if names)
    return UsageError(
        f"there is no option `{name}`, and the flow has no variable of this name",
        remedy=option(name, options) or suggestion(name, [*options, *variables]) or listed,
    )


def whole_number(name: str, number: object, least: int = 1) -> int:
    """A number that counts something, 1 or more; errors give its name."""
    try:
        whole = -1 if isinstance(number, bool) else number.__index__()  # type: ignore[attr-defined]
    except AttributeError:
        whole = -1
    if whole < least:
        raise UsageError(f"{name} is {number!r}", remedy="give a whole number, at least 1")
    return whole


def words(name: str, given: object) -> list[str]:
    """One name, or a list of names, that an option takes; errors give the option's name."""
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list | tuple) or not all(isinstance(word, str) for word in found):
        raise UsageError(f"{name} is {given!r}", remedy=f'give names: {name}=["w0", "w1"]')
    return list(found)


def path_text(name: str, path: object) -> str:
    """The path of a file or folder that an option names."""
    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if isinstance(text, str):
            return text
    raise UsageError(f"{name} is {path!r}", remedy=f'give a path: {name}="folder/name"')


def suggestion(word: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name that the given one probably means: at least as alike as said, from 0 to 1."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=alike)
    return f"did you mean `{near[0]}`?" if near else None
