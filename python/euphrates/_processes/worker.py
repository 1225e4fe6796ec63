"""State shared between a worker and the program that it works for. Each worker loads this module at
start-up, so it imports only what Python has loaded already.
"""

from __future__ import annotations

import os
import sys

_believes = False


def believe_master() -> None:
    """Marks this process as a worker: it may load pickles sent by its master, and no others."""
    global _believes
    _believes = True


def believes_master() -> bool:
    """Whether this process is a worker."""
    return _believes


def search_path() -> str:
    """The module search path of this program, for workers that must find the same modules."""
    return os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
