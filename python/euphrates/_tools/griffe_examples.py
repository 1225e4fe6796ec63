"""An extension of Griffe for the manual: examples in docstrings become blocks of code, which
Markdown would take for quotations.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^(?P<indent> *)>>> (?:.*\S.*(?:\n|\Z))+")


def fenced(text: str) -> str:
    """The docstring, with each example in a fence."""

    def fence(found: re.Match[str]) -> str:
        indent = found["indent"]
        return f"{indent}```pycon\n{found[0].rstrip()}\n{indent}```\n"

    return _EXAMPLE.sub(fence, text).rstrip("\n")


class FencedExamples(griffe.Extension):
    """Rewrites the docstring of every object that the manual shows."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each object when its package has been read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
