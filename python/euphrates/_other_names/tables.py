"""Values that are no table, and what to write for each."""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from typing import Any


def remedy_of(value: Any) -> str:
    """What to give where a table is expected, for a value that is none."""
    kind = type(value).__name__
    items = [*value] if isinstance(value, list | tuple | set) else []
    paths = [item for item in items if isinstance(item, str) or hasattr(item, "__fspath__")]
    if getattr(value, "makes_module", False):
        return f"call it: eu.{value.__name__}(…)"
    if isinstance(value, bytes | bytearray):
        return "decode it if it is a path, os.fsdecode(path); a table is made of a dict of columns"
    if items and len(paths) == len(items):
        return "write eu.scan([…]) for several files"
    if hasattr(value, "collect") and not isinstance(value, type):
        return "call .collect() on it first"
    if kind in ("Series", "Array", "ChunkedArray"):
        return 'give a dict of columns: eu.query({"n": values})'
    if hasattr(value, "read"):
        return 'give the path of a file, "rows.csv", and not the open file'
    if hasattr(value, "__next__"):
        return "give a list, eu.query(list(rows)), or eu.from_arrow(function) of batches"
    if isinstance(value, list):
        return 'give a dict of columns, {"n": [1, 2]}, or a list of dicts, [{"n": 1}, {"n": 2}]'
    if hasattr(value, "dtype"):
        return 'give a dict of columns: eu.query({"n": values})'
    return "give a query, a source like eu.scan(…), a path, a dict of columns or Arrow data"


def misplaced(function: str, option: str, value: Any) -> UsageError:
    """The error for an option that is text or a number, and is given an object of the program."""
    what = f"eu.{function}(): `{option}` is a {type(value).__name__}"
    if option in ("path", "collection"):
        remedy = 'give the path of a file, or a list of paths: ["a.csv", "b.csv"]'
        if isinstance(value, bytes | bytearray):
            remedy = "decode it: os.fsdecode(path)"
        elif hasattr(value, "read"):
            remedy = "give the path of the file, and not the open file"
        elif hasattr(value, "collect") or hasattr(value, "columns"):
            remedy = "write eu.query(rows), and .save(…) of it to write them"
    elif callable(value):
        remedy = 'write SQL, "price > 3"; a function of batches is eu.map(function)'
    else:
        remedy = "give text, numbers, lists and dicts"
    return UsageError(what, remedy=remedy)
