"""Waits, when the process exits, for files that threads of other libraries still hold."""

from __future__ import annotations

import atexit
import gc
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

EXIT_WAIT_SECONDS = 0.2
_POLL_SECONDS = 0.01

_Held = TypeVar("_Held")
_watched: weakref.WeakValueDictionary[int, object] = weakref.WeakValueDictionary()


def watch(held: _Held) -> _Held:
    """Returns a file or file system, which is waited for at exit if native code alone holds it.

    A reader of PyArrow gives back its last buffers, its file and its file system on a thread of
    its own, a moment after the caller has the table. Python before 3.14 ends a thread that asks
    for the interpreter lock during exit, and C++ aborts the process if that is in a destructor.
    """
    _watched[id(held)] = held
    return held


@atexit.register
def wait_for_native_holders(
    sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> None:
    """Waits until native code alone holds nothing watched, at most `EXIT_WAIT_SECONDS`."""
    deadline = clock() + EXIT_WAIT_SECONDS
    while any(map(_only_native_code_holds, _watched.valuerefs())) and clock() < deadline:
        sleep(_POLL_SECONDS)


def _only_native_code_holds(reference: weakref.ref[object]) -> bool:
    # Variables, attributes and containers are known to the garbage collector; C++ objects are not.
    # A file system is held by PyArrow's handler for it, as an attribute.
    held = reference()
    if held is None:
        return False
    holders = gc.get_referrers(held)
    for holder in holders:
        if type(holder).__name__ == "FSSpecHandler" and _known(holder, holders) == 0:
            return True
    return not holders


def _known(holder: object, besides: object) -> int:
    return sum(one is not besides for one in gc.get_referrers(holder))
