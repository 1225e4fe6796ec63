"""Clusters as users start them: real processes connected through real ports of this machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import euphrates as eu

KINDS = ("processes", "join", "at")
"""Every kind of cluster except the program itself."""
COMMAND = [sys.executable, "-m", "euphrates"]
SUPPORT = Path(__file__).parent
MODULES = [str(SUPPORT), *sorted({str(path.parent) for path in SUPPORT.parent.glob("*/test_*.py")})]
"""Folders of the modules that tests and their workers import."""


def wait_for(happened: Callable[[], Any], what: str = "it", seconds: float = 180) -> Any:
    """Polls until `happened` is true; fails with `what` on a timeout."""
    deadline = time.monotonic() + seconds
    while not (result := happened()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)
    return result


class Command:
    """A running command and its output."""

    def __init__(
        self, folder: Path, command: list[str], env: Mapping[str, str] | None = None
    ) -> None:
        number = len(list(folder.glob("*.out")))
        self.out, self.err = folder / f"{number}.out", folder / f"{number}.err"
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "PYTHONPATH": with_tests(), **(env or {})},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def stdout(self) -> str:
        return self.out.read_text()

    @property
    def stderr(self) -> str:
        return self.err.read_text()

    def wait(self, seconds: float = 120) -> int:
        return self.process.wait(seconds)

    def end(self) -> None:
        """Terminates it, and kills it if it does not end."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class Program(Command):
    """A `euphrates` command; `inside` wraps the command line to run it elsewhere."""

    def __init__(
        self,
        folder: Path,
        *words: object,
        env: Mapping[str, str] | None = None,
        inside: Callable[[list[str]], list[str]] = list,
    ) -> None:
        super().__init__(folder, inside([*COMMAND, *map(str, words)]), env)


def with_tests() -> str:
    """A PYTHONPATH with which workers find the modules of the tests."""
    return os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), *MODULES])


def free_port() -> int:
    """A port that is free now, and that no program gets which asks for any: those are above."""
    while True:
        port = secrets.choice(range(20_000, 32_000))
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def listens(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as caller:
        return caller.connect_ex((host, port)) == 0


def new_token(folder: Path) -> Path:
    path = folder / "token"
    subprocess.run([*COMMAND, "token", str(path)], check=True, timeout=30)
    return path


def keep(folder: Path, token: Path, **options: Any) -> tuple[Program, str]:
    """A keeper, and its address."""
    listening = ("--listen", "127.0.0.1:0", "--token-file", token)
    keeper = Program(folder, "cluster", *listening, **options)
    said = wait_for(lambda: keeper.stdout or keeper.ended, "the keeper says where it listens")
    assert said is not True, keeper.stderr
    return keeper, said.split()[-1]


def worker(
    folder: Path, address: str, token: Path, name: str, *words: str, **options: Any
) -> Program:
    """A worker that joins."""
    joining = ("--join", address, "--token-file", token, "--name", name)
    return Program(folder, "worker", *joining, "--cores", 1, *words, **options)


def anywhere(name: str, command: list[str]) -> list[str]:
    return command


Inside = Callable[[str, list[str]], list[str]]
"""Maps a worker's name and its command to the command that runs it in its place."""


def labelled(
    folder: Path, address: str, token: Path, names: list[str], inside: Inside = anywhere
) -> list[Command]:
    """Workers of these names, alternately labelled even and odd."""
    labels = [(name, "odd") for name in names[1::2]] + [(name, "even") for name in names[::2]]
    here = (folder, address, token)
    return [
        worker(*here, name, "--label", label, inside=partial(inside, name))
        for name, label in labels
    ]


@contextlib.contextmanager
def joined(
    folder: Path, names: list[str], inside: Inside = anywhere, **options: Any
) -> Iterator[eu.Cluster]:
    """A cluster of workers that have joined this program."""

    def start(address: str, token: Path) -> list[Command]:
        return labelled(folder, address, token, names, inside)

    with joined_by(start, folder, len(names), **options) as cluster:
        yield cluster


@contextlib.contextmanager
def joined_by(
    start: Callable[[str, Path], Sequence[Command]],
    folder: Path,
    workers: int,
    host: str = "127.0.0.1",
    timeout: float = 30,
    **options: Any,
) -> Iterator[eu.Cluster]:
    """The same, with workers that `start` starts, given the address and the token."""
    token, port = new_token(folder), free_port()
    address = f"{host}:{port}"
    opened: list[eu.Cluster | BaseException] = []

    def join() -> None:
        try:
            joined = eu.Cluster.join(address, workers, token_file=token, timeout=timeout, **options)
            opened.append(joined)
        except BaseException as error:
            opened.append(error)

    joining = threading.Thread(target=join)
    joining.start()
    programs: Sequence[Command] = []
    try:
        wait_for(lambda: opened or listens(port, host), "the program listens")
        programs = start(address, token)
        joining.join(60)
        cluster = opened[0]
        if isinstance(cluster, BaseException):
            raise cluster
        with cluster:
            yield cluster
        for program in programs:
            assert program.wait(10) == 0, program.stderr
    finally:
        for program in programs:
            program.end()


@contextlib.contextmanager
def persistent(folder: Path, names: list[str]) -> Iterator[eu.Cluster]:
    """A persistent cluster."""
    token = new_token(folder)
    keeper, address = keep(folder, token)
    programs: list[Command] = [keeper]
    try:
        programs += labelled(folder, address, token, names)
        everybody = [f"{name} has joined" for name in names]
        wait_for(lambda: all(one in keeper.stdout for one in everybody), "all have joined")
        with eu.Cluster.at(address, token_file=token, workers=len(names)) as cluster:
            yield cluster
    finally:
        for program in reversed(programs):
            program.end()


@contextlib.contextmanager
def started(kind: str, folder: Path) -> Iterator[eu.Cluster]:
    """A cluster of this kind, whose workers find the modules of the tests."""
    names = ["w0", "w1", "w2"]
    if kind == "join":
        with joined(folder, names[:2]) as cluster:
            yield cluster
    elif kind == "at":
        with persistent(folder, names) as cluster:
            yield cluster
    else:
        with processes(3) as cluster:
            yield cluster


@contextlib.contextmanager
def processes(workers: int) -> Iterator[eu.Cluster]:
    """Worker processes of this machine that find the modules of the tests."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = with_tests()
    try:
        cluster = eu.Cluster.processes(workers)
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    with cluster:
        yield cluster


def workers_of(pid: int) -> dict[str, int]:
    """The worker processes of a process by name; of two with one name, the later one. Process ids
    do not tell which is later: they wrap at 32,768.
    """
    found = {}
    every = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    for child in sorted((one for one in every if parent(one) == pid), key=began):
        words = arguments(child)
        if "worker" in words and "--name" in words:
            found[words[words.index("--name") + 1]] = child
    return found


def arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def parent(pid: int) -> int | None:
    return status(pid, 1)


def began(pid: int) -> int:
    """The start time of the process, in ticks since boot."""
    return status(pid, 19) or 0


def status(pid: int, at: int) -> int | None:
    """The fields of the process's stat file from its state on."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[at])
    except OSError:
        return None


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def staged(folder: Path) -> list[Path]:
    """Staged files below a folder that are neither published nor removed."""
    found = []
    # Folders may disappear during the scan.
    for at, folders, files in os.walk(folder):
        if Path(at).name in (".staging", "scratch"):
            found += [Path(at, name) for name in (*folders, *files)]
        found += [Path(at, name) for name in files if name.endswith(".euphrates-part")]
    return found
