"""Striped files on disks that the workers of a cluster serve."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import euphrates as eu
from euphrates.errors import EuphratesError, UsageError
from mount_cases import Mount, missing, until
from served_cases import CATALOG, EUPHRATES, PATIENCE, ServedCluster, served

pytestmark = pytest.mark.filterwarnings("ignore:striped file")

CONTENT = random.Random(5).randbytes(21_000_003)
LOST_WITHIN = 30.0
"""Seconds in which a dead or stopped worker is a lost disk: 2 s of silence, 5 s of a call, and what
a loaded machine needs."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedCluster]:
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / "own"))
    with served(tmp_path, 4) as cluster:
        yield cluster


def write(home: str, name: str = "f", content: bytes = CONTENT) -> None:
    with eu.open_striped(name, "wb", data=2, parity=1, home=home) as file:
        file.write(content)


def read(home: str, name: str = "f") -> bytes:
    with eu.open_striped(name, home=home) as file:
        return file.read()


def test_clients_with_homes_of_their_own_see_the_same_files(
    cluster: ServedCluster, tmp_path: Path
) -> None:
    write(cluster.home(), "models/f")
    assert any(cluster.disk("d0").rglob("*.blocks")), "it lies on the disks of the workers"
    assert "2+1" in cluster.run("file", "ls", client="other")
    cluster.run("file", "get", "models/f", "back", client="other")
    assert (tmp_path / "back").read_bytes() == CONTENT
    (tmp_path / "new").write_bytes(b"new")
    cluster.run("file", "put", "new", "models/f", "--overwrite", "--data=2", client="other")
    assert read(cluster.home(), "models/f") == b"new"
    with eu.open_striped("models/f", "r+b", home=cluster.home()) as file:
        file.pwrite(b"N", 0)
    assert "sound" in cluster.run("file", "verify", "models/f", client="third")
    cluster.run("file", "rm", "models/f", client="third")
    with pytest.raises(UsageError, match="no striped file"):
        read(cluster.home(), "models/f")
    assert not any(cluster.disk("d0").rglob("*.blocks")), "its segments are removed"


def test_reader_keeps_its_version_when_another_client_replaces_it(cluster: ServedCluster) -> None:
    write(cluster.home())
    with eu.open_striped("f", home=cluster.home()) as file:
        assert file.read(100) == CONTENT[:100]
        (cluster.folder / "new").write_bytes(b"new")
        cluster.run("file", "put", "new", "f", "--overwrite", "--data=2", client="other")
        assert file.pread(len(CONTENT), 0) == CONTENT
    assert read(cluster.home()) == b"new"


def test_of_two_writers_of_a_name_the_first_that_closes_wins(cluster: ServedCluster) -> None:
    home = cluster.home()
    slow = eu.open_striped("f", "wb", data=2, home=home)
    slow.write(b"slow")
    (cluster.folder / "fast").write_bytes(b"fast")
    cluster.run("file", "put", "fast", "f", "--data=2", client="other")
    with pytest.raises(EuphratesError, match="another writer"):
        slow.close()
    assert read(home) == b"fast"


def test_worker_that_is_killed_while_a_file_is_written_loses_nothing(
    cluster: ServedCluster,
) -> None:
    home = cluster.home()
    with eu.open_striped("f", "wb", data=2, parity=1, home=home) as file:
        file.write(CONTENT[:10_000_000])
        cluster.kill("w1")
        file.write(CONTENT[10_000_000:])
    assert read(home) == CONTENT
    # A client that has never seen the lost disk.
    cluster.run("file", "get", "f", "back", client="other")
    assert (cluster.folder / "back").read_bytes() == CONTENT


def test_worker_that_is_killed_while_a_file_is_read_is_restored_from_parity(
    cluster: ServedCluster,
) -> None:
    write(cluster.home())
    with eu.open_striped("f", home=cluster.home()) as file:
        first = file.read(5_000_000)
        cluster.kill("w2")
        assert first + file.read() == CONTENT
        assert file.pread(1000, 1_234_567) == CONTENT[1_234_567:1_235_567]


