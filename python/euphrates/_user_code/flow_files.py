"""Loads the flow that a Python file defines."""

from __future__ import annotations

import os

from .._processes.scripts import module_of_file
from ..errors import UsageError
from ..flow import Flow


def document_of_file(path: str | os.PathLike[str], is_kept: bool) -> str:
    """The document of the flow that a Python file defines. If it is kept, it must not hold objects
    that exist in this process only.
    """
    chosen = flow_of_file(path)
    return chosen.to_json() if is_kept else chosen._json()


def flow_of_file(path: str | os.PathLike[str]) -> Flow:
    """The flow that a Python file defines: its variable `flow`, or its only flow."""
    names = vars(module_of_file(path))
    flows = {name: value for name, value in names.items() if isinstance(value, Flow)}
    chosen = flows.get("flow") or (next(iter(flows.values())) if len(flows) == 1 else None)
    if chosen is None:
        what = "several flows" if flows else "no flow"
        raise UsageError(f"the file leaves {what} behind", remedy="name the flow `flow`")
    return chosen
