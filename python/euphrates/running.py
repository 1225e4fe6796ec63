"""A running flow: its progress, cancellation and result."""

from __future__ import annotations

import atexit
import os
import weakref

from .report import Report

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import _euphrates
    from ._display.progress import Progress
    from ._user_code.references import Held

_GRACE_SECONDS = 2.0
"""The wait for a stopped flow; the engine gives up sooner."""


class Running:
    """A started flow. It is cancelled when the last reference to it is dropped.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
    >>> running = flow.start()
    >>> running.wait()
    True
    >>> running.finish().collected().to_pylist()
    [{'count': 1000}]
    """

    def __init__(self, native: _euphrates.Running, held: list[Held]) -> None:
        self._native = native
        # Keeps the objects alive that its modules refer to.
        self._held = held
        _running.add(self)

    def progress(self) -> Progress:
        """The current state of every module.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
        >>> running = flow.start()
        >>> _ = running.wait()
        >>> [(module.id, module.state) for module in running.progress().modules]
        [('generate_1', 'ended'), ('count_1', 'ended'), ('collect_1', 'ended')]
        """
        from ._display.progress import Progress

        return Progress.of_json(self._native.progress())

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most `timeout` seconds; returns whether it has ended.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=10**15), eu.count(), eu.collect())
        >>> running = flow.start()
        >>> running.wait(timeout=0.01)
        False
        >>> running.cancel()
        >>> running.wait()
        True
        """
        return self._native.wait(timeout)

    def cancel(self) -> None:
        """Stops the flow: `finish` raises `Interrupted`, and no output appears.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=10**15), eu.save("n.parquet"))
        >>> running = flow.start()
        >>> running.cancel()
        >>> running.finish()
        Traceback (most recent call last):
        euphrates.errors.Interrupted: ...the flow was interrupted
        >>> import os
        >>> os.path.exists("n.parquet")
        False
        """
        self._native.cancel()

    def finish(self) -> Report:
        """Waits for the end, and returns the report. Can be called once.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> running = flow.start()
        >>> running.finish()
        <report of 'flow': ...>
        >>> running.finish()
        Traceback (most recent call last):
        euphrates.errors.UsageError: the report has already been taken
        """
        return self._go(None)

    def _go(self, tell: Callable[[Progress], object] | None) -> Report:
        try:
            while not self._native.wait(None if tell is None else 0.1):
                if tell is not None:
                    tell(self.progress())
        except BaseException:
            self._stop()
            raise
        return Report(*self._native.finish())

    def _stop(self) -> None:
        """Cancels the flow, and waits for its end. Threads that still call Python code when the
        program ends would abort it.
        """
        self._native.stop(_GRACE_SECONDS)


_running: weakref.WeakSet[Running] = weakref.WeakSet()
# The flows belong to the parent of a forked child, and survive the child.
os.register_at_fork(after_in_child=_running.clear)


@atexit.register
def _stop_all() -> None:
    """Ends all flows at the end of the program."""
    for running in list(_running):
        running.cancel()
    for running in list(_running):
        running._stop()
