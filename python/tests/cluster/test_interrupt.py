"""Ctrl-C, whatever Python code is running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import functions
from cluster_harness import wait_for, with_tests

SUPPORT = Path(functions.__file__).parent
SCRIPT = """
import sys, threading
import euphrates as eu
import functions

flow = eu.Flow("long")
flow.chain(
    eu.generate("records", rows=10**12),
    {module},
    eu.save(sys.argv[1]),
)
threading.Timer(0.5, lambda: print("ready", flush=True)).start()
try:
    flow.go()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
"""
SCHEMA = "schema={'key': 'FixedSizeBinary(10) not null', 'payload': 'FixedSizeBinary(90) not null'}"


@pytest.mark.parametrize("signals", [1, 2])
@pytest.mark.parametrize(
    "module",
    [
        "eu.sort(['key'])",
        f"eu.map(functions.spinning, {SCHEMA})",
        f"eu.map(functions.sleeping, {SCHEMA})",
        "eu.external_sql('select * from input')",
    ],
    ids=["rust", "spinning", "sleeping", "external_sql"],
)
def test_ctrl_c_ends_a_flow_within_two_seconds(module: str, signals: int, tmp_path: Path) -> None:
    output = tmp_path / "out" / "records.parquet"
    output.parent.mkdir()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(module=module), str(output)],
        cwd=SUPPORT,
        env={**os.environ, "EUPHRATES_SCRATCH": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    try:
        if program.stdout.readline() != "ready\n":
            pytest.fail(str(program.communicate(timeout=20)))
        asked = time.monotonic()
        for _ in range(signals):
            program.send_signal(signal.SIGINT)
        said, complaint = program.communicate(timeout=20)
        took = time.monotonic() - asked
    finally:
        program.kill()
    assert said == "interrupted\n", complaint
    assert "KeyboardInterrupt" in complaint
    assert program.returncode == -signal.SIGINT
    assert took < 2.0
    assert list(output.parent.iterdir()) == []


def test_exiting_program_ends_its_flows(tmp_path: Path) -> None:
    script = """
import euphrates as eu, functions, sys
flow = eu.Flow()
flow.chain(eu.generate("records", rows=10**12), eu.save(sys.argv[1]))
running = flow.start()
running.wait(0.3)
print("over", flush=True)
"""
    output = tmp_path / "out"
    output.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script, str(output / "records.parquet")],
        cwd=SUPPORT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")
    assert list(output.iterdir()) == []


SQL = """
import threading
import euphrates as eu

flow = eu.Flow("long")
query = "select count(*) as c from input a, range(100000000) b, range(100000) c"
flow.chain({source}, eu.external_sql(query{options}), eu.collect())
running = flow.start()
threading.Timer(1.0, lambda: print("ready", flush=True)).start()
running.finish()
"""


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("eu.generate('integers', rows=10)", ""),
        ("eu.generate('integers', rows=10, order=True)", ", per_batch=True"),
    ],
    ids=["whole", "per_batch"],
)
def test_ctrl_c_interrupts_blocking_native_code(source: str, options: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", SQL.format(source=source, options=options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    try:
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
        _, complaint = program.communicate(timeout=20)
    finally:
        program.kill()
    assert complaint.strip().endswith("KeyboardInterrupt")
    assert "terminate called" not in complaint
    assert program.returncode == -signal.SIGINT


STARTING = """
import euphrates as eu
import functions

flow = eu.Flow("slow to start")
flow.chain(eu.generate("integers", rows=5), eu.map(functions.SlowToCome()), eu.collect())
with eu.Cluster.processes(2) as cluster:
    print("ready", flush=True)
    flow.start(cluster=cluster)
"""


def test_ctrl_c_is_handled_while_workers_prepare(tmp_path: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", STARTING],
        cwd=SUPPORT,
        env={**os.environ, "PYTHONPATH": with_tests(), "SLOW_TO_COME": str(tmp_path / "came")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    try:
        assert program.stdout.readline() == "ready\n"
        wait_for(lambda: (tmp_path / "came").exists(), "a worker prepares it")
        program.send_signal(signal.SIGINT)
        # Unpickling would end in five minutes.
        _, complaint = program.communicate(timeout=60)
    finally:
        program.kill()
    assert complaint.strip().endswith("KeyboardInterrupt"), complaint
