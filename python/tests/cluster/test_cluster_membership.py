"""Cluster membership: tokens, addresses, keepers, workers that join, fail to join, or leave; and
workers that see other files than their program.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cluster_harness as clusters
import euphrates as eu
from cluster_harness import Program, free_port, listens, wait_for, worker

HERE = "127.0.0.1"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    return clusters.new_token(tmp_path)


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """Programs that are ended after the test, the last first."""
    started: list[Program] = []
    yield started
    for program in reversed(started):
        program.end()


@pytest.fixture
def keeper(tmp_path: Path, token: Path, programs: list[Program]) -> str:
    program, address = clusters.keep(tmp_path, token)
    programs.append(program)
    return address


def count(place: Any, rows: int = 100_000) -> list[dict[str, int]]:
    flow = eu.Flow("count")
    flow.chain(eu.generate("integers", rows=rows), eu.count(), eu.collect())
    return flow.go(cluster=place).collected().to_pylist()


def other_token(folder: Path) -> Path:
    other = folder / "other"
    other.mkdir()
    return clusters.new_token(other)


def test_token_file_is_private_and_never_replaced(token: Path) -> None:
    assert token.stat().st_mode & 0o777 == 0o600
    assert len(token.read_text().strip()) == 64
    command = [*clusters.COMMAND, "token", str(token)]
    again = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert again.returncode == 2 and "exists" in again.stderr


def test_token_mismatch_is_reported_at_worker_and_program(
    tmp_path: Path, token: Path, programs: list[Program]
) -> None:
    port, other = free_port(), other_token(tmp_path)
    code = f"""
import euphrates as eu
eu.Cluster.join("{HERE}:{port}", 1, token_file={str(token)!r}, timeout=4)
"""
    joining = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: listens(port), "the program listens")
        stranger = worker(tmp_path, f"{HERE}:{port}", other, "stranger")
        programs.append(stranger)
        assert stranger.wait() != 0
        assert "token" in stranger.stderr and "remedy" in stranger.stderr
        _, told = joining.communicate(timeout=30)
    finally:
        joining.kill()
    assert joining.returncode != 0
    assert "0 of 1 workers have joined" in told and "token" in told


@pytest.mark.filterwarnings("ignore:channel_security")
@pytest.mark.parametrize("way", ["tls", "token"])
def test_program_with_wrong_token_is_rejected(
    way: Any, tmp_path: Path, token: Path, programs: list[Program]
) -> None:
    words = ("--listen", f"{HERE}:0", "--token-file", token, "--channel-security", way)
    keeper = Program(tmp_path, "cluster", *words)
    programs.append(keeper)
    wait_for(lambda: keeper.stdout, "the keeper listens")
    address = keeper.stdout.split()[-1]
    other = other_token(tmp_path)
    with pytest.raises(eu.UsageError, match="token") as refused:
        eu.Cluster.at(address, token_file=other, channel_security=way)
    assert address in str(refused.value)


def test_security_mismatch_is_reported_at_both_ends(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    with pytest.warns(UserWarning, match="channel_security"), pytest.raises(eu.UsageError) as said:
        eu.Cluster.at(keeper, token_file=token, channel_security="token")
    assert "TLS" in str(said.value)
    plain = worker(tmp_path, keeper, token, "plain", "--channel-security", "token")
    programs.append(plain)
    assert plain.wait() != 0 and "TLS" in plain.stderr


def test_trusted_network_works_without_tls(tmp_path: Path) -> None:
    token, port = clusters.new_token(tmp_path), free_port()
    code = f"""
import warnings
warnings.simplefilter("ignore")
import euphrates as eu
where = {{"token_file": {str(token)!r}, "channel_security": "token"}}
with eu.Cluster.join("{HERE}:{port}", 2, timeout=30, **where) as cluster:
    flow = eu.Flow("count")
    flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
    print(flow.go(cluster=cluster).collected().to_pylist())
