"""Ray clusters of the rig, if Ray is installed: across hosts with root, on loopback without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rig
from rig import ray as rays
from rig.cleanup import ledger
from rig_leftovers import ROOT, wait_for_end
from rig_requirements import needs

with_ray = pytest.mark.skipif(rays.missing() is not None, reason=rays.missing() or "")
# Reports for each node: bytes from the driver, bytes to it, an actor.
DRIVER = """
import json, sys
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as At

ray.init(**json.loads(sys.argv[1]), logging_level="error", log_to_driver=False)

def where():
    return ray.util.get_node_ip_address()

@ray.remote
def taken(references):
    return len(ray.get(references[0])), where()

@ray.remote
def made():
    return bytes(1_000_000)

@ray.remote
class Actor:
    def told(self, data):
        return len(data), where()

found = {}
for node in ray.nodes():
    if node["Resources"].get("CPU"):
        at = At(node["NodeID"], soft=False)
        data = ray.put(bytes(1_000_000))
        actor = Actor.options(scheduling_strategy=at).remote()
        reply = made.options(scheduling_strategy=at).remote()
        found[node["NodeManagerAddress"]] = [
            node["Labels"].get("rig"),
            ray.get(taken.options(scheduling_strategy=at).remote([data])),
            len(ray.get(reply)),
            ray.get(actor.told.remote(data)),
        ]
        ray.kill(actor)
print(json.dumps(found))
"""
# Reports the nodes after each change, for at most three minutes.
WATCHER = """
import json, sys, time
import ray

