"""Workers and programs that die, stop or leave: the output is right or an error names the cause,
nothing is left behind, and no flow hangs.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cluster_harness as clusters
import euphrates as eu
import functions
from cluster_harness import is_alive, staged, wait_for, workers_of
from flow_outcomes import (
    ROWS,
    SECONDS,
    numbers,
    output_is_consistent,
    result,
    rows_out,
    saving,
    writing,
)


def test_flow_starts_without_an_unresponsive_worker(cluster: eu.Cluster, tmp_path: Path) -> None:
    flow, read = writing(tmp_path)
    stopped = workers_of(os.getpid())["w1"]
    os.kill(stopped, signal.SIGSTOP)
    try:
        report = flow.go(cluster=cluster)
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert "w1 was lost" in str(report) and "the flow began without it" in str(report)
    assert output_is_consistent(read, report)
    assert [worker.name for worker in cluster.workers] == ["w0", "w2"]


@pytest.mark.parametrize("output", [saving, writing])
@pytest.mark.parametrize("moment", ["before", "early", "late", "staged"])
def test_worker_death_is_reported_and_output_correct(
    output: Any, moment: str, cluster: eu.Cluster, tmp_path: Path
) -> None:
    flow, read = output(tmp_path)
    victim = workers_of(os.getpid())["w1"]
    if moment == "before":
        os.kill(victim, signal.SIGKILL)
    running = flow.start(cluster=cluster)
    happened = {
        "before": lambda: True,
        "early": lambda: rows_out(running) > 0,
        "late": lambda: rows_out(running) > ROWS,
        "staged": lambda: staged(tmp_path),
    }
    wait_for(lambda: happened[moment]() or running.wait(0), moment)
    if moment != "before":
        os.kill(victim, signal.SIGKILL)
    outcome = result(running)
    assert isinstance(outcome, eu.Report), outcome
    assert output_is_consistent(read, outcome), outcome
    # The next flow has all workers again.
    if moment != "before":
        wait_for(lambda: len(cluster.workers) == 2, "the loss is noticed")
    counted = numbers(1000, eu.count(), eu.collect()).go(cluster=cluster)
    assert counted.collected().to_pylist() == [{"count": 1000}]


def test_losing_a_slowed_worker_is_survived(cluster: eu.Cluster, tmp_path: Path) -> None:
    flow, read = writing(tmp_path)
    perturbed = [eu.perturb(worker="w1", share=0.5), eu.perturb(worker="w2", share=0.5)]
    running = flow.start(cluster=cluster, perturb=perturbed)
    wait_for(lambda: rows_out(running) > 0, "it runs")
    os.kill(workers_of(os.getpid())["w1"], signal.SIGKILL)
    outcome = result(running)
    assert isinstance(outcome, eu.Report), outcome
    assert output_is_consistent(read, outcome), outcome


def test_losing_a_finished_worker_with_held_data_is_noticed(cluster: eu.Cluster) -> None:
    flow = numbers(100_000, eu.partition(["n"]))
    flow.attach("partition_1", flow.place(eu.map(functions.dawdling), count=1, workers=["w0"]))
    flow.attach("map_1", flow.place(eu.count()))
    flow.attach("count_1", flow.place(eu.collect()))
    running = flow.start(cluster=cluster)
    ended = lambda: [at.state for at in running.progress().modules][1:2] == ["ended"]  # noqa: E731
    wait_for(ended, "all is partitioned")
    os.kill(sleeper := workers_of(os.getpid())["w1"], signal.SIGSTOP)
    outcome = result(running)
    os.kill(sleeper, signal.SIGCONT)
    assert isinstance(outcome, eu.Report) and "w1 was lost" in str(outcome), outcome


def test_death_of_all_workers_is_a_resource_error(cluster: eu.Cluster) -> None:
    running = numbers(10**11, eu.sort(["n"]), eu.write("out")).start(cluster=cluster)
    wait_for(lambda: rows_out(running) > 0, "it runs")
    for pid in workers_of(os.getpid()).values():
        os.kill(pid, signal.SIGKILL)
    assert isinstance(result(running), eu.ResourceError)
    wait_for(lambda: not cluster.workers, "the losses are noticed")
    # They are restarted for the next flow.
    report = numbers(1000, eu.count(), eu.collect()).go(cluster=cluster)
    assert report.collected().to_pylist() == [{"count": 1000}]
    assert len(cluster.workers) == 3


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("output", [saving, writing])
def test_worker_loss_at_random_moments(output: Any, name: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    moments = random.Random(seed)
    seconds = 0.0
    for number in range(5):
        own = tmp_path / str(number)
        os.environ["EUPHRATES_HOME"] = str(own / "home")  # restored after the test
        own.mkdir()
        flow, read = output(own, 1_000_000)
        with clusters.processes(3) as cluster:
            running = flow.start(cluster=cluster)
            victim = workers_of(os.getpid())[f"w{moments.randrange(3)}"]
            # The first run is undisturbed and measures the duration of a run.
            moment = moments.uniform(0.4, 1.1) * seconds
            if number > 0 and not running.wait(moment):
                os.kill(victim, getattr(signal, name))
            outcome = result(running)
            seconds = seconds or outcome.seconds
            if is_alive(victim):
                os.kill(victim, signal.SIGCONT)
        wait_for(lambda: not is_alive(victim), "it ends")  # noqa: B023 - waited for at once
        assert output_is_consistent(read, outcome, 1_000_000), f"round {number}: {outcome}"


@pytest.mark.parametrize("output", [saving, writing])
def test_stopped_worker_is_dropped_and_not_readmitted(output: Any, tmp_path: Path) -> None:
    flow, read = output(tmp_path)
    with clusters.processes(3) as cluster:
        sleeper = workers_of(os.getpid())["w2"]
        running = flow.start(cluster=cluster)
        wait_for(lambda: rows_out(running) > 0, "it runs")
        os.kill(sleeper, signal.SIGSTOP)
        try:
            outcome = result(running)
        finally:
            os.kill(sleeper, signal.SIGCONT)
    if isinstance(outcome, eu.EuphratesError):
        assert isinstance(outcome, eu.ResourceError) and "w2" in str(outcome), outcome
    assert output_is_consistent(read, outcome), outcome


def test_resumed_worker_removes_its_staged_files(cluster: eu.Cluster, tmp_path: Path) -> None:
    sleeper = workers_of(os.getpid())["w2"]
    running = numbers(10**11, eu.write("out")).start(cluster=cluster)
    wait_for(lambda: [path for path in staged(tmp_path) if "-w2-" in path.name], "it writes")
    os.kill(sleeper, signal.SIGSTOP)
    try:
        wait_for(lambda: len(cluster.workers) == 2, "it is missed")
        # The other workers have restarted the endless flow.
        running.cancel()
        result(running)
    finally:
        os.kill(sleeper, signal.SIGCONT)
    wait_for(lambda: not is_alive(sleeper), "it notices that it was dropped")
    # A cancel waits a bounded time for workers that delete gigabytes.
    wait_for(lambda: not staged(tmp_path), "what it and the others wrote is removed")


@pytest.mark.parametrize("output", ["write", "save"])
def test_closing_removes_staged_files_of_a_dead_worker(output: str, tmp_path: Path) -> None:
    sink = eu.write("out") if output == "write" else eu.save(tmp_path / "out.parquet")
    with clusters.processes(2) as cluster:
        running = numbers(10**11, sink).start(cluster=cluster)
        wait_for(lambda: staged(tmp_path), "it writes")
        [victim] = {path.name.split("-w")[1][0] for path in staged(tmp_path)[:1]}
        os.kill(workers_of(os.getpid())[f"w{victim}"], signal.SIGKILL)
        wait_for(lambda: len(cluster.workers) == 1, "it is missed")
        # The other worker has restarted the endless flow.
        running.cancel()
        result(running)
    assert not staged(tmp_path)


@pytest.mark.parametrize("output", ["write", "save"])
def test_staged_files_of_the_only_worker_are_removed(output: str, tmp_path: Path) -> None:
    sink = eu.write("out") if output == "write" else eu.save(tmp_path / "out.parquet")
    with clusters.processes(1) as cluster:
        running = numbers(10**11, sink).start(cluster=cluster)
        wait_for(lambda: staged(tmp_path), "it writes")
        os.kill(workers_of(os.getpid())["w0"], signal.SIGKILL)
        outcome = result(running)
        assert isinstance(outcome, eu.ResourceError) and "w0" in str(outcome), outcome
        assert not staged(tmp_path)


PROGRAM = """
import sys
import euphrates as eu

