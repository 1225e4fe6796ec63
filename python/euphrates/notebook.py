"""A flow in a notebook, live: what `eu.studio(flow)` shows. Needs anywidget."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from ._own import specs_of_flow
from .errors import EuphratesError, Interrupted, UsageError
from .flow import Flow

if TYPE_CHECKING:
    from .report import Report
    from .running import Running

_PAUSE_SECONDS = 0.25
"""Between two looks at a running flow."""
_UNSEEN_MAX = 4
"""What pages have not said to have seen; then they are told less often."""
_UNSEEN_PAUSE_SECONDS = 1.0


class View(anywidget.AnyWidget):
    """A flow, to be shown, run, watched and stopped in a notebook.

    Displayed, it has the buttons; all they do can be done from Python, too. The flow runs in the
    notebook's own process, so its modules may be functions of the notebook.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    document = traitlets.Unicode(read_only=True).tag(sync=True)
    """The flow that is drawn: JSON."""
    modules = traitlets.Unicode("[]", read_only=True).tag(sync=True)
    """Descriptions of what it runs of the user's: JSON."""
    status = traitlets.Unicode(read_only=True).tag(sync=True)
    """The last run, how it stands, its report or how it failed: JSON; empty before the first."""
    progress = traitlets.Unicode(read_only=True).tag(sync=True)
    """How that run goes, in the engine's words: JSON."""

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
        """The report of the last run, when that has ended well."""
        return self._report

    @property
    def error(self) -> Exception | None:
        """What the last run has failed of, or `Interrupted` if it was stopped."""
        return self._error

    def run(self) -> None:
        """Starts the flow, as it is now, and does not wait for it."""
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
        """Stops the run, if there is one: no output will appear."""
        with self._lock:
            if self._running is not None:
                self._running.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end of the run, at most `timeout` seconds; says whether it has come."""
        return self._ended.wait(timeout)

    def close(self) -> None:
        """Stops the run, and ends what shows it."""
        self.stop()
        super().close()

    def _begin(self) -> dict[str, Any]:
        """What is told of a run that starts; what was shown of the last one is over."""
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
        """Shows the flow as it is now."""
        names: dict[int, str] = {}
        targets: dict[str, Any] = {}
        for number, held in self._flow._held.items():
            # An object of a class is held as what makes it.
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
        """Tells how the run goes until it ends, and then how it was. A thread of its own."""
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
        """Whether pages have seen what they were told. One that is not there, or does not read,
        costs next to nothing; nor does a busy kernel, which hears no page, leave it without news.
        """
        now = time.monotonic()
        if self._unseen >= _UNSEEN_MAX and now - self._told_at < _UNSEEN_PAUSE_SECONDS:
            return False
        self._unseen += 1
        self._told_at = now
        return True


def _hear(view: View, content: Any, _buffers: Any) -> None:
    """What a page says. It asks for what its buttons can do, and for nothing else."""
    if not isinstance(content, dict):
        return
    if content.get("seen"):
        view._unseen = 0
    if content.get("wish") == "stop":
        view.stop()
    if content.get("wish") == "run" and view._ended.is_set():
        try:
            view.run()
        except Exception:  # told where the button is, and kept in `error`
            return


def _failure(error: Exception) -> dict[str, Any]:
    """An error of the start, as the engine tells those of a run."""
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
    """The same with names for what lives in this process only."""
    if isinstance(value, Mapping):
        if set(value) == {"$live"}:
            return names.get(value["$live"], "a Python object")
        return {key: _named(member, names) for key, member in value.items()}
    if isinstance(value, list):
        return [_named(member, names) for member in value]
    return value