def test_stopped_worker_is_a_lost_disk_within_a_bounded_time(cluster: ServedCluster) -> None:
    home = cluster.home()
    write(home)
    with eu.open_striped("f", home=home) as file:
        file.read(3_000_000)
        cluster.stop("w0")
        begun = time.monotonic()
        assert file.pread(len(CONTENT), 0) == CONTENT
        assert time.monotonic() - begun < LOST_WITHIN
    begun = time.monotonic()
    write(home, "g")
    assert read(home, "g") == CONTENT
    assert time.monotonic() - begun < LOST_WITHIN


def test_too_many_lost_workers_are_an_error_that_names_stripe_and_disks(
    cluster: ServedCluster,
) -> None:
    home = cluster.home()
    write(home)
    for name in ("w0", "w1", "w2"):
        cluster.kill(name)
    begun = time.monotonic()
    with pytest.raises(EuphratesError, match=r"is lost|out of reach"):
        read(home)
    with pytest.raises(EuphratesError, match=r"needs 3 disks|out of reach"):
        write(home, "g")
    assert time.monotonic() - begun < LOST_WITHIN


def test_files_are_read_by_the_copies_of_manifests_if_the_catalog_is_lost(
    cluster: ServedCluster,
) -> None:
    home = cluster.home()
    write(home)
    cluster.kill(CATALOG)
    assert read(home) == CONTENT
    with pytest.raises(EuphratesError, match="out of reach"):
        write(home)
    assert read(home) == CONTENT


def test_restarted_worker_is_used_again_by_an_open_file(cluster: ServedCluster) -> None:
    home = cluster.home()
    write(home)
    cluster.kill("w3")
    cluster.start("w3", ["d3"])
    home = cluster.home()
    assert "sound" in cluster.run("file", "verify", "f", client="own")
    assert read(home) == CONTENT


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a small disk")
def test_blocks_of_a_full_disk_go_to_the_other_workers(cluster: ServedCluster) -> None:
    full = cluster.disk("d0")
    full.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", full], check=True)
    try:
        write(cluster.home())
        assert read(cluster.home()) == CONTENT
        assert "sound" in cluster.run("file", "verify", "f", client="other")
    finally:
        for name in [*cluster.workers]:
            cluster.kill(name)
        subprocess.run(["umount", full], check=True)


def test_lost_blocks_are_repaired_onto_the_other_workers(cluster: ServedCluster) -> None:
    write(cluster.home())
    cluster.kill("w1")
    assert "DAMAGED" in cluster.run("file", "verify", "f", code=3)
    assert "restored" in cluster.run("file", "repair", "f")
    cluster.kill("w2")
    assert read(cluster.home()) == CONTENT


def test_what_a_killed_client_has_staged_is_reclaimed_by_the_next_writer(
    cluster: ServedCluster,
) -> None:
    home = cluster.home()
    script = (
        "import euphrates as eu, sys, time\n"
        f"file = eu.open_striped('f', 'wb', data=2, home={home!r})\n"
        "file.write(bytes(9_000_000)); print('written', flush=True); time.sleep(1000)\n"
    )
    client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert client.stdout is not None and client.stdout.readline() == b"written\n"
    write(home, "g")
    assert any(cluster.disk("d0").glob(".staging/*/segments")), "its owner lives"
    client.kill()
    client.wait(PATIENCE)
    client.stdout.close()

    def is_reclaimed() -> bool:
        write(home, "g", b"x")
        return not any(cluster.disk("d0").glob(".staging/*"))

    until(is_reclaimed)
    assert read(home, "g") == b"x"


def test_session_of_several_processes_fills_a_served_file(cluster: ServedCluster) -> None:
    home = cluster.home()
    half = len(CONTENT) // 2
    with eu.striped_session("f", 2, data=2, home=home) as session:
        for number, (at, end) in enumerate([(0, half), (half, len(CONTENT))]):
            with session.writer(number) as file:
                file.pwrite(CONTENT[at:end], at)
        # Another client's writer leaves the shares alone.
        (cluster.folder / "new").write_bytes(b"new")
        cluster.run("file", "put", "new", "g", "--data=2", client="other")
    assert read(home) == CONTENT


def test_forked_children_of_a_client_write_files_of_their_own(cluster: ServedCluster) -> None:
    home = cluster.home()
    write(home, "before")
    content = CONTENT[: 1 << 20]

    def child(number: int) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                signal.alarm(int(PATIENCE))
                for file in range(4):
                    write(home, f"child/{number}.{file}", content)
            except BaseException:
                os._exit(1)
            os._exit(0)
        return pid

    ends = [os.waitpid(pid, 0)[1] for pid in [child(number) for number in range(8)]]
    assert ends == [0] * 8
    names = [f"child/{number}.{file}" for number in range(8) for file in range(4)]
    assert all(read(home, name) == content for name in names)


