"""A live view of a flow in a notebook, shown by `eu.studio(flow)`. Needs anywidget."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from ._processes.own import specs_of_flow
from .errors import EuphratesError, Interrupted, UsageError
from .flow import Flow

if TYPE_CHECKING:
    from .report import Report
    from .running import Running

_PAUSE_SECONDS = 0.25
"""The poll interval for the progress of a running flow."""
_UNSEEN_MAX = 4
"""The number of unacknowledged updates after which updates become rarer."""
_UNSEEN_PAUSE_SECONDS = 1.0


class View(anywidget.AnyWidget):
    """A flow to be shown, run, watched and stopped in a notebook.

    When displayed it has buttons; Python can do the same through its methods. The flow runs in the
    notebook's own process, so its modules may be functions of the notebook.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    document = traitlets.Unicode(read_only=True).tag(sync=True)
    """The drawn flow, as JSON."""
    modules = traitlets.Unicode("[]", read_only=True).tag(sync=True)
    """Specs of its user-defined modules, as JSON."""
    status = traitlets.Unicode(read_only=True).tag(sync=True)
    """The last run: its state, and its report or error, as JSON; empty before the first."""
    progress = traitlets.Unicode(read_only=True).tag(sync=True)
    """The progress of that run as the engine reports it, as JSON."""

    def __init__(self, flow: Flow, options: Mapping[str, Any], page: str) -> None:
        self._flow = flow
        self._options = dict(options)
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._ended.set()
        self._running: Running | None = None
        self._number = 0
        self._report: Report | None = None
        self._error: Exception | None = None
        self._unseen = 0
        self._told_at = 0.0
        super().__init__(_esm=page)
        self.on_msg(_hear)
        self._draw()

    @property
    def report(self) -> Report | None:
        """The report of the last run, if it succeeded."""
        return self._report

    @property
    def error(self) -> Exception | None:
        """The error of the last run, or `Interrupted` if it was stopped."""
        return self._error

    def run(self) -> None:
        """Starts the flow in its current form without waiting for it."""
        with self._lock:
            if not self._ended.is_set():
                raise UsageError(
                    "the flow is running already", remedy="wait() for its end, or stop() it"
                )
            self._number += 1
            self._report = self._error = None
            told = self._begin()
            try:
                running = self._flow.start(**self._options)
            except Exception as error:
                self._error = error
                self._tell({**told, "state": "failed", "failure": _failure(error)})
                raise
            self._running = running
            self._ended.clear()
            self._tell(told)
        threading.Thread(target=self._watch, args=(running, told), daemon=True).start()

    def stop(self) -> None:
        """Stops the current run, if any: no output appears."""
        with self._lock:
            if self._running is not None:
                self._running.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end of the run, at most `timeout` seconds; returns whether it has ended."""
        return self._ended.wait(timeout)

    def close(self) -> None:
        """Stops the run, and closes the view."""
        self.stop()
        super().close()

    def __repr__(self) -> str:
        return f"<view of {self._flow!r}>"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The view, and a picture of the flow for programs that show no widgets: exported HTML."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        picture = self._flow.draw()
        shown = {"text/plain": repr(self), "text/html": picture, "image/svg+xml": picture}
        return {**data, **shown}, metadata

    def _begin(self) -> dict[str, Any]:
        """Announces a run that starts, and clears the state of the last one."""
        self._unseen, self._told_at = 0, 0.0
        self.set_trait("progress", "")
        self._draw()
        variables = self._options.get("variables") or {}
        return {
            "id": str(self._number),
            "name": self._flow.name,
            "state": "running",
            "started": time.time(),
            "seconds": 0.0,
            "cluster": "",
            "variables": {name: str(value) for name, value in variables.items()},
        }

    def _draw(self) -> None:
        """Sends the current flow to the pages."""
        names: dict[int, str] = {}
        targets: dict[str, Any] = {}
        for number, held in self._flow._held.items():
            # An object of a class is stored as a partial of its class.
            target = getattr(held.target, "func", held.target)
            name = getattr(target, "__name__", f"a {type(target).__name__}")
            # Two lambdas have one name.
            names[number] = name if name not in targets else f"{name} {number}"
            targets[names[number]] = target
        document = _named(self._flow._document, names)
        specs = specs_of_flow(document, targets, may_import=self._flow._is_own)
        self.set_trait("modules", json.dumps(specs))
        self.set_trait("document", json.dumps(document, ensure_ascii=False))

    def _tell(self, told: Mapping[str, Any]) -> None:
        self.set_trait("status", json.dumps(told))

    def _watch(self, running: Running, told: dict[str, Any]) -> None:
        """Sends the progress of the run until its end, then its outcome. Runs in a thread of its
        own.
        """
        began = time.monotonic()
        native = running._native
        ended = False
        while not ended:
            if self._may_tell():
                self.set_trait("progress", native.live())
            ended = running.wait(_PAUSE_SECONDS)
        failure = native.failure()
        try:
            self._report = running.finish()
            end = {"state": "done", "report": json.loads(self._report.to_json())}
        except Interrupted as error:
            self._error = error
            end = {"state": "stopped"}
        except Exception as error:
            self._error = error
            end = {
                "state": "failed",
                "failure": json.loads(failure) if failure else _failure(error),
            }
        with self._lock:
            self._running = None
            self.set_trait("progress", native.live())
            self._tell({**told, "seconds": time.monotonic() - began, **end})
            self._ended.set()

    def _may_tell(self) -> bool:
        """Whether pages have acknowledged the last update. A page that is closed or does not read
        costs almost nothing; a busy kernel, which receives no acknowledgement, still sends updates.
        """
        now = time.monotonic()
        if self._unseen >= _UNSEEN_MAX and now - self._told_at < _UNSEEN_PAUSE_SECONDS:
            return False
        self._unseen += 1
        self._told_at = now
        return True


def _hear(view: View, content: Any, _buffers: Any) -> None:
    """Handles a page's message. Pages may request what their buttons do, and nothing else."""
    if not isinstance(content, dict):
        return
    if content.get("seen"):
        view._unseen = 0
    if content.get("wish") == "stop":
        view.stop()
    if content.get("wish") == "run" and view._ended.is_set():
        try:
            view.run()
        except Exception:  # shown beside the button, and kept in `error`
            return


def _failure(error: Exception) -> dict[str, Any]:
    """An error of the start, in the form that the engine uses for errors of a run."""
    message, _, traceback = str(error).partition("\n")
    told: dict[str, Any] = {"kind": "failed", "message": message}
    if isinstance(error, EuphratesError):
        message, _, traceback = error.message.partition("\n")
        place = f"{error.place}: " if error.place else ""
        told = {"kind": error.kind, "message": place + message}
        if error.remedy:
            told["remedy"] = error.remedy
    if traceback:
        told["traceback"] = traceback
    return told


def _named(value: Any, names: Mapping[int, str]) -> Any:
    """The document with names in place of in-process objects."""
    if isinstance(value, Mapping):
        if set(value) == {"$live"}:
            return names.get(value["$live"], "a Python object")
        return {key: _named(member, names) for key, member in value.items()}
    if isinstance(value, list):
        return [_named(member, names) for member in value]
    return value