ray.init(**json.loads(sys.argv[1]), logging_level="error", log_to_driver=False)
known, end = None, time.monotonic() + 180
while time.monotonic() < end:
    alive = sorted(node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"])
    if alive != known:
        known = alive
        print("alive", *alive, flush=True)
    time.sleep(0.05)
print("three minutes are over", flush=True)
"""


def script(code: str, given: dict[str, str]) -> list[str]:
    return [sys.executable, "-c", code, json.dumps(given)]


def assert_works(cluster: rig.RayCluster, output: str) -> None:
    found = json.loads(output)
    assert sorted(found) == sorted(node.address for node in cluster.nodes)
    for number, node in enumerate(cluster.nodes):
        here = [1_000_000, node.address]
        assert found[node.address] == [f"node{number}", here, 1_000_000, here]


LABELS = [{"rig": "node0"}, {"rig": "node1"}]


@needs("hosts")
@with_ray
def test_ray_works_across_hosts_for_inner_and_outer_drivers() -> None:
    with rig.Hosts(2, "50MB/s") as hosts, rig.RayCluster(hosts, labels=LABELS) as cluster:
        outside = subprocess.run(
            script(DRIVER, cluster.driver()), check=True, stdout=subprocess.PIPE, text=True
        )
        assert_works(cluster, outside.stdout)
        for host, node in zip(hosts, cluster.nodes):
            inside = host.run(
                script(DRIVER, cluster.driver(node)), check=True, stdout=subprocess.PIPE, text=True
            )
            assert_works(cluster, inside.stdout)


@needs("hosts")
@with_ray
def test_ray_head_can_be_outside_the_hosts() -> None:
    with (
        rig.Hosts(2, "50MB/s") as hosts,
        rig.RayCluster(hosts, labels=LABELS, outside_head=True) as cluster,
    ):
        assert cluster.head.address == hosts.outside
        done = subprocess.run(
            script(DRIVER, cluster.driver()), check=True, stdout=subprocess.PIPE, text=True
        )
        assert_works(cluster, done.stdout)
    with pytest.raises(ValueError, match="no outside"):
        rig.RayCluster(2, outside_head=True)


@with_ray
def test_ray_on_loopback_works_without_root() -> None:
    with rig.RayCluster(2, labels=LABELS) as cluster:
        folder = cluster.head.folder
        done = subprocess.run(
            script(DRIVER, cluster.driver()), check=True, stdout=subprocess.PIPE, text=True
        )
        assert_works(cluster, done.stdout)
    assert not folder.exists()


@pytest.fixture
def watched() -> Iterator[tuple[rig.RayCluster, Any]]:
    """A cluster with a short node timeout, and a driver that reports its nodes."""
    quick = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 200,
        "health_check_timeout_ms": 2000,
        "health_check_failure_threshold": 2,
    }
    with (
        rig.RayCluster(4, settings=quick) as cluster,
        subprocess.Popen(
            script(WATCHER, cluster.driver()), stdout=subprocess.PIPE, text=True
        ) as driver,
    ):
        assert driver.stdout is not None
        assert next_said(driver.stdout) == [node.address for node in cluster.nodes]
        yield cluster, driver.stdout
        driver.kill()


def next_said(printed: Any) -> list[str]:
    """The driver's next line; Ray prints lines of its own in between."""
    others = []
    while line := printed.readline():
        words = str(line).split()
        if words[:1] == ["alive"]:
            return words[1:]
        others.append(line)
    raise AssertionError(f"the driver printed no further list of nodes, only: {others}")


@with_ray
def test_killed_crashed_and_frozen_nodes_leave_the_ray_cluster(
    watched: tuple[rig.RayCluster, Any],
) -> None:
    cluster, printed = watched
    head, killed, crashed, frozen = cluster.nodes
    killed.kill_raylet()
    assert next_said(printed) == [head.address, crashed.address, frozen.address]
    crashed.crash()
    assert next_said(printed) == [head.address, frozen.address]
    with frozen.freeze():
        assert next_said(printed) == [head.address]


@with_ray
def test_crashed_head_leaves_no_process() -> None:
    with rig.RayCluster(1) as cluster:
        folder = os.fsencode(cluster.head.folder)
        assert running(folder)
        cluster.head.crash()
        assert not running(folder)


def running(folder: bytes) -> list[int]:
    """Ray's processes of a cluster: some have its folder as an argument, some have open files
    there.
    """
    told = [pid for pid in rays.undo.all_pids() if folder in b" ".join(rays.command_of(pid))]
    return told + rays.undo.titled_in(os.fsdecode(folder))


CLUSTER = """
import sys, rig
from rig.cleanup.ledger import ledger
with rig.RayCluster(2) as cluster:
    print(ledger().guardian.pid, cluster.head.folder, flush=True)
    sys.stdin.read()
"""


@with_ray
def test_ray_cluster_ends_with_a_killed_caller() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    guardian, folder = process.stdout.readline().decode().split()
    handle = os.pidfd_open(int(guardian))
    process.kill()
    process.communicate()
    wait_for_end(handle)
    assert not Path(folder).exists()
    assert not running(folder.encode())
    assert not (ledger.STATE / str(process.pid)).exists()


def test_missing_ray_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rays.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(rig.RigError, match="ray is not installed"), rig.RayCluster(1):
        pass


def test_labels_need_one_set_per_node() -> None:
    with pytest.raises(ValueError, match="labels for 1 nodes"):
        rig.RayCluster(2, labels=[{}])


def node_of_fake_ray(folder: Path, said: str, failures: int) -> tuple[rays.Node, Path]:
    """A node whose `ray start` fails `failures` times, and a file with a line for each start."""
    starts = folder / "starts"
    scripts = folder / "ray" / "scripts"
    scripts.mkdir(parents=True)
    for package in (scripts, scripts.parent):
        (package / "__init__.py").touch()
    (scripts / "scripts.py").write_text(
        f"with open({str(starts)!r}, 'a+') as starts:\n"
        "    starts.write('start\\n')\n"
        "    starts.seek(0)\n"
        "    count = len(starts.readlines())\n"
        f"raise SystemExit({said!r} if count <= {failures} else 0)\n"
    )
    node = rays.Node("127.0.0.1", folder / "node", None)
    node._begin([], {"PYTHONPATH": str(folder)})
    return node, starts


@pytest.mark.parametrize(
    ("said", "failures", "starts", "has_started"),
    [
        (rays.TIMED_OUT, 2, 3, True),
        (rays.TIMED_OUT, 3, 3, False),
        ("no such option", 1, 1, False),
    ],
)
def test_node_is_started_again_where_ray_has_timed_out(
    tmp_path: Path, said: str, failures: int, starts: int, has_started: bool
) -> None:
    node, path = node_of_fake_ray(tmp_path, said, failures)
    if has_started:
        node._wait()
    else:
        with pytest.raises(rig.RigError, match=said):
            node._wait()
    node._made.close()
    assert len(path.read_text().splitlines()) == starts
