"""`cache=`: remote files come from memory the second time, unless they have changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from cluster_harness import workers_of
from s3_server import S3Server, s3, s3_session  # noqa: F401
from web_server import WebServer, web  # noqa: F401

ROWS = 200_000
TOTAL = ROWS * (ROWS - 1) // 2


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """Nothing is kept before and after a test."""
    eu.cache_clear()
    yield
    eu.cache_clear()


@pytest.fixture
def numbers(web: WebServer, tmp_path: Path) -> WebServer:  # noqa: F811
    """Numbers in several formats, with entity tags."""
    table = pa.table({"n": range(ROWS), "t": [f"text {n * 7919}" for n in range(ROWS)]})
    pq.write_table(table, tmp_path / "n.parquet", row_group_size=ROWS // 8)
    eu.query(table).save(tmp_path / "n.csv")
    eu.query(table).save(tmp_path / "n.jsonl", format="json_lines")
    eu.query(table).save(tmp_path / "n.arrow", format="arrow_ipc")
    for name in ("n.parquet", "n.csv", "n.jsonl", "n.arrow"):
        web.files[name] = (tmp_path / name).read_bytes()
    web.has_tags = True
    return web


def flow_of(url: str) -> eu.Flow:
    """The number and the sum of the rows."""
    flow = eu.Flow()
    sums = eu.aggregate(by=[], values={"rows": "count()", "total": "sum(n)"})
    flow.chain(eu.scan(url), sums, eu.collect())
    return flow


def epoch(url: str, **options: object) -> tuple[int, int]:
    """Reads a file; returns the bytes from memory and from the origin."""
    report = flow_of(url).go(progress=False, **options)  # type: ignore[arg-type]
    assert report.collected().to_pydict() == {"rows": [ROWS], "total": [TOTAL]}
    source = report.modules[0]
    return source.cached_bytes, source.origin_bytes


def data_requests(server: WebServer) -> list[tuple[str, str, str | None]]:
    """Requests for more than the byte with which a file is looked up."""
    return [asked for asked in server.asked if asked[2] != "bytes=0-0"]


@pytest.mark.parametrize("name", ["n.parquet", "n.csv", "n.jsonl", "n.arrow"])
def test_second_epoch_asks_for_no_data(numbers: WebServer, name: str) -> None:
    cached, origin = epoch(numbers.url(name), cache="1GiB")
    assert data_requests(numbers)
    assert origin > len(numbers.files[name]) / 4
    numbers.asked.clear()
    assert epoch(numbers.url(name), cache="1GiB") == (cached + origin, 0)
    assert data_requests(numbers) == []


def test_flow_without_the_option_neither_reads_nor_fills(numbers: WebServer) -> None:
    url = numbers.url("n.csv")
    _, whole = epoch(url)
    assert eu.cache_clear() == 0
    _, first = epoch(url, cache="1GiB")
    cached, origin = epoch(url)
    assert (cached, origin) == (0, whole)
    assert 0 < eu.cache_clear() <= first
    assert epoch(url, cache="1GiB")[1] == first


def test_other_columns_are_fetched_and_the_known_are_not(numbers: WebServer) -> None:
    url = numbers.url("n.parquet")
    epoch(url, cache="1GiB")
    before = numbers.sent_bytes("n.parquet")
    flow = eu.Flow()
    flow.chain(eu.scan(url, columns=["n", "t"]), eu.count(), eu.collect())
    report = flow.go(cache="1GiB", progress=False)
    assert report.modules[0].cached_bytes > 0
    after = numbers.sent_bytes("n.parquet")
    assert before < after <= len(numbers.files["n.parquet"]) + 8


def test_changed_file_is_read_anew(numbers: WebServer) -> None:
    url = numbers.url("n.csv")
    epoch(url, cache="1GiB")
    lines = numbers.files["n.csv"].splitlines(keepends=True)
    numbers.files["n.csv"] = b"".join([lines[0], *reversed(lines[1:])])
    assert epoch(url, cache="1GiB")[1] >= len(numbers.files["n.csv"])
    assert eu.cache_clear() <= len(numbers.files["n.csv"]), "the old bytes are dropped"


def test_file_without_a_version_is_kept_for_one_flow(numbers: WebServer) -> None:
    numbers.has_tags = False
    url = numbers.url("n.parquet")
    flow = eu.Flow()
    for _ in range(2):
        flow.chain(eu.scan(url), eu.count(), eu.collect())
    report = flow.go(cache="1GiB", progress=False)
    both = [module for module in report.modules if module.module == "scan"]
    assert sum(module.cached_bytes for module in both) > 0
    assert eu.cache_clear() == 0


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_bound_holds_and_every_epoch_finds_what_fits(numbers: WebServer, share: float) -> None:
    # Each split is one extent, so these are small.
    name = "n.parquet"
    size = len(numbers.files[name])
    url = numbers.url(name)
    flow = eu.Flow()
    flow.chain(eu.scan(url, columns=["n", "t"]), eu.count(), eu.collect())
    origins = []
    for _ in range(4):
        report = flow.go(cache=int(size * share), progress=False)
        origins.append(report.modules[0].origin_bytes)
    assert max(origins[1:]) <= size * (1 - share) + size / 4
    assert 0 < eu.cache_clear() <= size * share


def test_objects_of_a_store_come_from_memory(
    s3: S3Server,  # noqa: F811
    numbers: WebServer,
) -> None:
    put = {"Bucket": "euphrates-test", "Key": "n.parquet"}
    s3.client.put_object(**put, Body=numbers.files["n.parquet"])
    url = s3.url("n.parquet")
    cached, origin = epoch(url, cache="1GiB")
    assert epoch(url, cache="1GiB") == (cached + origin, 0)
    assert epoch(s3.url("*.parquet"), cache="1GiB") == (cached + origin, 0), "as listed"
    changed = pa.table({"n": range(ROWS), "t": ["other"] * ROWS})
    with pa.BufferOutputStream() as sink:
        pq.write_table(changed, sink)
        s3.client.put_object(**put, Body=bytes(sink.getvalue()))
    cached, origin = epoch(url, cache="1GiB")
    assert origin > cached, "the old bytes are not used"


def sources(reports: list[eu.Report]) -> list[tuple[int, int, int]]:
    """The bytes from the worker's own memory, from other workers and from the origin."""
    scans = [report.modules[0] for report in reports]
    return [(scan.cached_bytes, scan.peer_bytes, scan.origin_bytes) for scan in scans]