sink = eu.save(sys.argv[1]) if len(sys.argv) > 1 else eu.write("out")
flow = eu.Flow("endless")
by = eu.sort(["n"]) if len(sys.argv) < 3 else eu.filter("n >= 0")
flow.chain(eu.generate("integers", rows=10**11), by, sink)
flow.go(cluster="processes:3", memory="96MiB")
"""


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for sockets of programs: paths of sockets must be short."""
    with tempfile.TemporaryDirectory(prefix="eu") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


@pytest.fixture
def program(tmp_path: Path, sockets: Path) -> Iterator[Callable[..., tuple[Any, list[int]]]]:
    """Starts a program with workers and an endless flow."""
    started = []

    def start(*words: str) -> tuple[Any, list[int]]:
        command = [sys.executable, "-c", PROGRAM, *words]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(process)
        wait_for(lambda: staged(tmp_path) or process.poll() is not None, "it writes")
        assert process.poll() is None, process.stderr.read()
        pids = list(workers_of(process.pid).values())
        assert len(pids) == 3
        return process, pids

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("words", [[], ["out.parquet"], ["out.parquet", "unsorted"]])
def test_workers_end_when_their_program_is_killed(
    words: list[str], program: Any, tmp_path: Path
) -> None:
    words = [str(tmp_path / words[0]), *words[1:]] if words else []
    process, pids = program(*words)
    process.kill()
    wait_for(lambda: not any(map(is_alive, pids)), "the workers end", 5)
    assert not list(tmp_path.glob("*.parquet"))
    assert not staged(tmp_path)


