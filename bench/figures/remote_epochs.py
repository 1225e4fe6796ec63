"""Five epochs over a Parquet file of a web server that sends 40 MB/s, with and without `cache=`.

The cache has 0.8 or 1.2 times the bytes of the file. Each epoch is a flow that reads all columns,
in this process, or on two or four workers of a kept cluster, which have equal parts of the cache.
Runs without a cache alternate with those that have one. The server runs on the same machine and
measures what it sends.
"""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import euphrates as eu

TITLE = "Five epochs over a remote file: what a cache in memory saves"
PANELS = 2
BYTES_PER_SECOND = 40e6
ROWS = 5_000_000
ROW_GROUPS = 200
WORKERS = (1, 2, 4)
EPOCHS = 5
ROUNDS = 3
SHARES = [None, 0.8, 1.2]


class Origin:
    """A file, and how much of it was sent."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.tag = f'"{hashlib.sha256(content).hexdigest()}"'
        self.sent = 0
        self.line = threading.Lock()


def handler_of(origin: Origin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            whole = len(origin.content)
            begin, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
            first, last = int(begin), min(int(end or whole - 1), whole - 1)
            body = origin.content[first : last + 1]
            # One line for all: a response waits for those before it.
            with origin.line:
                origin.sent += len(body)
                time.sleep(len(body) / BYTES_PER_SECOND)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", origin.tag)
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextlib.contextmanager
def served(content: bytes) -> Iterator[tuple[Origin, str]]:
    """Serves a file; its address."""
    origin = Origin(content)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(origin))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield origin, f"http://127.0.0.1:{server.server_port}/n.parquet"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def file(rows: int) -> bytes:
    """Random integers in two columns, which no encoding makes smaller."""
    random = np.random.default_rng(85)
    columns = {name: random.integers(0, 2**62, rows) for name in ("a", "b")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "n.parquet"
        groups = {"row_group_size": rows // ROW_GROUPS, "use_dictionary": False}
        pq.write_table(pa.table(columns), path, compression="none", **groups)
        return path.read_bytes()


def epoch(origin: Origin, url: str, **options: Any) -> dict[str, float]:
    """Sums all columns; the seconds, and the bytes by origin."""
    flow = eu.Flow()
    sums = eu.aggregate(by=[], values={"a": "max(a)", "b": "max(b)"})
    flow.chain(eu.scan(url), sums, eu.collect())
    before, began = origin.sent, time.perf_counter()
    report = flow.go(progress=False, **options)
    seconds = time.perf_counter() - began
    source = report.modules[0]
    return {
        "seconds": round(seconds, 4),
        "sent": origin.sent - before,
        "cached_bytes": source.cached_bytes,
        "peer_bytes": source.peer_bytes,
        "origin_bytes": source.origin_bytes,
    }


def measure(quick: bool) -> dict[str, Any]:
    content = file(ROWS // 5 if quick else ROWS)
    runs: list[dict[str, Any]] = []
    with served(content) as (origin, url):
        for _ in range(1 if quick else ROUNDS):
            for workers in WORKERS:
                for share in SHARES:
                    cache = None if share is None else int(share * len(content))
                    eu.cache_clear()
                    on = eu.Cluster.processes(workers) if workers > 1 else contextlib.nullcontext()
                    with on as cluster:
                        options = {"cache": cache, "cluster": cluster}
                        epochs = [epoch(origin, url, **options) for _ in range(EPOCHS)]
                    runs.append({"workers": workers, "share": share, "epochs": epochs})
                    sent = [round(one["sent"] / len(content), 3) for one in epochs]
                    took = [one["seconds"] for one in epochs]
                    print(
                        f"    {workers} workers, {share}: sent {sent}, seconds {took}", flush=True
                    )
    return {"bytes": len(content), "bytes_per_second": BYTES_PER_SECOND, "runs": runs}


def of(results: dict[str, Any], workers: int, share: float | None, what: str) -> list[float]:
    """The medians of a measure, by epoch."""
    runs = [run for run in results["runs"] if (run["workers"], run["share"]) == (workers, share)]
    by_epoch = zip(*([epoch[what] for epoch in run["epochs"]] for run in runs), strict=True)
    return [statistics.median(values) for values in by_epoch]


def claims(results: dict[str, Any]) -> Any:
    for workers in WORKERS:
        for share in SHARES[1:]:
            left = max(0.0, 1 - share)
            sent = max(of(results, workers, share, "sent")[1:]) / results["bytes"]
            yield (
                f"{share} of the file cached by {workers}: {sent:.3f} is sent "
                f"(at most {left + 0.03:.2f})",
                (sent <= left + 0.03),
            )
        plain = statistics.median(of(results, workers, None, "seconds"))
        ratio = max(of(results, workers, 0.8, "seconds")[1:]) / plain
        yield (
            f"epochs 2 to 5 of {workers} with 0.8 take {ratio:.2f} of the time without "
            "(at most 0.3)",
            ratio <= 0.3,
        )
        first = of(results, workers, 0.8, "seconds")[0] / of(results, workers, None, "seconds")[0]
        yield f"the first epoch of {workers} takes {first:.3f} of it (at most 1.03)", first <= 1.03


def draw(axes: Any, results: dict[str, Any]) -> None:
    from figure import COLOURS

    colours = {None: COLOURS["static"], 0.8: COLOURS["credit"], 1.2: COLOURS["late_binding"]}
    for axis, what, label in zip(
        axes, ("sent", "seconds"), ("sent, of the file", "seconds"), strict=True
    ):
        for share in SHARES:
            for workers, line in zip(WORKERS, ("-", ":", "--"), strict=True):
                values = of(results, workers, share, what)
                if what == "sent":
                    values = [value / results["bytes"] for value in values]
                name = "no cache" if share is None else f"{share} cached"
                told = f"{name}, {workers} worker{'s' if workers > 1 else ''}"
                axis.plot(range(1, EPOCHS + 1), values, line, color=colours[share], label=told)
        axis.set_xlabel("epoch")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=7)
