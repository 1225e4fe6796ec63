"""Which paths name Delta tables. Imported for every query, so it imports little."""

from __future__ import annotations

import os

SCHEME = "delta://"


def is_table(path: str) -> bool:
    """Whether a path names a Delta table: by `delta://`, or by the log in its folder."""
    return path.startswith(SCHEME) or os.path.isdir(os.path.join(path, "_delta_log"))
