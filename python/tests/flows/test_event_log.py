"""The event log of a flow: what it tells, in which order, and how readers treat a torn one."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu
from cluster_harness import wait_for


def events(log: Path) -> list[dict[str, Any]]:
    whole = [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in whole]


def kinds(log: Path) -> list[str]:
    return [event["kind"] for event in events(log)]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    called = [sys.executable, "-m", "euphrates", *words]
    return subprocess.run(called, capture_output=True, text=True, timeout=120)


def sorting(rows: int, output: Path) -> eu.Flow:
    flow = eu.Flow("daily")
    flow.chain(eu.generate("integers", rows=rows), eu.sort(["n desc"]), eu.save(str(output)))
    return flow


def test_log_tells_the_flow_from_its_start_to_its_report(tmp_path: Path) -> None:
    log, output = tmp_path / "log.jsonl", tmp_path / "n.parquet"
    report = sorting(6_000_000, output).go(event_log=log, memory="32MiB", cores=2)
    told = events(log)
    first, last = told[0], told[-1]
    assert first["kind"] == "started" and first["format"] == 1
    assert {module["id"] for module in first["document"]["modules"]} >= {"sort_1", "save_1"}
    assert last["kind"] == "finished" and last["page"] == str(report)
    assert last["report"] == json.loads(report.to_json())
    assert [one["kind"] for one in told][-2] == "committed"
    times = [event["time"] for event in told]
    assert times == sorted(times)

    of_modules = {(one["kind"], one["module"]) for one in told if "module" in one}
    for module in report.modules:
        for kind in ("module_started", "module_finished"):
            assert (kind, module.id) in of_modules
    spills = sum(module.spilled_bytes > 0 for module in report.modules)
    assert spills == sum(one["kind"] == "spill_began" for one in told) > 0

    progress = [one for one in told if one["kind"] == "progress"]
    apart = [b["time"] - a["time"] for a, b in pairwise(progress[:-1])]
    assert all(seconds > 0.9 for seconds in apart), "at most one a second, and one at the end"
    totals = {one["id"]: one for one in progress[-1]["totals"]["modules"]}
    for module in report.modules:
        for name in ("rows_in", "rows_out", "bytes_in", "bytes_out", "spilled_bytes"):
            assert totals[module.id][name] == getattr(module, name), (module.id, name)
        for name in ("batches_in", "batches_out"):
            assert totals[module.id][name] == getattr(module, name), (module.id, name)
        busy = module.life_seconds - module.starved_seconds - module.blocked_seconds
        assert totals[module.id]["busy_seconds"] == pytest.approx(busy, abs=0.01)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_unwritable_log_is_an_error_before_the_flow_starts(tmp_path: Path) -> None:
    output = tmp_path / "n.parquet"
    log = tmp_path / "nowhere" / "log.jsonl"
    with pytest.raises(eu.EuphratesError, match="nowhere") as refused:
        sorting(9, output).go(event_log=log)
    assert "remedy: " in str(refused.value) and not output.exists()


def test_full_disk_ends_the_log_and_not_the_flow(tmp_path: Path) -> None:
    report = sorting(9, tmp_path / "n.parquet").go(event_log="/dev/full")
    assert report.modules[-1].rows_in == 9


def test_failure_is_the_last_event(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    flow = eu.Flow("bad")
    flow.chain(eu.generate("integers", rows=9), eu.filter("n / (n - n) = 1"), eu.collect())
    with pytest.raises(eu.EuphratesError):
        flow.go(event_log=log)
    last = events(log)[-1]
    assert last["kind"] == "failed" and last["error"]["kind"] and last["error"]["message"]
    printed = command("report", str(log))
    assert printed.returncode == 0 and last["error"]["message"] in printed.stdout


def test_log_of_a_killed_run_is_readable(tmp_path: Path) -> None:
    log, flow = tmp_path / "log.jsonl", tmp_path / "flow.json"
    sorting(2_000_000_000, tmp_path / "n.parquet").save(flow)
    words = ["run", str(flow), "--event-log", str(log), "--memory", "64MiB"]
    running = subprocess.Popen(
        [sys.executable, "-m", "euphrates", *words], stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: log.exists() and kinds(log).count("progress") > 1, "it is logged")
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    with log.open("a") as torn:
        torn.write('{"kind": "prog')
    printed = command("report", str(log))
    assert printed.returncode == 0, printed.stderr
    assert "its process was killed" in printed.stdout and "sort_1" in printed.stdout


def test_report_prints_what_the_run_printed(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    report = sorting(1000, tmp_path / "n.parquet").go(event_log=log)
    assert command("report", str(log)).stdout == f"{report}\n"
    log.write_text("nothing\n")
    refused = command("report", str(log))
    assert refused.returncode != 0 and "line 1" in refused.stderr
    log.write_text("")
    assert "--event-log" in command("report", str(log)).stderr