def test_fsspec_reads_and_writes_served_files(cluster: ServedCluster) -> None:
    fsspec = pytest.importorskip("fsspec")
    options = {"cluster": cluster.cluster, "token_file": str(cluster.token), "data": 2}
    with fsspec.open("euphrates://a/b.txt", "w", **options) as file:
        file.write("hello")
    files = fsspec.filesystem("euphrates", **options)
    assert files.ls("a", detail=False) == ["a/b.txt"]
    assert files.cat("a/b.txt") == b"hello"


def test_client_with_another_token_is_refused(cluster: ServedCluster, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    subprocess.run([EUPHRATES, "token", wrong], check=True, timeout=PATIENCE)
    with pytest.raises(EuphratesError):
        eu.striped_home(cluster.cluster, token_file=wrong)
    with pytest.raises(EuphratesError, match=r"TLS|tls"):
        eu.striped_home(cluster.cluster, token_file=cluster.token, channel_security="token")
    with pytest.raises(UsageError, match="token_file"):
        eu.open_striped("f", cluster=cluster.cluster)
    write(cluster.home())


def test_bytes_of_an_unauthenticated_caller_are_refused(cluster: ServedCluster) -> None:
    write(cluster.home())
    host, port = cluster.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as caller:
        caller.sendall(b"EUPH" + bytes(8000))
        while caller.recv(1000):
            pass
    assert read(cluster.home()) == CONTENT


def test_disks_of_one_machine_are_warned_of(cluster: ServedCluster) -> None:
    with (
        pytest.warns(UserWarning, match="with 1 machines"),
        eu.open_striped("f", "wb", data=2, home=cluster.home()) as file,
    ):
        file.write(b"x")


def test_two_workers_with_a_disk_of_one_name_are_a_usage_error(cluster: ServedCluster) -> None:
    cluster.start("w9", ["d0"])
    with pytest.raises(UsageError, match="both serve a disk `d0`"):
        cluster.home()


def test_cluster_without_encryption_serves_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path / "own"))
    with served(tmp_path, 3, "--channel-security", "token") as cluster:
        write(cluster.home())
        assert read(cluster.home()) == CONTENT


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_mount_that_is_unmounted_while_its_cluster_is_silent_ends(
    cluster: ServedCluster, tmp_path: Path
) -> None:
    access = ["--cluster", cluster.cluster, "--token-file", str(cluster.token), "--data=2"]
    mount = Mount(tmp_path / "client", tmp_path / "mnt", "--timeout", "1", *access)
    try:
        (tmp_path / "mnt" / "f").write_bytes(b"x")
        for name in cluster.workers:
            cluster.stop(name)
        with pytest.raises(OSError, match="Input/output error"):
            (tmp_path / "mnt" / "f").read_bytes()
        subprocess.run(["umount", str(tmp_path / "mnt")], check=True, timeout=PATIENCE)
        assert mount.process.wait(LOST_WITHIN) == 0
    finally:
        mount.kill()


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_mount_of_served_files_gives_errors_and_ends_when_its_cluster_disappears(
    cluster: ServedCluster, tmp_path: Path
) -> None:
    access = ["--cluster", cluster.cluster, "--token-file", str(cluster.token), "--data=2"]
    mount = Mount(tmp_path / "client", tmp_path / "mnt", "--timeout", "5", *access)
    try:
        (tmp_path / "mnt" / "f").write_bytes(CONTENT)
        assert read(cluster.home()) == CONTENT
        assert (tmp_path / "mnt" / "f").read_bytes() == CONTENT
        for name in cluster.workers:
            cluster.stop(name)
        begun = time.monotonic()
        with pytest.raises(OSError, match="Input/output error"):
            (tmp_path / "mnt" / "f").read_bytes()
        with pytest.raises(OSError, match="Input/output error"):
            (tmp_path / "mnt" / "g").write_bytes(b"x")
        assert time.monotonic() - begun < 3 * LOST_WITHIN
        mount.end()
    finally:
        mount.kill()
