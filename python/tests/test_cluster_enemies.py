"""What the world does to a cluster that joins over networks: links that are cut, clocks that jump,
strangers who dribble, workers of another version. Nothing is lost, nothing counts twice, and
whoever must give up says why.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu
import functions
import kinds_of_cluster as clusters
import rig
from kinds_of_cluster import Command, Program, free_port, staged, wait_for, worker
from test_cluster_failure import is_as_it_should, numbers, rows_out, saving, writing
from test_docs import BIN
from test_rig import ROOT, needs

ROWS = 4_000_000
PATIENCE = 90
"""More than anything here takes, unless it hangs."""


def outcome_of(running: Any) -> eu.Report:
    """What comes of a flow, which must come."""
    assert running.wait(PATIENCE), "the flow hangs"
    return running.finish()


def counted(cluster: eu.Cluster) -> list[dict[str, int]]:
    return numbers(1000, eu.count(), eu.collect()).go(cluster=cluster).collected().to_pylist()


# --- links ---------------------------------------------------------------------------------------


class Machines:
    """Hosts of the rig with a worker each, and the cluster that they have joined."""

    def __init__(self, hosts: rig.Hosts, folder: Path) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.workers: dict[str, Program] = {}
        self.folder = folder
        self.outside = hosts.outside

    @contextlib.contextmanager
    def joined(self) -> Iterator[eu.Cluster]:
        with clusters.joined_by(
            self._start, self.folder, len(self.hosts), self.outside
        ) as self.cluster:
            yield self.cluster

    def _start(self, address: str, token: Path) -> list[Command]:
        for name, host in self.hosts.items():
            self.workers[name] = worker(self.folder, address, token, name, inside=host.inside)
        return [*self.workers.values()]

    def staging(self) -> list[str]:
        """The workers that have staged something, the first first."""
        names = [path.name for path in staged(self.folder)]
        return [worker for worker in self.hosts if any(f"-{worker}-" in name for name in names)]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with rig.Hosts(3, "20MB/s") as hosts:
        machines = Machines(hosts, tmp_path)
        with machines.joined():
            yield machines


@needs("hosts")
@pytest.mark.parametrize("way", ["both", "in", "out"])
def test_a_link_that_is_cut_for_a_second_costs_no_record(
    way: str, machines: Machines, tmp_path: Path
) -> None:
    flow, read = saving(tmp_path)
    running = flow.start(cluster=machines.cluster)
    for name, rows in (("host1", ROWS // 4), ("host2", ROWS)):
        wait_for(lambda rows=rows: rows_out(running) > rows or running.wait(0), "it runs")
        with machines.hosts[name].cut(way):
            assert not running.wait(1), "it has ended without a worker that it needs"
    assert is_as_it_should(read, outcome_of(running))
    assert not staged(tmp_path)


@needs("hosts")
@pytest.mark.parametrize(
    ("output", "way"), [(saving, "both"), (writing, "both"), (saving, "out"), (writing, "in")]
)
def test_a_flow_goes_on_without_a_worker_whose_link_is_cut_for_ever(
    output: Any, way: str, machines: Machines, tmp_path: Path
) -> None:
    flow, read = output(tmp_path)
    running = flow.start(cluster=machines.cluster)
    [lost, *_] = wait_for(machines.staging, "it writes")
    machines.hosts[lost].cut(way)
    report = outcome_of(running)
    assert f"{lost} was lost" in str(report)
    assert is_as_it_should(read, report)
    assert lost not in [one.name for one in machines.cluster.workers]
    assert counted(machines.cluster) == [{"count": 1000}]
    assert machines.workers[lost].wait() == 0, "it sees that nobody can reach it"
    assert not staged(tmp_path)
    assert is_as_it_should(read, report)


@needs("hosts")
def test_a_flow_waits_for_workers_who_lose_each_other_for_a_while(
    machines: Machines, tmp_path: Path
) -> None:
    flow, read = writing(tmp_path)
    running = flow.start(cluster=machines.cluster)
    wait_for(lambda: rows_out(running) > ROWS // 4, "it runs")
    one, other, _ = machines.hosts.values()
    with one.part_from(other):
        # The program hears of both, and nothing moves, for longer than modules may wait for each
        # other, and shorter than the connection of these two lasts.
        assert not running.wait(5), "it has ended without what these two owe each other"
    assert is_as_it_should(read, outcome_of(running))
    assert len(machines.cluster.workers) == 3


@needs("hosts")
def test_a_flow_goes_on_without_one_of_two_workers_that_are_parted_for_ever(
    machines: Machines, tmp_path: Path
) -> None:
    flow, read = writing(tmp_path)
    running = flow.start(cluster=machines.cluster)
    wait_for(lambda: rows_out(running) > ROWS // 4, "it runs")
    one, other, _ = machines.hosts.values()
    with one.part_from(other):
        told = str(report := outcome_of(running))
        assert "the connection between" in told and one.name in told and other.name in told
        assert "cannot connect to all other workers" in told
        assert is_as_it_should(read, report)
        assert not staged(tmp_path)
        # The next one knows, and has nobody to wait for.
        told = str(numbers(1000, eu.sort(["n"]), eu.write("next")).go(cluster=machines.cluster))
        assert "cannot connect to all other workers" in told and "again" not in told
    assert len(machines.cluster.workers) == 3


def stream() -> Any:
    """A table without end that can be read but once."""
    batch = pa.record_batch({"n": range(10_000)})
    return pa.RecordBatchReader.from_batches(batch.schema, itertools.repeat(batch))


@needs("hosts")
@pytest.mark.parametrize(
    "first",
    [
        lambda: [eu.from_arrow(stream())],
        lambda: [eu.generate("integers", rows=10**11), eu.exec("cat", input="csv")],
    ],
    ids=["a stream", "a program"],
)
def test_a_flow_that_cannot_be_repeated_names_the_worker_whose_link_is_cut(
    first: Callable[[], list[Any]], machines: Machines, tmp_path: Path
) -> None:
    flow = eu.Flow("once")
    flow.chain(*first(), eu.write("out"))
    running = flow.start(cluster=machines.cluster)
    [lost, *_] = wait_for(machines.staging, "it writes")
    machines.hosts[lost].cut()
    with pytest.raises(eu.ResourceError, match=f"worker {lost} is lost"):
        outcome_of(running)
    assert machines.workers[lost].wait() == 0, "it sees that nobody can reach it"
    wait_for(lambda: not staged(tmp_path), "nothing is left")
    assert counted(machines.cluster) == [{"count": 1000}]


# --- strangers -----------------------------------------------------------------------------------

STRANGERS = 200
HEARD_MAX = 64
"""How many of them are heard at a time, as docs/security.md says."""
FLOW_FILES_MAX = 32
"""More than a flow itself opens at a worker."""


def open_files(program: Command) -> int:
    return len(os.listdir(f"/proc/{program.pid}/fd"))


def test_strangers_who_dribble_are_dropped_and_disturb_no_flow(tmp_path: Path) -> None:
    workers: list[Command] = []
    ports = [free_port(), free_port()]

    def start(address: str, token: Path) -> list[Command]:
        for port in ports:
            listening = ("--listen", f"127.0.0.1:{port}")
            workers.append(worker(tmp_path, address, token, f"w{len(workers)}", *listening))
        ports.append(int(address.split(":")[1]))
        return workers

    with clusters.joined_by(start, tmp_path, len(ports)) as cluster:
        flow = numbers(ROWS, eu.sort(["n"]), eu.count(), eu.collect())
        flow.go(cluster=cluster)
        before = [open_files(one) for one in workers]
        most = list(before)
        running = flow.start(cluster=cluster)
        wait_for(lambda: rows_out(running) > 0, "it runs")
        doors = [("127.0.0.1", port) for port in ports]
        with rig.Strangers(doors, STRANGERS, again=1) as strangers:
            for _ in range(4):
                while not running.wait(0.01):
                    most = [max(one) for one in zip(most, map(open_files, workers))]
                assert outcome_of(running).collected().to_pylist() == [{"count": ROWS}]
                # The first was disturbed in the middle; the others meet them at the door.
                running = flow.start(cluster=cluster)
            outcome_of(running)
            strangers.give_up()
            wait_for(lambda: not strangers.held, "all are dropped")
        allowed = [files + HEARD_MAX + FLOW_FILES_MAX for files in before]
        assert all(one <= bound for one, bound in zip(most, allowed)), (before, most)
        assert len(cluster.workers) == len(workers)


# --- clocks --------------------------------------------------------------------------------------

CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int is_of_the_wall(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    struct timespec since_start;
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && is_of_the_wall(clock)) {
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &since_start);
        now->tv_sec += atol(getenv(since_start.tv_nsec / 3000000 % 2 ? "CLOCK_ODD" : "CLOCK_EVEN"));
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""
HOUR, YEAR = 3600, 365 * 24 * 3600


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], dict[str, str]]:
    """An environment whose wall clock goes wrong by so much, and by so much in the next 3 ms."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("clock")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)

    def wrong(odd: int, even: int) -> dict[str, str]:
        return {"LD_PRELOAD": str(library), "CLOCK_ODD": str(odd), "CLOCK_EVEN": str(even)}

    return wrong


