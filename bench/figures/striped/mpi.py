"""MPI programs on a mount of striped files against our own views, in BTIO's geometry.

Nine ranks write the file of `views.py` collectively, as MPICH's ROMIO and Open MPI's OMPIO do it,
to a mount; and nine processes of a session, and nine threads with one open file, write the same
bytes by views. Every file is compared byte for byte. MPICH and Open MPI are those of the system;
mpi4py is installed into an environment that exists while the figure is measured.

Six throttled disks, in stripes of 4 + 1 blocks.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mounted
from figure import COLOURS
from striped import RATE, ROUNDS, SIZE, WRITE_DISKS, Home, remove
from views import by_processes, by_threads, content, expected, seconds

import rig

TITLE = "BTIO's geometry: MPI programs on a mount, and views of our own, on six throttled disks"
PLANES, QUICK_PLANES = 81, 27
MPI4PY = "mpi4py==4.1.2"
LIBRARIES = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
LAUNCHERS = {
    "MPICH": ["mpiexec.mpich"],
    "Open MPI": ["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe"],
}
OURS = {"views, threads": by_threads, "views, processes": by_processes}
MOST = 0.8
SECONDS_MAX = 300


def missing() -> str | None:
    for words in LAUNCHERS.values():
        if shutil.which(words[0]) is None:
            return f"{words[0]} is not installed: apt-get install mpich openmpi-bin"
    return rig.missing("disks") or mounted.missing()


class Programs:
    """An environment with mpi4py, and how each MPI starts programs of it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.python = folder / "bin/python"
        install = [self.python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", MPI4PY]
        subprocess.run(install, check=True)
        # mpi4py loads MPICH by the name that all MPIs of its ABI have but Debian's.
        self.names = folder / "names"
        self.names.mkdir()
        (self.names / "libmpi.so.12").symlink_to(LIBRARIES / "libmpich.so.12")

    def write(self, mpi: str, path: Path, planes: int) -> float:
        """The seconds that the ranks took."""
        own = (
            {"LD_LIBRARY_PATH": str(self.names)}
            if mpi == "MPICH"
            else {
                "MPI4PY_LIBMPI": str(LIBRARIES / "libmpi.so.40"),
                # More ranks than processors: a rank that waits lets the others run.
                "OMPI_MCA_mpi_yield_when_idle": "1",
            }
        )
        program = Path(__file__).with_name("mpi_program.py")
        ranks = [*LAUNCHERS[mpi], "-n", "9", self.python, program, path, str(planes)]
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            ranks, env={**kept, **own}, stdout=subprocess.PIPE, timeout=SECONDS_MAX, check=True
        )
        return float(done.stdout)


def measure(quick: bool) -> dict[str, Any]:
    planes = QUICK_PLANES if quick else PLANES
    times: dict[str, list[float]] = {name: [] for name in (*LAUNCHERS, *OURS)}
    with ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
        programs = Programs(folder / "environment")
        home = Home(folder / "home", made.enter_context(rig.Disks(WRITE_DISKS, RATE, size=SIZE)))
        path = made.enter_context(mounted.mounted(home.folder, folder / "mount"))
        whole = expected(planes)
        for _ in range(1 if quick else ROUNDS):
            for name, of_name in times.items():
                if name in OURS:
                    took = seconds(OURS[name], home.folder, planes, True)
                else:
                    took = programs.write(name, path / "f", planes)
                of_name.append(took)
                print(f"    {name}: {took:.2f} s", flush=True)
                assert content(home.folder) == whole, f"{name} has written other bytes"
                remove(home.folder, ["f"])
    python = sys.version.split()[0]
    return {"seconds": times, "rate": RATE, "bytes": len(whole), "python": python}


def of(results: dict[str, Any], name: str) -> float:
    """The median time."""
    seconds: float = statistics.median(results["seconds"][name])
    return seconds


def claims(results: dict[str, Any]) -> Any:
    yield "every program wrote the same bytes", True
    for name in OURS:
        part = of(results, name) / of(results, "MPICH")
        yield f"{name}: {part:.2f} of the time of ROMIO on the mount (at most {MOST})", part <= MOST


def draw(axes: Any, results: dict[str, Any]) -> None:
    names = list(results["seconds"])
    for at, name in enumerate(names):
        colour = COLOURS["graduated" if name in OURS else "shortest"]
        axes.bar(at, of(results, name), color=colour)
        axes.text(at, of(results, name), f"{of(results, name):.2f}", ha="center", va="bottom")
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("seconds")
