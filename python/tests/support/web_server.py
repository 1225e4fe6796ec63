"""A web server on loopback that returns files, with or without ranges, or breaks off."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class WebServer:
    """What the server has and does; and what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.has_ranges = True
        """Whether it returns parts of files."""
        self.has_lengths = True
        """Whether it says how long a whole file is, before it sends it."""
        self.breaks = 0
        """How many of the next large responses break off."""
        self.token: str | None = None
        """The bearer token without which it refuses."""
        self.has_tags = False
        """Whether it tells an entity tag, which stands for the content."""
        self.bytes_per_second: float | None = None
        """How fast it sends bodies, all together."""
        self.asked: list[tuple[str, str, str | None]] = []
        """Method, path and range of the requests."""
        self.address = ""
        self._sending = threading.Lock()

    def url(self, name: str) -> str:
        """The address of a file."""
        return f"{self.address}/{name}"

    def tag(self, name: str) -> str:
        """The entity tag of a file."""
        return f'"{hashlib.sha256(self.files[name]).hexdigest()}"'

    def throttle(self, count: int) -> None:
        """Waits as long as `count` bytes take at the server's rate, one response at a time."""
        if self.bytes_per_second:
            with self._sending:
                time.sleep(count / self.bytes_per_second)

    def sent_bytes(self, name: str) -> int:
        """How many bytes of a file were asked for by ranges."""
        total = 0
        for _, path, span in self.asked:
            if span and path == f"/{name}":
                begin, _, end = span.removeprefix("bytes=").partition("-")
                total += int(end) - int(begin) + 1
        return total


def _handler(server: WebServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            span = self.headers.get("Range")
            server.asked.append((self.command, self.path, span))
            content = server.files.get(self.path.removeprefix("/"))
            if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
                return self._empty(401)
            if content is None:
                return self._empty(404)
            whole = len(content)
            if span and server.has_ranges:
                begin, _, end = span.removeprefix("bytes=").partition("-")
                first, last = int(begin), min(int(end or whole - 1), whole - 1)
                if first >= whole:
                    return self._empty(416)
                content = content[first : last + 1]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
            else:
                self.send_response(200)
            is_chunked = not server.has_lengths and not (span and server.has_ranges)
            if is_chunked:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(len(content)))
            if server.has_tags:
                self.send_header("ETag", server.tag(self.path.removeprefix("/")))
            self.end_headers()
            if not with_body:
                return None
            if is_chunked:
                content = _chunks(content)
            if server.breaks and len(content) > 100:
                server.breaks -= 1
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
                return None
            server.throttle(len(content))
            self.wfile.write(content)
            return None

        def _empty(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Handler


def _chunks(content: bytes) -> bytes:
    """A body in chunks, which end it without a length."""
    parts = [content[at : at + 10_000] for at in range(0, len(content), 10_000)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])


@contextlib.contextmanager
def running() -> Iterator[WebServer]:
    """A server on a free port, stopped at the end."""
    server = WebServer()
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    listening.daemon_threads = True
    server.address = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


@pytest.fixture
def web() -> Iterator[WebServer]:
    """An empty server."""
    with running() as server:
        yield server