"""
    joining = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    way = ("--channel-security", "token")
    started = []
    try:
        wait_for(lambda: listens(port), "the program listens")
        started = [worker(tmp_path, f"{HERE}:{port}", token, name, *way) for name in ("a", "b")]
        said, _ = joining.communicate(timeout=30)
        assert "'count': 1000" in said
        assert [program.wait() for program in started] == [0, 0]
    finally:
        joining.kill()
        for program in started:
            program.end()


def test_world_readable_token_is_rejected(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    shown = tmp_path / "shown"
    shown.write_text(token.read_text())
    shown.chmod(0o644)
    with pytest.raises(eu.UsageError, match="may be read by others") as refused:
        eu.Cluster.at(keeper, token_file=shown)
    assert refused.value.message == f'the token in "{shown}" may be read by others'
    assert "chmod 600" in str(refused.value)
    careless = worker(tmp_path, keeper, shown, "careless")
    programs.append(careless)
    assert careless.wait() == 2 and "chmod 600" in careless.stderr


@pytest.mark.parametrize("content", ["", "12\n", "x" * 64, "0" * 63])
def test_malformed_token_is_rejected(content: str, tmp_path: Path, keeper: str) -> None:
    path = tmp_path / "none"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(eu.UsageError, match="64 hexadecimal digits") as refused:
        eu.Cluster.at(keeper, token_file=path)
    assert refused.value.message == f'the token in "{path}" is not 64 hexadecimal digits'


def test_missing_token_is_named(tmp_path: Path, keeper: str) -> None:
    with pytest.raises(eu.UsageError) as refused:
        eu.Cluster.at(keeper, token_file=tmp_path / "nowhere")
    assert f'the token in "{tmp_path / "nowhere"}": ' in refused.value.message


def test_remote_cluster_words_need_a_token() -> None:
    flow = eu.Flow("none")
    flow.chain(eu.generate("integers", rows=1), eu.collect())
    with pytest.raises(eu.UsageError, match="token"):
        flow.go(cluster=f"at:{HERE}:1")


def test_address_in_use_is_named(token: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HERE, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(eu.UsageError, match=f"{HERE}:{port} cannot be listened at") as refused:
            eu.Cluster.join(f"{HERE}:{port}", 1, token_file=token, timeout=1)
    assert "another port" in str(refused.value)


def test_unknown_host_is_named(token: Path, programs: list[Program]) -> None:
    nowhere = "nobody.invalid:4400"
    with pytest.raises(eu.ResourceError, match=r"nobody\.invalid"):
        eu.Cluster.at(nowhere, token_file=token)
    lost = worker(token.parent, nowhere, token, "lost")
    programs.append(lost)
    # The name may resolve later, so a worker retries until it is terminated.
    wait_for(lambda: handles_signal(lost.pid, signal.SIGTERM), "it listens to signals")
    lost.end()
    assert lost.wait() != 0 and "nobody.invalid" in lost.stderr


def handles_signal(pid: int, number: int) -> bool:
    """Whether a process handles a signal."""
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def test_unreachable_keeper_is_named(token: Path, programs: list[Program]) -> None:
    address = f"{HERE}:{free_port()}"
    with pytest.raises(eu.ResourceError, match=address):
        eu.Cluster.at(address, token_file=token)


def test_non_keeper_peer_is_identified(token: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind((HERE, 0))
        deaf.listen()
        with pytest.raises(eu.EuphratesError):
            eu.Cluster.at(f"{HERE}:{deaf.getsockname()[1]}", token_file=token)


def test_too_few_workers_are_reported(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    with pytest.raises(eu.ResourceError, match="0 of 1 workers"):
        eu.Cluster.at(keeper, token_file=token)
    programs.append(worker(tmp_path, keeper, token, "one"))
    wait_for(lambda: "one has joined" in programs[0].stdout, "it joins")
    with pytest.raises(eu.ResourceError, match="1 of 3 workers"):
        eu.Cluster.at(keeper, token_file=token, workers=3)
    with pytest.raises(eu.ResourceError, match="0 of 2 workers have joined") as refused:
        eu.Cluster.join(f"{HERE}:{free_port()}", 2, token_file=token, timeout=0.2)
    assert "euphrates worker --join" in str(refused.value)


def test_duplicate_worker_names_are_disambiguated(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    programs += [worker(tmp_path, keeper, token, "twin") for _ in range(3)]
    wait_for(lambda: programs[0].stdout.count("has joined") == 3, "all join")
    with eu.Cluster.at(keeper, token_file=token, workers=3) as cluster:
        assert [one.name for one in cluster.workers] == ["twin", "twin-2", "twin-3"]
        flow = eu.Flow("sorted")
        flow.chain(eu.generate("integers", rows=100_000), eu.sort(["n"]), eu.collect())
        report = flow.go(cluster=cluster)
    assert report.collected().to_pydict()["n"] == list(range(100_000))


def test_worker_leaving_before_the_flow_is_tolerated(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    programs += [worker(tmp_path, keeper, token, name) for name in ("stays", "leaves")]
    wait_for(lambda: programs[0].stdout.count("has joined") == 2, "both join")
    with eu.Cluster.at(keeper, token_file=token, workers=2) as cluster:
        programs[2].process.send_signal(signal.SIGTERM)
        programs[2].wait()
        wait_for(lambda: "leaves has left" in programs[0].stdout, "the keeper sees it")
        wait_for(lambda: len(cluster.workers) == 1, "the program sees it")
        assert count(cluster) == [{"count": 100_000}]
        programs[1].process.kill()
        wait_for(lambda: not cluster.workers, "the program sees it")
        with pytest.raises(eu.ResourceError, match="lost"):
            count(cluster)


def test_persistent_cluster_outlives_its_programs(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    programs += [worker(tmp_path, keeper, token, name) for name in ("a", "b")]
    wait_for(lambda: programs[0].stdout.count("has joined") == 2, "both join")
    for _ in range(3):
        with eu.Cluster.at(keeper, token_file=token, workers=2) as cluster:
            assert count(cluster) == [{"count": 100_000}]
    endless = f"""
