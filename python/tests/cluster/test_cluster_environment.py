"""Clusters in a hostile environment: wrong clocks, version mismatches, ports in use; and mpirun."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import cluster_harness as clusters
import euphrates as eu
import functions
from cluster_harness import Command, Program, wait_for, worker
from flow_outcomes import numbers, output_is_consistent, writing

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
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
    """Makes an environment whose wall clock alternates between two offsets every 3 ms."""
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


def test_cluster_is_independent_of_wall_clocks(
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
        wait_for(lambda: keeper.stdout.count("has joined") == 3, "all have joined")
        with eu.Cluster.at(address, token_file=token, workers=3) as cluster:
            flow, read = writing(tmp_path)
            assert output_is_consistent(read, flow.go(cluster=cluster))
            off = clock_errors(cluster)
            assert off["jumps"] <= {5, -7}
            assert (off["ahead"], off["behind"]) == ({365 * 24}, {-365 * 24})
            assert len(cluster.workers) == 3
        records, done = tmp_path / "records.dat", tmp_path / "sorted.dat"
        where = ("--cluster", f"at:{address}", "--token-file", token)
        for words in (("gensort", 300_000, records), ("sort", records, "-o", done, *where)):
            program = Program(tmp_path, *words, env=wrong["jumps"])
            assert program.wait() == 0, program.stderr
        assert Program(tmp_path, "valsort", done).wait() == 0
        assert "has left" not in keeper.stdout
    finally:
        for program in reversed(programs):
            program.end()


def clock_errors(cluster: eu.Cluster) -> dict[str, set[int]]:
    """By worker: the hours by which its wall clock is wrong."""
    told = {}
    for one in cluster.workers:
        flow = eu.Flow("asked")
        asked = flow.place(eu.map(functions.clock), workers=one.name)
        flow.chain(eu.generate("integers", rows=300_000), asked, eu.collect())
        clocks = flow.go(cluster=cluster).collected().to_pydict()["clock"]
        told[one.name] = {round((at - time.time()) / HOUR) for at in set(clocks)}
    return told


# Replaces `ssh`. Nodes with a common temporary folder would overwrite each other's files.
TO_NODE = """#!/bin/sh
export TMPDIR="$TMPDIR/$1"
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
"""


def mpi_of(nodes: int, folder: Path) -> dict[str, str]:
    """An environment in which `mpirun` has that many nodes, all on this machine."""
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
def test_mpirun_command_of_the_manual_starts_workers(tmp_path: Path) -> None:
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
        counted = numbers(1000, eu.count(), eu.collect()).go(cluster=cluster)
        assert counted.collected().to_pylist() == [{"count": 1000}]


@pytest.fixture(scope="module")
def other_version(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """Another version number, and an environment with a package of that version.

    It is a copy of this package in which only the number is replaced: in the text of the program
    and, four bytes at a time, in its instructions.
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
    assert asked.wait() == 0, asked.stderr
    return asked.stdout.split()[-1], env


def names_both_and_the_remedy(said: str, other: str) -> bool:
    words = (f"runs Euphrates {other}", f"runs {eu.__version__}", "install the same version")
    return all(word in said for word in words)


def test_version_mismatch_is_reported_at_worker_and_program(
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
    assert names_both_and_the_remedy(strange[0].stderr, version)


def test_version_mismatch_with_the_keeper_is_reported(
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
            assert names_both_and_the_remedy(strange.stderr, version), strange.stderr
        assert "joined" not in keeper.stdout
    finally:
        keeper.end()


@pytest.mark.parametrize("listening", ["worker", "cluster"])
def test_listening_on_an_address_in_use_names_a_remedy(listening: str, tmp_path: Path) -> None:
    token = clusters.new_token(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        program = Program(tmp_path, listening, "--listen", address, "--token-file", token)
        assert program.wait() == 2
    assert f"{address} cannot be listened at: Address already in use" in program.stderr
    assert "remedy: choose another port" in program.stderr
