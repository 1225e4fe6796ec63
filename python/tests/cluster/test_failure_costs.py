"""What a failed attempt has cost: in the report, in the event log, and in the metrics."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import euphrates as eu
from cluster_harness import wait_for, workers_of
from flow_outcomes import output_is_consistent, result, rows_out, writing


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
