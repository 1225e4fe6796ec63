"""Metrics of running flows, scraped over HTTP and parsed by Prometheus's own parser."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import euphrates as eu
from cluster_harness import wait_for

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]
ROWS = 100_000_000_000
"""More than any test waits for: the flows are cancelled."""
ODD = 'sort "a"\\b\nü'
"""The name of a module with every character that a label escapes."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def scraped(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in {"counter", "gauge"}
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            of_name = samples.setdefault(sample.name, {})
            assert labels not in of_name, "no series is there twice"
            of_name[labels] = sample.value
    return samples


def by_label(samples: Samples, name: str, label: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for labels, value in samples.get(name, {}).items():
        found[dict(labels)[label]] = found.get(dict(labels)[label], 0) + value
    return found


class Watched:
    """A flow that runs at a port until it is told to end."""

    def __init__(self, **options: Any) -> None:
        self.port = free_port()
        self.flow = eu.Flow('daily "x"')
        made = self.flow.place(eu.generate("integers", rows=ROWS), id="made")
        kept = self.flow.place(eu.filter("n % 2 = 0"), id=ODD)
        made >> kept >> self.flow.place(eu.count(), id="count") >> eu.collect()
        slow = [eu.perturb(module=ODD, share=0.05)]
        self.running = self.flow.start(metrics=self.port, perturb=slow, **options)

    def end(self) -> None:
        self.running.cancel()
        with pytest.raises(eu.Interrupted):
            self.running.finish()


@pytest.fixture
def watched() -> Iterator[Watched]:
    flow = Watched(cores=2)
    yield flow
    flow.end()


def test_counters_grow_while_the_flow_runs(watched: Watched) -> None:
    first = scraped(watched.port)
    assert set(by_label(first, "euphrates_module_instances", "module")) == {
        *("made", ODD, "count", "collect_1")
    }
    assert set(by_label(first, "euphrates_workers", "flow")) == {'daily "x"'}
    assert by_label(first, "euphrates_flow_state", "state") == {
        "running": 1,
        "done": 0,
        "failed": 0,
    }

    def rows(samples: Samples) -> float:
        return by_label(samples, "euphrates_module_rows_in_total", "module")[ODD]

    wait_for(lambda: rows(scraped(watched.port)) > rows(first), "the rows grow")
    later = scraped(watched.port)
    for name, series in later.items():
        if name.endswith("_total"):
            before = first.get(name, {})
            assert all(value >= before.get(labels, 0) for labels, value in series.items()), name
    busy = by_label(later, "euphrates_module_busy_seconds_total", "module")
    assert busy[ODD] > 0
    assert by_label(later, "euphrates_queue_bound_bytes", "to")[ODD] > 0


def test_many_scrapers_and_a_hanging_one_delay_nothing(watched: Watched) -> None:
    hanging = [socket.create_connection(("127.0.0.1", watched.port)) for _ in range(10)]
    for one in hanging:
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
    failures: list[BaseException] = []

    def scrape_often() -> None:
        try:
            for _ in range(25):
                assert scraped(watched.port)
        except BaseException as error:
            failures.append(error)

    scrapers = [threading.Thread(target=scrape_often) for _ in range(8)]
    for one in scrapers:
        one.start()
    for one in scrapers:
        one.join(60)
    for one in hanging:
        one.close()
    assert not failures

    moved = watched.running.progress().modules[0].rows_out
    wait_for(lambda: watched.running.progress().modules[0].rows_out > moved, "the flow goes on")


def test_other_paths_methods_and_hosts_are_refused(watched: Watched) -> None:
    at = f"http://127.0.0.1:{watched.port}"
    for request, status in [
        (urllib.request.Request(f"{at}/"), 404),
        (urllib.request.Request(f"{at}/metrics", data=b"x"), 405),
        (urllib.request.Request(f"{at}/metrics", headers={"Host": "evil.example"}), 403),
    ]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert refused.value.code == status


def test_port_in_use_is_an_error_before_the_flow_starts(tmp_path: Path) -> None:
    flow = eu.Flow("taken")
    flow.chain(eu.generate("integers", rows=9), eu.save(str(tmp_path / "n.parquet")))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(eu.ResourceError, match=f"127.0.0.1:{port}") as refused:
            flow.go(metrics=f"127.0.0.1:{port}")
    assert "another port" in str(refused.value)
    assert not (tmp_path / "n.parquet").exists()
    with pytest.raises(eu.UsageError, match="no address"):
        flow.go(metrics="nowhere")


def test_port_is_free_when_the_flow_has_ended() -> None:
    port = free_port()
    for _ in range(5):
        flow = eu.Flow("short")
        flow.chain(eu.generate("integers", rows=9), eu.count(), eu.collect())
        flow.go(metrics=port)
    with pytest.raises(OSError):
        scraped(port)


def test_worker_shows_its_parts_with_its_name(tmp_path: Path) -> None:
    """The counters of all workers together are those of the master."""
    import subprocess
    import sys

    token = tmp_path / "token"
    subprocess.run([sys.executable, "-m", "euphrates", "token", str(token)], check=True)
    ports = [free_port() for _ in range(2)]
    join = free_port()
    workers = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "euphrates", "worker", "--name", f"w{number}"),
                *("--join", f"127.0.0.1:{join}", "--token-file", str(token), "--cores", "1"),
                *("--metrics", f"127.0.0.1:{port}"),
            ]
        )
        for number, port in enumerate(ports)
    ]
    try:
        cluster = eu.Cluster.join(f"127.0.0.1:{join}", 2, token_file=token)
        with cluster:
            flow = eu.Flow("parts")
            flow.chain(
                eu.generate("integers", rows=ROWS), eu.filter("n % 2 = 0"), eu.count(), eu.collect()
            )
            slow = [eu.perturb(module="filter_1", share=0.05)]
            running = flow.start(cluster=cluster, perturb=slow)
            for number, port in enumerate(ports):
                wait_for(lambda port=port: scraped(port), "the part is shown")
                samples = scraped(port)
                assert by_label(samples, "euphrates_module_instances", "worker") == {
                    f"w{number}": sum(samples["euphrates_module_instances"].values())
                }
                assert by_label(samples, "euphrates_module_instances", "module")["filter_1"] == 1
                assert "euphrates_workers" not in samples, "a worker knows nothing of the others"
                wait_for(
                    lambda port=port: by_label(
                        scraped(port), "euphrates_module_rows_in_total", "module"
                    )["filter_1"],
                    "it counts rows",
                )
            running.cancel()
            with pytest.raises(eu.Interrupted):
                running.finish()
            wait_for(lambda: not scraped(ports[0]), "a part that has ended is not shown")
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(20)


def test_scrape_is_at_most_seconds_old(watched: Watched) -> None:
    started = time.monotonic()
    first = max(scraped(watched.port)["euphrates_flow_seconds"].values())
    wait_for(
        lambda: max(scraped(watched.port)["euphrates_flow_seconds"].values()) >= first + 2,
        "the clock of the flow goes on",
    )
    assert time.monotonic() - started < 10
