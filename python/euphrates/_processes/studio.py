"""`eu.studio`: loads the notebook view of a flow on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _euphrates
from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .._options import Folder
    from ..cluster import Cluster
    from ..flow import Flow
    from ..notebook import View
    from ..perturbation import Perturbation
    from ..queries import Query


def studio(
    flow: Flow | Query,
    *,
    memory: int | float | str | None = None,
    cores: int | None = None,
    home: Folder | None = None,
    scratch: Folder | Sequence[Folder] = (),
    workers: int | None = None,
    queues: str | None = None,
    cluster: Cluster | None = None,
    perturb: Perturbation | Sequence[Perturbation] = (),
    resume: bool = False,
    metrics: str | int | None = None,
    event_log: Folder | None = None,
    cache: int | float | str | None = None,
    variables: Mapping[str, Any] | None = None,
    **more_variables: Any,
) -> View:
    """Shows the flow in a notebook, with buttons that run and stop it, and live progress. The rows
    of a query are collected.

    The flow runs in the notebook's own process; the options are those of `Flow.go`. Needs
    `euphrates[notebook]`.
    """
    from .._user_code.query_sinks import collected
    from ..flow import Flow
    from ..queries import Query

    if isinstance(flow, Query):
        flow = collected(flow)
    if not isinstance(flow, Flow):
        raise UsageError(f"{flow!r} is not a flow", remedy="give an eu.Flow or a query")
    try:
        from ..notebook import View
    except ModuleNotFoundError as error:
        if error.name not in {"anywidget", "traitlets"}:
            raise
        raise UsageError(
            "a notebook shows a flow by anywidget, which is not installed",
            remedy="pip install 'euphrates[notebook]'",
        ) from error
    page = _euphrates.notebook()
    if page is None:
        raise UsageError(
            "this installation was built without the studio, which shows flows in notebooks",
            remedy="install a wheel, or have Node when it is built: `make build`",
        )
    options = {
        "memory": memory,
        "cores": cores,
        "home": home,
        "scratch": scratch,
        "workers": workers,
        "queues": queues,
        "cluster": cluster,
        "perturb": perturb,
        "resume": resume,
        "metrics": metrics,
        "event_log": event_log,
        "cache": cache,
        "variables": flow._values(studio, variables, more_variables),
    }
    return View(flow, options, page)
