"""Separate programs on Ray, and damage to them and their clusters."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rig
from rig import ray as rays
from rig.cleanup import undo
from rig_requirements import needs

pytestmark = [
    pytest.mark.skipif(rays.missing() is not None, reason=rays.missing() or ""),
    pytest.mark.usefixtures("ray_keys"),
]

DRIVER = Path(__file__).with_name("ray_driver.py")


class Driver:
    """A program on Ray that a test damages."""

    def __init__(self, given: dict[str, str], folder: Path, **environment: str) -> None:
        self.folder = folder
        folder.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), json.dumps(given), str(folder)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []

    def says(self, pattern: str) -> re.Match[str]:
        """Waits for a line of the program or of its workers."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError("".join(self.said))

    def go_on(self) -> None:
        (self.folder / "go-on").touch()

    def ends(self) -> None:
        assert self.process.stdout is not None
        self.said += self.process.stdout
        assert self.process.wait() == 0, "".join(self.said)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    started: list[Driver] = []

    def start(given: dict[str, str], **environment: str) -> Driver:
        started.append(Driver(given, tmp_path / f"driver{len(started)}", **environment))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_worker_output_reaches_the_program(
    ray_nodes: rig.RayCluster, driver: Callable[..., Driver]
) -> None:
    program = driver(ray_nodes.driver())
    names = program.says("^workers (.*)")[1].split()
    name = program.says(r"\(([\w-]+) pid=\d+.*\).* working at")[1]
    assert name in names
    program.go_on()
    program.says("^done 100000")
    program.ends()


QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 200,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 2,
}


def test_node_dropped_by_ray_is_lost_while_its_worker_runs(
    driver: Callable[..., Driver],
) -> None:
    with rig.RayCluster(2, settings=QUICK, logs=True) as nodes:
        program = driver(nodes.driver())
        program.says("working at")
        with nodes.nodes[1].freeze():
            program.says("^failed ResourceError worker .* is lost: The actor died")
            program.ends()


def test_head_crash_loses_its_worker(driver: Callable[..., Driver]) -> None:
    with rig.RayCluster(2, logs=True) as nodes:
        program = driver(nodes.driver(nodes.nodes[1]))
        program.says("working at")
        nodes.head.crash()
        program.says("^failed ResourceError worker .* is lost")
        program.says("^closed")


def test_flow_outlives_the_ray_head_for_a_bounded_time(driver: Callable[..., Driver]) -> None:
    patience = {"RAY_gcs_rpc_server_reconnect_timeout_s": "12"}
    with rig.RayCluster(1, logs=True) as nodes:
        programs = [driver(nodes.driver(), **patience) for _ in range(2)]
        for program in programs:
            program.says("working at")
        for pid in rays.undo.all_pids():
            words = rays.command_of(pid)
            if words[0].endswith(b"/gcs_server") and os.fsencode(nodes.head.folder) in b"".join(
                words
            ):
                undo.kill(pid)
        programs[0].go_on()
        programs[0].says("^done 100000")
        programs[1].says("^failed ResourceError .* Ray's head at .* has not answered for")
        for program in programs:
            program.says("^closed")


def head_server(nodes: rig.RayCluster) -> int:
    for pid in undo.all_pids():
        words = b" ".join(rays.command_of(pid))
        if b"/gcs_server " in words and os.fsencode(nodes.head.folder) in words:
            return pid
    raise AssertionError("the head has no server")


@needs("hosts")
def test_flow_works_across_hosts(driver: Callable[..., Driver]) -> None:
    with rig.Hosts(2, "50MB/s") as hosts, rig.RayCluster(hosts, logs=True) as nodes:
        program = driver(nodes.driver())
        assert len(program.says("^workers (.*)")[1].split()) == 2
        program.go_on()
        program.says("^done 100000")
        program.ends()


def test_program_runs_as_a_submitted_job(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="ray[default] is not installed")
    (tmp_path / "go-on").touch()
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    with rig.RayCluster(1, dashboard=True) as nodes:
        program = [sys.executable, str(DRIVER), "{}", str(tmp_path)]
        submit = [*ray, "job", "submit", f"--address={nodes.address}", "--", *program]
        # The node is up a moment before its agent, which starts jobs.
        for _ in range(10):
            done = subprocess.run(submit, capture_output=True, text=True)
            if "No available agent" not in done.stderr:
                break
        assert "done 100000" in done.stdout, done.stdout + done.stderr
        shown = [*ray, "list", "actors", f"--address={nodes.address}", "--format=json"]
        listed = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    ours = [one for one in json.loads(listed) if one["class_name"] == "EuphratesWorker"]
    assert [one["name"].startswith("euphrates-") for one in ours] == [True]