def are_cached(epochs: list[tuple[int, int, int]], whole: int) -> bool:
    """Whether the epochs fetched nothing. What a worker has read for another's cache is lost if the
    flow ends before it arrives, so one of them may have fetched what another had fetched before.
    """
    origins = sorted(origin for *_, origin in epochs)
    return origins[-2] == 0 and origins[-1] <= whole


@pytest.mark.parametrize("name", ["n.parquet", "n.csv", "n.jsonl", "n.arrow"])
def test_workers_fetch_each_byte_once_in_all(numbers: WebServer, name: str) -> None:
    url = numbers.url(name)
    _, whole = epoch(url)
    with eu.Cluster.processes(3) as cluster:
        options = {"cache": "1GiB", "cluster": cluster, "progress": False}
        reports = [flow_of(url).go(**options) for _ in range(4)]  # type: ignore[arg-type]
        for report in reports:
            assert report.collected().to_pydict() == {"rows": [ROWS], "total": [TOTAL]}
        found = sources(reports)
        # The workers look at the beginning or the end of the file before they divide it.
        assert found[0][2] <= 1.05 * whole + 3 * 70_000
        assert are_cached(found[1:], whole)
        assert epoch(url, cluster=cluster)[0] == 0
    assert eu.cache_clear() <= whole, "the program has what it read to check the flow"


