"""The public names of the package, apart from the functions of modules, for type checkers. A
program loads them one by one: `__init__.py` says from where, and a test compares.
"""

from __future__ import annotations

from ._config import Var, var
from ._display.progress import ModuleProgress, Progress, SlowNow
from ._display.report_parts import (
    DiskReport,
    History,
    InstanceReport,
    ModuleReport,
    Series,
    Slow,
)
from ._euphrates import Batch, Ports, Schema, Table, __version__, schema
from ._feeding.consumer import Consumer
from ._feeding.split import Split
from ._files.homes import striped_home
from ._files.sessions import StripedSession, striped_session
from ._files.striped import StripedFile, open_striped
from ._files.views import StridedView
from ._lakes.clustering import sort_delta
from ._lakes.delta import scan_delta
from ._lakes.iceberg import scan_iceberg
from ._processes.studio import studio
from ._user_code.module import EMPTY, Module
from ._user_code.placed import Placed
from ._user_code.processed import cache_clear, forget
from ._user_code.query_tables import query, sql
from .cluster import Cluster, Worker
from .errors import (
    ConflictError,
    CorruptError,
    EuphratesError,
    FlowError,
    Interrupted,
    ResourceError,
    UsageError,
)
from .explanation import Explanation
from .expressions import Expression, call, col, lit
from .flow import Flow
from .launch import Launched, Line, Process
from .modules import ModuleCall, module
from .perturbation import Perturbation, perturb
from .queries import Grouped, Query
from .report import Report
from .running import Running

__all__ = [
    "EMPTY",
    "Batch",
    "Cluster",
    "ConflictError",
    "Consumer",
    "CorruptError",
    "DiskReport",
    "EuphratesError",
    "Explanation",
    "Expression",
    "Flow",
    "FlowError",
    "Grouped",
    "History",
    "InstanceReport",
    "Interrupted",
    "Launched",
    "Line",
    "Module",
    "ModuleCall",
    "ModuleProgress",
    "ModuleReport",
    "Perturbation",
    "Placed",
    "Ports",
    "Process",
    "Progress",
    "Query",
    "Report",
    "ResourceError",
    "Running",
    "Schema",
    "Series",
    "Slow",
    "SlowNow",
    "Split",
    "StridedView",
    "StripedFile",
    "StripedSession",
    "Table",
    "UsageError",
    "Var",
    "Worker",
    "__version__",
    "cache_clear",
    "call",
    "col",
    "forget",
    "lit",
    "module",
    "open_striped",
    "perturb",
    "query",
    "scan_delta",
    "scan_iceberg",
    "schema",
    "sort_delta",
    "sql",
    "striped_home",
    "striped_session",
    "studio",
    "var",
]
