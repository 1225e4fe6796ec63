"""Commits with an output on a disk that only one worker sees."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

import cluster_harness as clusters
import euphrates as eu
import rig
from commit_checks import (
    EUPHRATES,
    ROWS,
    collection_rows,
    decides,
    hidden,
    needs_syscalls,
    records,
)
from rig.faults.syscalls import Call
from s3_server import S3Server, s3, s3_session  # noqa: F401


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("EUPHRATES_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return home


MASTER = """
import sys
import euphrates as eu
with eu.Cluster.join(sys.argv[1], 2, token_file=sys.argv[2], timeout=60) as cluster:
    eu.Flow.from_json(open(sys.argv[3]).read()).go(cluster=cluster, progress=False)
"""


def own_disk(own: Path, private: Path, name: str, command: list[str]) -> list[str]:
    """The command of a worker in a mount namespace, where no other process sees its disk."""
    shadow = private / name
    shadow.mkdir(parents=True, exist_ok=True)
    mount = 'mount --bind "$0" "$1" && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, str(shadow), str(own), *command]


def may_unshare() -> bool:
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return sys.platform == "linux" and tried.returncode == 0


class OwnDisk:
    """Two workers, each with a disk that only it sees, and a flow with one output there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.own, self.private = folder, folder / "own", folder / "private"
        self.own.mkdir()
        self.hidden = partial(own_disk, self.own, self.private)
        flow = eu.Flow("several")
        source, tee = flow.place(eu.generate("integers", rows=ROWS)), flow.place(eu.tee())
        flow.attach(source, tee)
        flow.attach(tee, flow.place(eu.save(str(self.own / "a.parquet")), workers="w0"))
        flow.attach(tee, flow.place(eu.save(str(folder / "b.parquet"))))
        flow.attach(tee, flow.place(eu.write("c")))
        self.flow = flow
        (folder / "flow.json").write_text(flow.to_json())

    def master_killed(self, kill_workers: bool) -> None:
        """Runs the flow, and kills its program when the record of the commit exists."""
        token, port = clusters.new_token(self.folder), clusters.free_port()
        address = f"127.0.0.1:{port}"
        programs: list[clusters.Command] = []

        def fault(call: Call) -> str:
            if not decides(call):
                return "pass"
            for program in programs if kill_workers else []:
                program.process.kill()
                program.process.wait()
            return "kill-one-after"

        words = [sys.executable, "-c", MASTER, address, token, str(self.folder / "flow.json")]
        with rig.Syscalls([self.folder / "home"]) as syscalls:
            master = threading.Thread(target=syscalls.run, args=(words, fault))
            master.start()
            clusters.wait_for(lambda: clusters.listens(port), "the program listens")
            programs += clusters.labelled(self.folder, address, token, ["w0", "w1"], self.hidden)
            master.join(60)
        for program in programs:
            program.process.wait(30)

    def visible(self) -> list[bool]:
        files = [self.private / "w0/a.parquet", self.folder / "b.parquet"]
        return [*(path.exists() for path in files), collection_rows("c") == ROWS]


needs_own_disks = pytest.mark.skipif(
    not may_unshare(), reason="needs root, to hide disks from other workers"
)


@needs_own_disks
def test_output_on_a_private_worker_disk_is_published(home: Path, tmp_path: Path) -> None:
    disk = OwnDisk(tmp_path)
    with clusters.joined(tmp_path, ["w0", "w1"], disk.hidden) as cluster:
        disk.flow.go(cluster=cluster)
    assert disk.visible() == [True] * 3 and not (disk.own / "a.parquet").exists()
    assert hidden(tmp_path) == hidden(disk.private / "w0") == records(home) == []


@needs_own_disks
@needs_syscalls
def test_workers_complete_a_decided_commit_of_a_killed_program(home: Path, tmp_path: Path) -> None:
    disk = OwnDisk(tmp_path)
    disk.master_killed(kill_workers=False)
    assert disk.visible() == [True] * 3
    assert hidden(tmp_path) == hidden(disk.private / "w0") == records(home) == []


@needs_own_disks
@needs_syscalls
def test_commit_waits_for_the_only_worker_with_an_output(home: Path, tmp_path: Path) -> None:
    disk = OwnDisk(tmp_path)
    disk.master_killed(kill_workers=True)
    collected = subprocess.run([EUPHRATES, "gc"], capture_output=True, text=True)
    assert collected.returncode == 4 and "only worker w0 sees it" in collected.stderr
    assert disk.visible() == [False] * 3
    (tmp_path / "again").mkdir()
    with clusters.joined(tmp_path / "again", ["w0", "w1"], disk.hidden) as cluster:
        flow = eu.Flow("next")
        flow.chain(eu.generate("integers", rows=10), eu.count(), eu.collect())
        flow.go(cluster=cluster)
    assert disk.visible() == [True] * 3
    assert hidden(tmp_path) == hidden(disk.private / "w0") == records(home) == []
