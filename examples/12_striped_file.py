"""A checkpoint on six disks. One is five times slower, and then lost; its blocks are restored."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import euphrates as eu

temporary = tempfile.TemporaryDirectory()  # removed when the program ends
home = Path(temporary.name)


def disks(*rates: int) -> None:
    """Folders as disks, limited to these bytes a second."""
    names = enumerate(rates)
    entries = [{"name": f"d{n}", "folder": f"disk{n}", "rate": rate} for n, rate in names]
    (home / "disks.json").write_text(json.dumps(entries))


def read() -> float:
    began = time.perf_counter()
    with eu.open_striped("checkpoint", home=home) as file:
        assert file.read() == weights
    return time.perf_counter() - began


weights = bytes(range(256)) * 160_000

if __name__ == "__main__":
    disks(*[100_000_000] * 6)
    with eu.open_striped("checkpoint", "wb", data=4, parity=1, home=home) as file:
        file.write(weights)

    disks(4_000_000, *[20_000_000] * 5)
    print(f"one disk is slow: {read():.1f} s; the speeds of all, added up: {41 / 104:.1f} s")
    shutil.rmtree(home / "disk0")
    print(f"it is lost: {read():.1f} s")
    command = [Path(sys.executable).with_name("euphrates"), "file", "repair", "checkpoint"]
    subprocess.run(command, env={**os.environ, "EUPHRATES_HOME": str(home)}, check=True)
