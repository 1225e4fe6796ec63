"""An HDF5 file on a mount: h5py knows nothing of disks, and the file survives the loss of one."""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import h5py

EUPHRATES = Path(sys.executable).with_name("euphrates")


@contextlib.contextmanager
def mounted(home: Path, folder: Path) -> Iterator[Path]:
    """Serves the striped files of the home in the folder."""
    folder.mkdir()
    command = [EUPHRATES, "mount", folder, "--home", home]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as mount:
        for line in mount.stderr:
            print(line.strip())
            if " is mounted at " in line:
                break
        try:
            yield folder
        finally:
            mount.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        disks = [{"name": f"d{n}", "folder": f"disks/{n}"} for n in range(6)]
        (home / "disks.json").write_text(json.dumps(disks))
        with mounted(home, home / "files") as files, h5py.File(files / "run.h5", "w") as file:
            file.create_dataset("heights", data=range(1_000_000), dtype="f8")
        shutil.rmtree(home / "disks/3")
        with mounted(home, home / "again") as files, h5py.File(files / "run.h5") as file:
            heights = file["heights"]
            print(f"{len(heights)} heights without disk 3; the last one is {heights[-1]:.0f}")
