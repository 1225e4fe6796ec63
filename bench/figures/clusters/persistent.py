"""A persistent cluster: a keeper and workers, each started by the command on this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

EUPHRATES = Path(sys.executable).with_name("euphrates")


@contextlib.contextmanager
def kept(
    folder: Path, workers: Sequence[Sequence[str | os.PathLike[str]]]
) -> Iterator[tuple[str, Path]]:
    """A keeper with a worker for each of these lists of options: its address, and its token in the
    folder. The processes are in the caller's control group, so that limits of the rig hold for
    them.
    """
    token = folder / "token"
    subprocess.run([EUPHRATES, "token", token], check=True)
    with contextlib.ExitStack() as stack:

        def start(*words: str | os.PathLike[str], **options: int) -> subprocess.Popen[str]:
            command = [EUPHRATES, *words, "--token-file", token]
            process = subprocess.Popen(command, text=True, **options)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        keeper = start("cluster", "--listen", "127.0.0.1:0", stdout=subprocess.PIPE)
        assert keeper.stdout is not None
        address = keeper.stdout.readline().split()[-1]
        for options in workers:
            start("worker", "--join", address, *options, stderr=subprocess.DEVNULL)
            if not keeper.stdout.readline().endswith(" has joined\n"):
                raise RuntimeError("the cluster has ended")
        yield address, token
