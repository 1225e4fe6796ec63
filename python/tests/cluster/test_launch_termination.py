"""Termination of programs on a persistent cluster: no process is left, whichever process is
killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

import euphrates as eu
from cluster_harness import is_alive, wait_for
from persistent_cluster import PATIENCE, SOON, PersistentCluster

TRAPS = "trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done"
IGNORES = "trap '' INT TERM HUP; echo ready; while :; do sleep 0.05; done"
SLEEPS = "echo ready; exec sleep 1000"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_program_handling_ctrl_c_ends_itself(persistent: PersistentCluster, name: str) -> None:
    begun = persistent.begin(TRAPS)
    begun.send_signal(getattr(signal, name))
    _, complaint = begun.communicate(timeout=SOON)
    assert begun.returncode == 7
    assert complaint.splitlines() == [f"w{n} exited with 7" for n in range(4)]


def test_program_ignoring_ctrl_c_is_killed(persistent: PersistentCluster) -> None:
    begun = persistent.begin(IGNORES)
    begun.send_signal(signal.SIGINT)
    _, complaint = begun.communicate(timeout=SOON)
    assert begun.returncode == 137
    assert complaint.splitlines() == [f"w{n} was killed by signal 9" for n in range(4)]


def test_ps_lists_and_kill_ends_programs_and_flows(persistent: PersistentCluster) -> None:
    begun = persistent.begin(SLEEPS)
    with persistent.python() as cluster:
        flow = eu.Flow("endless")
        source = flow.place(eu.generate("integers", rows=10**15), count=4)
        flow.chain(source, eu.count(), eu.collect())
        running = flow.start(cluster=cluster)
        busy: dict[str, eu.Process] = {}

        def flows_compute() -> bool:
            found = [process for process in cluster.ps() if process.kind == "flow"]
            busy.update({process.worker: process for process in found if process.cpu_seconds > 0})
            return len(busy) == 4

        wait_for(flows_compute)
        programs = [process for process in cluster.ps() if process.kind == "program"]
        assert sorted(process.worker for process in programs) == sorted(persistent.workers)
        for process in programs:
            assert process.started_by == begun.pid and process.state == "running"
            assert process.what.startswith("sh -c echo ready")
            assert process.memory_bytes is not None and process.memory_bytes > 0
            assert process.pid is not None and is_alive(process.pid)
        assert {process.started_by for process in busy.values()} == {os.getpid()}
        assert {process.what for process in busy.values()} == {"endless"}
        table = persistent.run("ps").stdout
        assert "flow endless" in table and "exec sleep 1000" in table

        one = next(process.id for process in programs if process.worker == "w2")
        assert f"({programs[0].what}) was killed by signal 2" in persistent.run("kill", one).stdout
        assert len(cluster.ps()) == 7
        assert persistent.run("kill", "nonsense").returncode == 2
        assert "told to fail" in persistent.run("kill", next(iter(busy.values())).id).stdout
        with pytest.raises(eu.FlowError, match="was killed by"):
            running.finish()
    assert persistent.run("kill", "--all", "--at-once").returncode == 0
    _, complaint = begun.communicate(timeout=SOON)
    assert sorted(complaint.splitlines()) == [
        "w0 was killed by signal 9",
        "w1 was killed by signal 9",
        "w2 was killed by signal 2",
        "w3 was killed by signal 9",
    ]
    assert persistent.run("kill", "--all").stdout == "nothing runs\n"


def family_of(begun: subprocess.Popen, persistent: PersistentCluster) -> list[int]:
    """The first process of each program."""
    return [process["pid"] for process in persistent.ps() if process["started_by"] == begun.pid]


def group_of(leader: int) -> list[int]:
    """All living processes of its group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(") ")[2].split()
            if int(fields[2]) == leader and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


def test_killed_launcher_leaves_no_process(persistent: PersistentCluster) -> None:
    begun = persistent.begin("sleep 1000 & trap '' INT TERM HUP; echo ready; wait")
    leaders = family_of(begun, persistent)
    assert len(leaders) == 4 and all(len(group_of(leader)) == 2 for leader in leaders)
    begun.kill()
    begun.communicate(timeout=SOON)
    wait_for(lambda: not any(group_of(leader) for leader in leaders), seconds=SOON)
    wait_for(lambda: persistent.ps() == [])