def test_nothing_depends_on_what_the_wall_clock_says(
    clock: Callable[[int, int], dict[str, str]], tmp_path: Path
) -> None:
    wrong = {
        "jumps": clock(5 * HOUR, -7 * HOUR),
        "ahead": clock(YEAR, YEAR),
        "behind": clock(-YEAR, -YEAR),
    }
    token = clusters.new_token(tmp_path)
    keeper, address = clusters.keep(tmp_path, token, env=wrong["jumps"])
    programs: list[Command] = [keeper]
    try:
        for name, env in wrong.items():
            programs.append(worker(tmp_path, address, token, name, env=env))
        wait_for(lambda: keeper.said.count("has joined") == 3, "all have joined")
        with eu.Cluster.at(address, token_file=token, workers=3) as cluster:
            flow, read = writing(tmp_path)
            assert is_as_it_should(read, flow.go(cluster=cluster))
            off = told_by_clocks(cluster)
            assert off["jumps"] <= {5, -7}
            assert (off["ahead"], off["behind"]) == ({365 * 24}, {-365 * 24})
            assert len(cluster.workers) == 3
        records, done = tmp_path / "records.dat", tmp_path / "sorted.dat"
        where = ("--cluster", f"at:{address}", "--token-file", token)
        for words in (("gensort", 300_000, records), ("sort", records, done, *where)):
            program = Program(tmp_path, *words, env=wrong["jumps"])
            assert program.wait() == 0, program.complained
        assert Program(tmp_path, "valsort", done).wait() == 0
        assert "has left" not in keeper.said
    finally:
        for program in reversed(programs):
            program.end()


