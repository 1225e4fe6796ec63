"""Euphrates: dataflow at the speed the machines have.

```python
import euphrates as eu

flow = eu.Flow("sort")
flow.chain(eu.scan("in.parquet"), eu.sort(["price desc"]), eu.save("out.parquet"))
print(flow.go())
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import modules as _modules
from ._config import Var, var
from ._euphrates import Batch, Ports, Schema, Table, __version__, schema
from ._module import EMPTY, Module
from ._options import suggestion as _suggestion
from ._progress import ModuleProgress, Progress, SlowNow
from ._studio import studio
from .cluster import Cluster, Worker
from .errors import (
    CorruptError,
    EuphratesError,
    FlowError,
    Interrupted,
    ResourceError,
    UsageError,
)
from .flow import Explanation, Flow, Placed
from .launch import Launched, Line, Process
from .modules import *  # noqa: F403 - a function for every module there is
from .perturbation import Perturbation, perturb
from .report import DiskReport, History, InstanceReport, ModuleReport, Report, Series, Slow
from .running import Running

__all__ = [
    "EMPTY",
    "Batch",
    "Cluster",
    "CorruptError",
    "DiskReport",
    "EuphratesError",
    "Explanation",
    "Flow",
    "FlowError",
    "History",
    "InstanceReport",
    "Interrupted",
    "Launched",
    "Line",
    "Module",
    "ModuleProgress",
    "ModuleReport",
    "Perturbation",
    "Placed",
    "Ports",
    "Process",
    "Progress",
    "Report",
    "ResourceError",
    "Running",
    "Schema",
    "Series",
    "Slow",
    "SlowNow",
    "Table",
    "UsageError",
    "Var",
    "Worker",
    "__version__",
    "perturb",
    "schema",
    "studio",
    "var",
]
__all__ += _modules.__all__

if not TYPE_CHECKING:  # A type checker would take every name for one that exists.

    def __getattr__(name: str) -> Any:
        near = None if name.startswith("_") else _suggestion(name, __all__)
        more = f"; {near}" if near else ""
        text = f"module {__name__!r} has no attribute {name!r}{more}"
        # Without a name, Python's traceback does not add a suggestion of its own.
        raise AttributeError(text, name=None)
