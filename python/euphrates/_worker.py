"""What a worker and the program it works for have between them. Each worker loads this as it
starts, so it takes nothing but what Python has loaded before.
"""

from __future__ import annotations

import os
import sys

_believes = False


def believe_master() -> None:
    """This process is a worker: what its master has pickled for it may be loaded. Nobody else's
    pickles ever are.
    """
    global _believes
    _believes = True


def believes_master() -> bool:
    """Whether this process is a worker."""
    return _believes


def search_path() -> str:
    """Where this program finds modules, for workers that are to find the same."""
    return os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