def told_by_clocks(cluster: eu.Cluster) -> dict[str, set[int]]:
    """By worker: the hours by which its wall clock was found to be wrong."""
    told = {}
    for one in cluster.workers:
        flow = eu.Flow("asked")
        asked = flow.place(eu.map(functions.clock), workers=one.name)
        flow.chain(eu.generate("integers", rows=300_000), asked, eu.collect())
        clocks = flow.go(cluster=cluster).collected().to_pydict()["clock"]
        told[one.name] = {round((at - time.time()) / HOUR) for at in set(clocks)}
    return told


# --- who starts workers --------------------------------------------------------------------------


# Takes the place of `ssh`. Nodes of one folder for what is passing would write over each other.
TO_NODE = """#!/bin/sh
export TMPDIR="$TMPDIR/$1"
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
"""


def mpi_of(nodes: int, folder: Path) -> dict[str, str]:
    """An environment in which `mpirun` has so many nodes; all of them are here."""
    listed, to_node = folder / "nodes", folder / "to-node"
    listed.write_text("".join(f"node{number} slots=1\n" for number in range(nodes)))
    to_node.write_text(TO_NODE)
    to_node.chmod(0o755)
    settings = {
        "orte_default_hostfile": listed,
        "plm_rsh_agent": to_node,
        "oob_tcp_if_include": "lo",
    }
    root = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
    own = {"TMPDIR": str(folder), **root}
    return own | {f"OMPI_MCA_{name}": str(setting) for name, setting in settings.items()}


