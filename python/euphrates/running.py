"""A flow that has been started."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable

from . import _euphrates
from ._progress import Progress
from ._references import Held
from .report import Report

_GRACE_SECONDS = 2.0
"""How long a flow that is stopped is waited for; the engine gives up sooner."""


class Running:
    """A flow that has been started. It is cancelled when the last reference to it goes."""

    def __init__(self, native: _euphrates.Running, held: list[Held]) -> None:
        self._native = native
        # What its modules refer to lives as long as they run.
        self._held = held
        _running.add(self)

    def progress(self) -> Progress:
        """Where every module stands."""
        return Progress.of_json(self._native.progress())

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most `timeout` seconds; says whether it has come."""
        return self._native.wait(timeout)

    def cancel(self) -> None:
        """Stops the flow; `finish` will raise `Interrupted`, and no output will appear."""
        self._native.cancel()

    def finish(self) -> Report:
        """Waits for the end, and returns the report. Can be called once."""
        return self._go(None)

    def _go(self, tell: Callable[[Progress], object] | None) -> Report:
        try:
            while not self._native.wait(None if tell is None else 0.1):
                if tell is not None:
                    tell(self.progress())
        except BaseException:
            self._native.stop(_GRACE_SECONDS)
            raise
        return Report(*self._native.finish())


_running: weakref.WeakSet[Running] = weakref.WeakSet()
# They run in the parent of a forked child, and go on when the child ends.
os.register_at_fork(after_in_child=_running.clear)


@atexit.register
def _stop_all() -> None:
    """The end of the program is the end of its flows, too."""
    for running in list(_running):
        running.cancel()
    for running in list(_running):
        running._native.stop(_GRACE_SECONDS)