def test_workers_share_what_they_read_of_a_store(
    s3: S3Server,  # noqa: F811
    numbers: WebServer,
) -> None:
    whole = len(numbers.files["n.parquet"])
    for key in ("a/n.parquet", "b/n.parquet"):
        s3.client.put_object(Bucket="euphrates-test", Key=key, Body=numbers.files["n.parquet"])
    flow = eu.Flow()
    flow.chain(eu.scan(s3.url("*/n.parquet"), columns=["n", "t"]), eu.count(), eu.collect())
    with eu.Cluster.processes(2) as cluster:
        options = {"cache": "1GiB", "cluster": cluster, "progress": False}
        reports = [flow.go(**options) for _ in range(4)]  # type: ignore[arg-type]
    assert [report.collected().to_pydict() for report in reports] == [{"count": [2 * ROWS]}] * 4
    found = sources(reports)
    assert whole < found[0][2] <= 2.1 * whole + 4 * 70_000
    assert are_cached(found[1:], 2 * whole)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_memory_of_all_workers_is_used(numbers: WebServer, share: float) -> None:
    table = pa.table({"n": range(ROWS), "t": [f"text {n * 7919}" for n in range(ROWS)]})
    with pa.BufferOutputStream() as sink:
        pq.write_table(table, sink, row_group_size=ROWS // 50)
        numbers.files["n.parquet"] = bytes(sink.getvalue())
    size = len(numbers.files["n.parquet"])
    flow = eu.Flow()
    url = numbers.url("n.parquet")
    flow.chain(eu.scan(url, columns=["n", "t"]), eu.count(), eu.collect())
    with eu.Cluster.processes(2) as cluster:
        options = {"cache": int(size * share), "cluster": cluster, "progress": False}
        reports = [flow.go(**options) for _ in range(4)]  # type: ignore[arg-type]
    for report, (own, peers, origin) in zip(reports, sources(reports), strict=True):
        assert report.collected().to_pydict() == {"count": [ROWS]}
        if report is not reports[0]:
            # An extent of each worker, of 50 in all, may not fit, and each has an overhead.
            assert origin <= size * (1 - share + 0.06), (own, peers, origin)


def test_ordered_scan_reads_from_other_workers(numbers: WebServer) -> None:
    """Its splits are claimed in order, so workers read splits of which others have the bytes."""
    flow = eu.Flow()
    url = numbers.url("n.parquet")
    flow.chain(eu.scan(url, order=True), eu.filter("n % 1000 = 0"), eu.collect())
    with eu.Cluster.processes(2) as cluster:
        options = {"cache": "1GiB", "cluster": cluster, "progress": False}
        reports = [flow.go(**options) for _ in range(6)]  # type: ignore[arg-type]
    for report in reports:
        assert report.collected().to_pydict()["n"] == list(range(0, ROWS, 1000))
    found = sources(reports)
    assert are_cached(found[1:], len(numbers.files["n.parquet"]))
    assert sum(peers for _, peers, _ in found) > 0
    assert "from the memory of other workers" in "".join(map(str, reports))


def test_splits_of_a_slow_worker_are_read_from_its_memory_by_others(numbers: WebServer) -> None:
    table = pa.table({"n": range(ROWS), "t": [f"text {n * 7919}" for n in range(ROWS)]})
    with pa.BufferOutputStream() as sink:
        pq.write_table(table, sink, row_group_size=ROWS // 50)
        numbers.files["n.parquet"] = bytes(sink.getvalue())
    url = numbers.url("n.parquet")
    with eu.Cluster.processes(2) as cluster:
        epoch(url, cache="1GiB", cluster=cluster)
        stopped = eu.perturb(worker="w1", share=0.98)
        report = flow_of(url).go(cache="1GiB", cluster=cluster, perturb=[stopped], progress=False)
    assert report.collected().to_pydict() == {"rows": [ROWS], "total": [TOTAL]}
    [(own, peers, origin)] = sources([report])
    assert peers > origin, (own, peers, origin)


def test_worker_that_dies_takes_only_its_part_of_the_cache(numbers: WebServer) -> None:
    url = numbers.url("n.parquet")
    _, whole = epoch(url)
    with eu.Cluster.processes(3) as cluster:
        for _ in range(2):
            epoch(url, cache="1GiB", cluster=cluster)
        os.kill(workers_of(os.getpid())["w1"], signal.SIGKILL)
        # Its splits are fetched by the others, and once more by the worker that takes its place.
        origins = [epoch(url, cache="1GiB", cluster=cluster)[1] for _ in range(6)]
        assert sum(origins) <= 2 * whole, origins


def test_report_shows_where_bytes_came_from(numbers: WebServer) -> None:
    url = numbers.url("n.csv")
    flow_of(url).go(cache="1GiB", progress=False)
    text = str(flow_of(url).go(cache="1GiB", progress=False))
    assert "scan_1: " in text
    assert " from memory, 0 B from the origin" in text


def test_command_reads_a_file_once_for_two_scans(numbers: WebServer, tmp_path: Path) -> None:
    url = numbers.url("n.csv")
    query = f"select count(*) from '{url}' a join '{url}' b using (n)"
    command = [sys.executable, "-m", "euphrates", "sql", query]
    for options, times in [((), 1.9), (("--cache", "1GiB"), 1.1)]:
        numbers.asked.clear()
        done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        sent = numbers.sent_bytes("n.csv")
        size = len(numbers.files["n.csv"])
        assert sent <= size * 1.2 if options else sent >= size * times


@pytest.mark.parametrize("wrong", [-1, 0, "abc", "", True, float("nan")])
def test_what_is_no_size_is_a_usage_error(wrong: object) -> None:
    with pytest.raises(eu.UsageError, match="is no size"):
        flow_of("n.csv").go(cache=wrong)  # type: ignore[arg-type]


def test_cache_larger_than_the_memory_is_a_usage_error(tmp_path: Path) -> None:
    eu.query({"n": [1]}).save(tmp_path / "n.csv")
    with pytest.raises(eu.UsageError, match=r"a cache of .* is more than this machine has"):
        flow_of(str(tmp_path / "n.csv")).go(cache="900TiB")
    with (
        eu.Cluster.processes(1) as cluster,
        pytest.raises(eu.UsageError, match=r"is more than worker .* has"),
    ):
        flow_of(str(tmp_path / "n.csv")).go(cache="900TiB", cluster=cluster)


def test_local_files_are_not_kept(tmp_path: Path) -> None:
    eu.query({"n": range(10)}).save(tmp_path / "n.csv")
    report = flow_of(str(tmp_path / "n.csv")).go(cache="1GiB", progress=False)
    assert (report.modules[0].cached_bytes, report.modules[0].origin_bytes) == (0, 0)
    assert eu.cache_clear() == 0
