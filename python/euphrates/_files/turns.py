"""Turns of threads that write to one striped file: who comes first is served first.

A request of a view touches many stripes. If the same thread got the file again and again, it would
be far ahead of the others in the file, and the stripes that they share would not become full.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque

TYPE_CHECKING = False

if TYPE_CHECKING:
    from _thread import LockType


class Turns:
    """A lock that threads get in the order in which they ask for it.

    >>> from euphrates._files.turns import Turns
    >>> turns = Turns()
    >>> with turns:
    ...     print("alone")
    alone
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._waiting: deque[LockType] = deque()
        self._is_held = False

    def __enter__(self) -> None:
        own = allocate_lock()
        with self._lock:
            if not self._is_held:
                self._is_held = True
                return
            own.acquire()
            self._waiting.append(own)
        try:
            own.acquire()
        except BaseException:
            self._give_up(own)
            raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._pass_on()

    def _give_up(self, own: LockType) -> None:
        """A signal has interrupted the thread, which may have got its turn meanwhile."""
        with self._lock:
            if own in self._waiting:
                self._waiting.remove(own)
            else:
                self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._is_held = False
