"""A home with disks, for tests of striped files."""

from __future__ import annotations

import json
from pathlib import Path


def make_home(folder: Path, disks: int) -> Path:
    """A home with disks `d0` and on, which are folders beside it."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    named = [{"name": f"d{at}", "folder": str(folder / f"d{at}")} for at in range(disks)]
    (home / "disks.json").write_text(json.dumps(named))
    return home
