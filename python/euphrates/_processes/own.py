"""User-defined modules of a Python file and its flow: module classes, and functions over batches.

They are described like the built-in modules, so that the studio shows both with a form.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._user_code.flow_files import flow_of_file
from .._user_code.module import Module
from .._user_code.references import import_path, imported
from ..errors import UsageError
from ..flow import Flow
from .scripts import module_of_file

_OPTIONS = {"python": "module", "map": "function"}
"""Modules that run user code, and the option that holds the reference to it."""

_TEXT_MAX = 4000
_LISTED_MAX = 500


def script_of_file(path: str | os.PathLike[str]) -> str:
    """The document of the flow that a file defines, and the user-defined modules of both. A file
    that only defines modules has no document.
    """
    module = module_of_file(path)
    has_flow = any(isinstance(value, Flow) for value in vars(module).values())
    document = json.loads(flow_of_file(path).to_json()) if has_flow else None
    modules = [_spec(path, target) for path, target in _targets(module, document)]
    if document is None and not modules:
        remedy = "name the flow `flow`"
        raise UsageError("the file leaves neither a flow nor a module behind", remedy=remedy)
    return json.dumps({"document": document, "modules": modules[:_LISTED_MAX]})


def _targets(module: types.ModuleType, document: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The classes and functions that can be placed, each once, by reference."""
    seen = set()
    for name, value in list(vars(module).items()):
        is_own = getattr(value, "__module__", None) == module.__name__
        path = import_path(value) if is_own and not name.startswith("_") else None
        if path is not None and path not in seen and (_is_class(value) or _takes_batches(value)):
            seen.add(path)
            yield path, value
    for node in (document or {}).get("modules", []):
        path = node["config"].get(_OPTIONS.get(node["module"], ""))
        if isinstance(path, str) and path not in seen:
            seen.add(path)
            target = imported(path)
            if callable(target):
                yield path, target


def _is_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Module)


def _takes_batches(value: Any) -> bool:
    """Whether it can be called with a batch alone, and its annotations allow a batch."""
    if not inspect.isfunction(value):
        return False
    parameters = [*inspect.signature(value).parameters.values()]
    if not parameters:
        return False
    first, *more = parameters
    if first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    annotation = _hints(value).get(first.name)
    is_plain = annotation in _JSON_TYPES or typing.get_origin(annotation) in (list, dict, tuple)
    return not is_plain and all(one.default is not one.empty or _is_rest(one) for one in more)


def _spec(path: str, target: Callable[..., Any]) -> dict[str, Any]:
    is_class = _is_class(target)
    place, _, title = path.rpartition(":")
    summary, _, detail = (_doc(target) or f"`{title}` of {os.path.basename(place)}.").partition(
        "\n\n"
    )
    return {
        "name": path,
        "summary": " ".join(summary.split())[:_TEXT_MAX],
        "detail": detail[:_TEXT_MAX],
        "inputs": _ports(target, "inputs") if is_class else ["in"],
        "outputs": _ports(target, "outputs") if is_class else ["out"],
        "order": target.order if is_class else "keeps",  # type: ignore[attr-defined]
        "effect": "pure",
        "parallel": bool(target.parallel) if is_class else True,  # type: ignore[attr-defined]
        "wants_memory": is_class,
        "config": _form(target, is_class),
        "own": {
            "title": title,
            "file": place,
            "module": "python" if is_class else "map",
            "option": "module" if is_class else "function",
            "arguments": "kwargs" if is_class else "arguments",
        },
    }


def specs_of_flow(
    document: Any, targets: Mapping[str, Any], may_import: bool
) -> list[dict[str, Any]]:
    """Specs of the user-defined modules of a flow, keyed by the name that the document has for
    them, or by import path if `may_import` allows that.
    """
    specs = {}
    for node in document["modules"]:
        path = node["config"].get(_OPTIONS.get(node["module"], ""))
        if not isinstance(path, str) or not (may_import or path in targets):
            continue
        with contextlib.suppress(Exception):  # any error of the user's class or signature
            specs[path] = _spec(path, targets[path] if path in targets else imported(path))
    return [*specs.values()]


def _doc(target: Callable[..., Any]) -> str:
    # Its own docstring only: an inherited one describes modules in general.
    own = target.__dict__.get("__doc__") if isinstance(target, type) else target.__doc__
    return inspect.cleandoc(own or "")


def _ports(target: Any, side: str) -> Any:
    """The names of its ports. If a class computes them per object, they are unknown here."""
    made = target.__init__
    names = getattr(target, side)
    names = [names] if isinstance(names, str) else names
    is_decided_later = side in getattr(getattr(made, "__code__", None), "co_names", ())
    if is_decided_later or not isinstance(names, list | tuple):
        return "configured"
    return [str(name) for name in names]


def _form(target: Callable[..., Any], is_class: bool) -> dict[str, Any]:
    """The arguments besides the batch, from the signature."""
    made: Any = target.__init__ if is_class else target
    has_own = made is not object.__init__
    # Without the first parameter: the object itself, or the batch.
    named = [*inspect.signature(made).parameters.values()][1:] if has_own else []
    hints, properties, required = _hints(made), {}, []
    for one in named:
        if _is_rest(one) or one.kind is one.POSITIONAL_ONLY:
            continue
        properties[one.name] = _schema(one, hints.get(one.name))
        if one.default is one.empty:
            required.append(one.name)
    is_told = len(properties) == len(named)
    kept = {"properties": properties, "required": required, "additionalProperties": not is_told}
    return {"type": "object", **kept}


def _is_rest(one: inspect.Parameter) -> bool:
    return one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)


def _hints(target: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target)
    except Exception:  # an annotation may name types that exist for type checkers only
        return {}


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _schema(one: inspect.Parameter, hint: Any) -> dict[str, Any]:
    """The schema of a form's field: from the annotation, otherwise from the default."""
    schema = _kind(hint)
    if one.default is one.empty or one.default is None:
        return schema
    try:
        kept = json.loads(json.dumps(one.default, allow_nan=False))
    except (TypeError, ValueError):
        return schema
    if not schema and type(one.default) in _JSON_TYPES:
        schema = _kind(type(one.default))
    return {**schema, "default": kept}


def _kind(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type; an empty schema accepts any value."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if hint in _JSON_TYPES:
        return {"type": _JSON_TYPES[hint]}
    if origin is typing.Literal and all(isinstance(member, str) for member in members):
        return {"oneOf": [{"type": "string", "const": member} for member in members]}
    if origin in (typing.Union, types.UnionType):
        kinds = [{"type": "null"} if one is type(None) else _kind(one) for one in members]
        return {"anyOf": kinds} if all(kinds) else {}
    if origin in (list, Sequence) or hint in (list, Sequence):
        items = _kind(members[0]) if members else {}
        return {"type": "array", **({"items": items} if items else {})}
    if origin in (dict, Mapping) or hint in (dict, Mapping):
        return {"type": "object"}
    return {}