def test_killed_worker_leaves_no_process_and_peers_continue(
    own_cluster: PersistentCluster,
) -> None:
    script = "sleep 1000 & setsid -f sleep 54321; trap '' INT TERM HUP; echo ready; wait"
    begun = own_cluster.begin(script)
    detached = own_cluster.run("launch", "--detach", "--on", "w1", "--", "sleep", "54322")
    assert detached.returncode == 0, detached.stderr
    listed = own_cluster.ps()
    there = [process["pid"] for process in listed if process["worker"] == "w1"]
    here = [process["pid"] for process in listed if process["worker"] == "w0"]
    daemons = [pid for pid in escaped("54321") if pid not in there + here]
    assert (len(there), len(here), len(daemons)) == (2, 1, 2)
    own_cluster.workers["w1"].kill()
    own_cluster.workers["w1"].wait()
    wait_for(lambda: not any(group_of(leader) for leader in there), seconds=SOON)
    # Also processes that have left their group, and detached ones.
    wait_for(lambda: len(escaped("54321")) == 1 and not escaped("54322"), seconds=SOON)
    assert all(len(group_of(leader)) == 2 for leader in here)
    begun.send_signal(signal.SIGINT)
    _, complaint = begun.communicate(timeout=SOON)
    assert begun.returncode == 137
    told = complaint.splitlines()
    assert told[0] == "w0 was killed by signal 9" and told[1].startswith("w1 is lost: ")
    own_cluster.workers["w0"].kill()
    own_cluster.workers["w0"].wait()
    wait_for(lambda: not escaped("54321"), seconds=SOON)


def escaped(seconds: str) -> list[int]:
    """Processes that sleep that long."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(int(path.parent.name))
    return found


def test_terminated_worker_ends_its_programs(
    own_cluster: PersistentCluster,
) -> None:
    begun = own_cluster.begin(IGNORES)
    leaders = family_of(begun, own_cluster)
    for worker in own_cluster.workers.values():
        worker.terminate()
    begun.communicate(timeout=SOON)
    assert begun.returncode in (4, 137)
    wait_for(lambda: not any(group_of(leader) for leader in leaders), seconds=SOON)


def test_detached_program_runs_until_killed(persistent: PersistentCluster) -> None:
    done = persistent.run("launch", "--detach", "--on", "w0,w1", "--", "sleep", "1000")
    name = done.stdout.strip()
    listed = persistent.ps()
    assert sorted(process["id"] for process in listed) == [f"{name}.0", f"{name}.1"]
    assert persistent.run("kill", f"{name}.1").stdout.startswith(f"w1: {name}.1 (sleep 1000)")
    with persistent.python() as cluster:
        assert [process.id for process in cluster.ps()] == [f"{name}.0"]
        assert cluster.kill(name) == {f"{name}.0": -signal.SIGINT}
        with pytest.raises(eu.UsageError, match="no program or flow named"):
            cluster.kill(name)


def descriptors(process: subprocess.Popen) -> int:
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def children(process: subprocess.Popen) -> list[str]:
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [child for task in tasks for child in task.read_text().split()]


def test_many_launches_leak_no_descriptors_or_zombies(persistent: PersistentCluster) -> None:
    """EUPHRATES_LAUNCHES sets the number of launches."""
    persistent.launch("true")
    wait_for(lambda: persistent.ps() == [])
    workers = list(persistent.workers.values())
    before = [descriptors(worker) for worker in workers]
    with persistent.python() as cluster:
        for _ in range(int(os.environ.get("EUPHRATES_LAUNCHES", "50"))):
            launched = cluster.launch(["true"])
            assert launched.wait(PATIENCE)
            assert set(launched.exit_codes.values()) == {0}
    for _ in range(5):
        assert persistent.launch("true").returncode == 0
    wait_for(lambda: all(descriptors(now) <= then for now, then in zip(workers, before)))
    # The remaining child is the guard process.
    wait_for(lambda: all(len(children(worker)) <= 1 for worker in workers))
