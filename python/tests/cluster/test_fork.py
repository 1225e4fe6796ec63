"""Forked children of programs and functions: they own none of their parent's clusters and flows,
and reject their use at once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster_harness import with_tests

SECONDS = 60
"""A timeout that only a hang exceeds."""

BEGIN = """
import multiprocessing, os, signal, sys, time
import euphrates as eu
import functions


def numbers(*modules, rows=100_000):
    flow = eu.Flow("numbers")
    flow.chain(eu.generate("integers", rows=rows), *modules)
    return flow


def counted(**options):
    return numbers(eu.count(), eu.collect()).go(**options).collected().to_pylist()


def child(act):
    # Ends as programs do; what hangs is killed by the alarm, and its code says so.
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        act()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refused(use):
    try:
        use()
    except eu.UsageError as error:
        assert "fork" in str(error) and error.remedy, error
        return
    raise AssertionError("it was not refused")
"""


def run(script: str, folder: Path) -> str:
    program = subprocess.run(
        [sys.executable, "-c", BEGIN + script, str(folder)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={"PYTHONPATH": with_tests(), "PATH": "/usr/bin:/bin", "EUPHRATES_HOME": str(folder)},
    )
    assert program.returncode == 0, program.stderr
    return program.stdout


def test_exiting_child_keeps_the_parents_cluster(tmp_path: Path) -> None:
    script = """
with eu.Cluster.processes(2) as cluster:
    assert child(lambda: None) == 0
    assert child(cluster.close) == 0
    # Workers call each other at the sockets that they had before.
    assert counted(cluster=cluster) == [{"count": 100_000}]
"""
    run(script, tmp_path)


def test_child_cannot_use_the_parents_cluster_or_flows(tmp_path: Path) -> None:
    script = """
with eu.Cluster.processes(2) as cluster:
    running = numbers(eu.map(functions.same), eu.count(), eu.collect(), rows=2_000_000).start(
        cluster=cluster
    )
    launched = cluster.launch(["sleep", "1000"])

    def use():
        refused(lambda: cluster.workers)
        refused(lambda: counted(cluster=cluster))
        refused(lambda: cluster.launch(["true"]))
        refused(lambda: cluster.ps())
        refused(running.progress)
        refused(running.wait)
        refused(running.cancel)
        refused(running.finish)
        refused(launched.wait)
        refused(launched.kill)

    assert child(use) == 0
    assert running.finish().collected().to_pylist() == [{"count": 2_000_000}]
    assert set(launched.exit_codes.values()) == {None}, "they run on"
    launched.kill(at_once=True)
    assert launched.wait(20)
    assert counted(cluster=cluster) == [{"count": 100_000}]
"""
    run(script, tmp_path)


def test_multiprocessing_child_cannot_use_the_parents_cluster(tmp_path: Path) -> None:
    script = """
def use(number):
    refused(lambda: counted(cluster=cluster))
    return number


with eu.Cluster.processes(2) as cluster:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(use, range(4)) == [0, 1, 2, 3]
    assert counted(cluster=cluster) == [{"count": 100_000}]
"""
    run(script, tmp_path)


def test_child_runs_its_own_flows_concurrently(tmp_path: Path) -> None:
    script = """
out = os.path.join(sys.argv[1], "out.parquet")
running = numbers(eu.sort(["n"]), eu.save(out), rows=3_000_000).start()


def own():
    path = os.path.join(sys.argv[1], "own.parquet")
    numbers(eu.sort(["n"]), eu.save(path)).go()
    assert os.path.exists(path)


assert child(own) == 0
running.finish()
assert os.path.exists(out)
"""
    run(script, tmp_path)


@pytest.mark.parametrize("where", ["here", "processes"])
def test_user_function_may_fork(where: str, tmp_path: Path) -> None:
    script = f"""
where = {{"here": None, "processes": "processes:2"}}[{where!r}]
flow = numbers(eu.map(functions.forking), eu.save(os.path.join(sys.argv[1], "out.parquet")))
flow.go(cluster=where)
read = eu.Flow("read")
read.chain(eu.scan(os.path.join(sys.argv[1], "out.parquet")), eu.count(), eu.collect())
assert read.go().collected().to_pylist() == [{{"count": 100_000}}]
print("all")
"""
    assert run(script, tmp_path) == "all\n"