@pytest.mark.skipif(
    not (shutil.which("mpirun") or os.environ.get("EUPHRATES_CI")), reason="no mpirun"
)
def test_mpirun_starts_workers_as_the_manual_says(tmp_path: Path) -> None:
    manual = (ROOT / "docs" / "join.md").read_text()
    [command] = re.findall(r"^```\n(mpirun .*?)```", manual, re.MULTILINE | re.DOTALL)
    [count] = map(int, re.findall(r"-np (\d+)", command))
    here = {"HOME": str(tmp_path), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def start(address: str, token: Path) -> list[Command]:
        (tmp_path / "cluster.token").symlink_to(token)
        assert "node0:4400" in command
        words = ["sh", "-ec", command.replace("node0:4400", address)]
        return [Command(tmp_path, words, mpi_of(count, tmp_path) | here)]

    with clusters.joined_by(start, tmp_path, count) as cluster:
        assert {one.name for one in cluster.workers} == {f"w{number}" for number in range(count)}
        assert counted(cluster) == [{"count": 1000}]


# --- other versions, ports that are taken --------------------------------------------------------


@pytest.fixture(scope="module")
def other_version(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """A version that this is not, and an environment with it.

    It differs in nothing else: it is this package with another number wherever the number stands,
    which is in the text of the program and, four bytes at a time, in its instructions.
    """
    if platform.machine() != "x86_64":
        pytest.skip("the instructions of other processors take texts in other pieces")
    folder = tmp_path_factory.mktemp("other")
    package = shutil.copytree(Path(eu.__file__).parent, folder / "euphrates")
    [native] = package.glob("_euphrates*.so")
    here = eu.__version__[:4]
    other = here.translate(str.maketrans("0123456789", "9876543210"))
    native.write_bytes(native.read_bytes().replace(here.encode(), other.encode()))
    env = {"PYTHONPATH": str(folder)}
    asked = Program(folder, "--version", env=env)
    assert asked.wait() == 0, asked.complained
    return asked.said.split()[-1], env


def names_both_and_the_remedy(said: str, other: str) -> bool:
    words = (f"runs Euphrates {other}", f"runs {eu.__version__}", "install the same version")
    return all(word in said for word in words)


def test_a_worker_of_another_version_is_told_and_so_is_the_program(
    other_version: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    version, env = other_version
    strange: list[Command] = []

    def start(address: str, token: Path) -> list[Command]:
        strange.append(worker(tmp_path, address, token, "strange", env=env))
        return strange

    joining = clusters.joined_by(start, tmp_path, 1, timeout=5)
    with pytest.raises(eu.ResourceError, match="0 of 1 workers have joined") as told, joining:
        pass
    assert names_both_and_the_remedy(str(told.value), version)
    assert strange[0].wait() == 2
    assert names_both_and_the_remedy(strange[0].complained, version)


def test_whoever_is_of_another_version_than_the_keeper_is_told(
    other_version: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    version, env = other_version
    token = clusters.new_token(tmp_path)
    keeper, address = clusters.keep(tmp_path, token)
    where = ("--cluster", f"at:{address}", "--token-file", token)
    try:
        for strange in (
            worker(tmp_path, address, token, "strange", "--stay", env=env),
            Program(tmp_path, "ps", *where, env=env),
        ):
            assert strange.wait() == 2
            assert names_both_and_the_remedy(strange.complained, version), strange.complained
        assert "joined" not in keeper.said
    finally:
        keeper.end()


@pytest.mark.parametrize("listening", ["worker", "cluster"])
def test_an_address_in_use_is_named_with_a_remedy(listening: str, tmp_path: Path) -> None:
    token = clusters.new_token(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        program = Program(tmp_path, listening, "--listen", address, "--token-file", token)
        assert program.wait() == 2
    assert f"{address} cannot be listened at: Address already in use" in program.complained
    assert "remedy: choose another port" in program.complained
