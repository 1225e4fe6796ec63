"""MPI programs on a mount of striped files against our own views, in BTIO's geometry.

Nine ranks write the file of `views.py` collectively, as MPICH's ROMIO and Open MPI's OMPIO do it,
to a mount; and nine processes of a session, and nine threads with one open file, write the same
bytes by views. Every file is compared byte for byte. Open MPI is that of the system; MPICH and
mpi4py are installed into an environment that exists while the figure is measured.

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
from views import PLANES, by_processes, by_threads, content, expected, seconds

import rig

TITLE = "BTIO's geometry: MPI programs on a mount, and views of our own, on six throttled disks"
PACKAGES = ("mpi4py==4.1.2", "mpich==5.0.2")
OPEN_MPI = "mpiexec.openmpi"
PROGRAMS = ("MPICH", "Open MPI")
OURS = {"views, threads": by_threads, "views, processes": by_processes}
MOST = 0.8
SECONDS_MAX = 300


def missing() -> str | None:
    if shutil.which(OPEN_MPI) is None:
        return f"{OPEN_MPI} is not installed: apt-get install openmpi-bin"
    return rig.missing("disks") or mounted.missing()


class Programs:
    """An environment with mpi4py and MPICH, and how each MPI starts programs of it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder / "bin"
        install = [self.folder / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, "--only-binary=:all:", *PACKAGES], check=True)

    def write(self, mpi: str, path: Path, planes: int) -> float:
        """The seconds that the ranks took."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        launcher: list[str | Path] = [self.folder / "mpiexec"]
        if mpi == "Open MPI":
            launcher = [OPEN_MPI, "--allow-run-as-root", "--oversubscribe"]
            library = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu" / "libmpi.so.40"
            environment["MPI4PY_LIBMPI"] = str(library)
            # There are more ranks than processors: one that waits lets the others run.
            environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
        program = Path(__file__).with_name("mpi_program.py")
        ranks = [*launcher, "-n", "9", self.folder / "python", program, path, str(planes)]
        done = subprocess.run(
            ranks, env=environment, stdout=subprocess.PIPE, timeout=SECONDS_MAX, check=True
        )
        return float(done.stdout)


def measure(quick: bool) -> dict[str, Any]:
    planes = PLANES
    times: dict[str, list[float]] = {name: [] for name in (*PROGRAMS, *OURS)}
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