def test_token_is_removed_with_its_program(program: Any, sockets: Path) -> None:
    process, pids = program()
    assert len(list(sockets.glob("*/token"))) == 1
    process.kill()
    wait_for(lambda: not any(map(is_alive, pids)), "the workers end", 5)
    assert not list(sockets.iterdir())


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_workers_end_when_their_program_is_signalled(
    name: str, program: Any, tmp_path: Path
) -> None:
    process, pids = program()
    process.send_signal(getattr(signal, name))
    assert process.wait(SECONDS) != 0
    wait_for(lambda: not any(map(is_alive, pids)), "the workers end", 5)
    if name == "SIGINT":
        assert "KeyboardInterrupt" in process.stderr.read()
    assert not staged(tmp_path)


def test_command_line_handles_ctrl_c(tmp_path: Path) -> None:
    path = tmp_path / "flow.py"
    program = PROGRAM.replace("len(sys.argv)", "1")
    path.write_text(program[: program.rindex("flow.go")])
    started = clusters.Program(tmp_path, "run", path, "--cluster", "processes:2")
    wait_for(lambda: staged(tmp_path) or started.ended, "it writes")
    pids = list(workers_of(started.pid).values())
    started.process.send_signal(signal.SIGINT)
    assert started.wait(SECONDS) == 130, started.stderr
    wait_for(lambda: not any(map(is_alive, pids)), "the workers end", 5)
    assert len(pids) == 2
    assert not staged(tmp_path)


def test_lost_attempt_is_counted_with_its_time_and_rows(
    cluster: eu.Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    flow, read = writing(tmp_path)
    victim = workers_of(os.getpid())["w1"]
    running = flow.start(cluster=cluster, event_log=log)
    wait_for(lambda: rows_out(running) > 0, "rows move")
    os.kill(victim, signal.SIGKILL)
    report = result(running)
    assert isinstance(report, eu.Report) and output_is_consistent(read, report)
    cost = report.restarts
    assert cost["failed_attempts"] == 1
    assert 0 < cost["lost_seconds"] < report.seconds
    assert cost["rows_again"] > 0
    assert "1 attempt failed: " in str(report) and "rows read again" in str(report)

    events = [json.loads(line) for line in log.read_text().splitlines()]
    (restarted,) = [event for event in events if event["kind"] == "restarted"]
    assert restarted["restarts"] == cost and "w1 was lost" in restarted["cause"]
    assert [event["worker"] for event in events if event["kind"] == "worker_lost"] == ["w1"]
    workers = [event["totals"]["workers"] for event in events if event["kind"] == "progress"]
    assert workers[-1] == ["w0", "w2"]
    attempts = [event["totals"]["attempt"] for event in events if event["kind"] == "progress"]
    assert attempts == sorted(attempts) and attempts[-1] == 2


def test_flow_without_failures_has_cost_nothing(cluster: eu.Cluster, tmp_path: Path) -> None:
    flow, _ = writing(tmp_path)
    report = flow.go(cluster=cluster)
    assert report.restarts == {"failed_attempts": 0, "lost_seconds": 0.0, "rows_again": 0}
    assert "restarts" not in json.loads(report.to_json()) and "failed" not in str(report)