import euphrates as eu
flow = eu.Flow("endless")
flow.chain(eu.generate("integers", rows=10**11), eu.write("out"))
with eu.Cluster.at("{keeper}", token_file={str(token)!r}) as cluster:
    flow.go(cluster=cluster)
"""
    killed = subprocess.Popen([sys.executable, "-c", endless])
    wait_for(lambda: clusters.staged(tmp_path), "it writes")
    killed.kill()
    killed.wait()
    wait_for(lambda: not clusters.staged(tmp_path), "the workers clean up")
    with eu.Cluster.at(keeper, token_file=token, workers=2) as one:
        with eu.Cluster.at(keeper, token_file=token, workers=2) as other:
            assert count(one) == count(other) == [{"count": 100_000}]
        assert count(one) == [{"count": 100_000}]


def test_staying_workers_rejoin(tmp_path: Path, token: Path, programs: list[Program]) -> None:
    address = f"{HERE}:{free_port()}"
    words = ("cluster", "--listen", address, "--token-file", token)
    keeper = Program(tmp_path, *words)
    wait_for(lambda: keeper.stdout, "the keeper listens")
    programs.append(worker(tmp_path, address, token, "loyal", "--stay"))
    goes = worker(tmp_path, address, token, "goes")
    programs.append(goes)
    wait_for(lambda: keeper.stdout.count("has joined") == 2, "both join")
    keeper.end()
    assert goes.wait() == 0, goes.stderr
    again = Program(tmp_path, *words)
    programs.append(again)
    wait_for(lambda: "loyal has joined" in again.stdout, "it joins again")
    with eu.Cluster.at(address, token_file=token) as cluster:
        assert count(cluster) == [{"count": 100_000}]


def test_unauthenticated_connections_do_no_harm(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    ports = [free_port(), int(keeper.rsplit(":", 1)[1])]
    programs.append(worker(tmp_path, keeper, token, "a", "--listen", f"{HERE}:{ports[0]}"))
    programs.append(worker(tmp_path, keeper, token, "b"))
    wait_for(lambda: programs[0].stdout.count("has joined") == 2, "both join")
    words = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 65_535]
    words += [token.read_bytes(), os.urandom(100_000)]
    with contextlib.ExitStack() as held:
        for port in ports * 40:
            for word in words:
                stranger = held.enter_context(socket.create_connection((HERE, port), 10))
                with contextlib.suppress(OSError):
                    stranger.sendall(word)
        with eu.Cluster.at(keeper, token_file=token, workers=2) as cluster:
            assert count(cluster) == [{"count": 100_000}]
    for program in programs[:2]:
        threads = f"/proc/{program.pid}/task"
        wait_for(lambda threads=threads: len(os.listdir(threads)) < 20, "callers are let go")


def test_command_line_runs_on_a_persistent_cluster(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> None:
    programs += [worker(tmp_path, keeper, token, name) for name in ("a", "b")]
    wait_for(lambda: programs[0].stdout.count("has joined") == 2, "both join")
    records, done = tmp_path / "records.dat", tmp_path / "sorted.dat"
    where = ("--cluster", f"at:{keeper}", "--token-file", token)
    for command in (
        ("gensort", "100000", records),
        ("sort", records, "-o", done, *where),
        ("valsort", done),
    ):
        program = Program(tmp_path, *command)
        assert program.wait() == 0, program.stderr


def test_worker_reports_missing_or_invalid_arguments(tmp_path: Path, token: Path) -> None:
    for words, said in [
        ((), "--token-file"),
        (("--token-file", token), "--listen"),
        (("--token-file", token, "--listen", "nonsense"), "host:port"),
        (("--token-file", token, "--listen", f"{HERE}:0", "--channel-security", "x"), "tls"),
        (("--token-file", token, "--listen", f"{HERE}:0", "--stay"), "--join"),
    ]:
        program = Program(tmp_path, "worker", *words)
        assert program.wait() == 2 and said in program.stderr, (words, program.stderr)


@pytest.fixture
def separate_folders(
    tmp_path: Path, token: Path, keeper: str, programs: list[Program]
) -> Iterator[Any]:
    """Two workers, each in a folder of its own, and this program in a third."""
    before = Path.cwd()
    folders = [tmp_path / name for name in ("a", "b", "here")]
    for folder in folders:
        folder.mkdir()
    try:
        for folder in folders[:2]:
            os.chdir(folder)
            programs.append(worker(tmp_path, keeper, token, folder.name))
        wait_for(lambda: programs[0].stdout.count("has joined") == 2, "both join")
        os.chdir(folders[2])
        with eu.Cluster.at(keeper, token_file=token, workers=2) as cluster:
            yield cluster, *folders
    finally:
        os.chdir(before)


def put(path: Path, first: int) -> None:
    table = pa.table({"n": range(first, first + 100)})
    pq.write_table(table, path, row_group_size=10)


def scanned(path: str, cluster: eu.Cluster) -> list[int]:
    flow = eu.Flow("scanned")
    flow.chain(flow.place(eu.scan(path), count=4), eu.collect())
    return sorted(flow.go(cluster=cluster).collected().to_pydict()["n"])


def test_file_missing_at_a_worker_is_named_with_the_worker(separate_folders: Any) -> None:
    cluster, _, _, here = separate_folders
    put(here / "in.parquet", 0)
    # Each process resolves this relative path in its own folder.
    with pytest.raises(eu.UsageError, match=r"in\.parquet") as failed:
        scanned("/proc/self/cwd/in.parquet", cluster)
    assert "worker a" in str(failed.value) or "worker b" in str(failed.value)


def test_relative_path_resolves_alike_at_workers(separate_folders: Any) -> None:
    cluster, a, b, here = separate_folders
    for folder, first in ((a, 100), (b, 200), (here, 0)):
        put(folder / "in.parquet", first)
    assert scanned("in.parquet", cluster) == list(range(100))


def test_divergent_files_at_workers_are_detected(separate_folders: Any) -> None:
    cluster, a, b, here = separate_folders
    for folder, names in ((a, "xy"), (b, "y"), (here, "xy")):
        for name in names:
            put(folder / f"{name}.parquet", 100 * ord(name))
    with pytest.raises(eu.EuphratesError):
        scanned("/proc/self/cwd/*.parquet", cluster)


def test_divergent_collection_versions_at_workers_are_detected(separate_folders: Any) -> None:
    cluster, a, b, here = separate_folders
    for version, folder in enumerate((a, b, here)):
        flow = eu.Flow("write")
        value = eu.project([f"{version} as version"])
        flow.chain(eu.generate("integers", rows=1_000_000), value, eu.write("c"))
        flow.go(home=folder / "home")
    flow = eu.Flow("read")
    flow.chain(flow.place(eu.read("c"), count=4), eu.collect())
    with pytest.raises(eu.EuphratesError):
        flow.go(cluster=cluster, home="/proc/self/cwd/home")


def test_local_workers_import_their_programs_modules(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "helpers.py").write_text("def same(batch):\n    return batch\n")
    (folder / "main.py").write_text(
        "import euphrates as eu\nimport helpers\n"
        "flow = eu.Flow('beside')\n"
        "flow.chain(eu.generate('integers', rows=10), helpers.same, eu.collect())\n"
        "print(flow.go(cluster='processes:2').collected().to_pydict())\n"
    )
    command = [sys.executable, str(folder / "main.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
