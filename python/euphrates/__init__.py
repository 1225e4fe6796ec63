"""Euphrates: a dataflow engine for data larger than memory, on machines of unequal speed.

>>> import euphrates as eu
>>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Eridu"], "price": [3, 5, 4]})
>>> flow = eu.Flow("sort")
>>> flow.chain(orders, eu.sort(["price desc"]), eu.save("sorted.parquet"))
<save_1 in 'sort'>
>>> print(flow.go())
flow `sort` finished in ...
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from ._api import *  # noqa: F403
    from ._functions import *  # noqa: F403
else:
    # A program loads only what it uses, so that its first flow starts fast. A name loads the module
    # that defines it. Modules import what a first flow does not need in the functions that need it,
    # and names for type checkers under `TYPE_CHECKING`: `json`, `typing`, `dataclasses` and
    # `inspect` each take longer to load than a small flow takes to run.

    _NAMES = {
        "_config": ("Var", "var"),
        "_display.progress": ("ModuleProgress", "Progress", "SlowNow"),
        "_display.report_parts": (
            "DiskReport",
            "History",
            "InstanceReport",
            "ModuleReport",
            "Series",
            "Slow",
        ),
        "_euphrates": ("Batch", "Ports", "Schema", "Table", "__version__", "schema"),
        "_feeding.consumer": ("Consumer",),
        "_feeding.split": ("Split",),
        "_files.homes": ("striped_home",),
        "_files.sessions": ("StripedSession", "striped_session"),
        "_files.striped": ("StripedFile", "open_striped"),
        "_files.views": ("StridedView",),
        "_lakes.clustering": ("sort_delta",),
        "_lakes.delta": ("scan_delta",),
        "_lakes.iceberg": ("scan_iceberg",),
        "_processes.studio": ("studio",),
        "_user_code.module": ("EMPTY", "Module"),
        "_user_code.placed": ("Placed",),
        "_user_code.processed": ("cache_clear", "forget"),
        "_user_code.query_tables": ("query", "sql"),
        "cluster": ("Cluster", "Worker"),
        "errors": (
            "ConflictError",
            "CorruptError",
            "EuphratesError",
            "FlowError",
            "Interrupted",
            "ResourceError",
            "UsageError",
        ),
        "explanation": ("Explanation",),
        "expressions": ("Expression", "call", "col", "lit"),
        "flow": ("Flow",),
        "launch": ("Launched", "Line", "Process"),
        "perturbation": ("Perturbation", "perturb"),
        "queries": ("Grouped", "Query"),
        "report": ("Report",),
        "running": ("Running",),
    }
    """Public names by the module that defines them; `modules` defines all others."""
    _HOMES = {name: home for home, names in _NAMES.items() for name in names}

    def __getattr__(name):
        if name == "__all__":
            value = [*sorted(_HOMES), *_part("modules").__all__]
        elif name in _HOMES:
            value = getattr(_part(_HOMES[name]), name)
        elif name.startswith("_"):
            raise _missing(name, ())
        elif name in _NAMES or name in ("active", "modules", "sorts"):
            value = _part(name)
        elif name in _part("modules").__all__:
            value = getattr(_part("modules"), name)
        else:
            raise _missing(name, __getattr__("__all__"))
        globals()[name] = value
        return value

    def _part(module):
        from importlib import import_module

        return import_module(f".{module}", __name__)

    def _missing(name, known):
        text = f"module {__name__!r} has no attribute {name!r}"
        if not known:
            return AttributeError(text)
        from ._options import suggestion
        from ._other_names.functions import function
        from ._other_names.names import remedy
        from .errors import UnknownName

        instead = function(name)
        near = remedy(instead) if instead else suggestion(name, known)
        return UnknownName(text, remedy=near)

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})
