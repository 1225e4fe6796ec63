"""An S3 server by moto, in this process or one of its own.

It supports multipart uploads, ranged reads, listings and conditional puts. Nothing leaves loopback.
Requires ``moto[s3,server]``, which brings boto3.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

BUCKET = "euphrates-test"


class S3Server:
    """A running server with one bucket."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        self.client.create_bucket(Bucket=BUCKET)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that point programs to the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def url(self, key: str) -> str:
        """The URL of an object."""
        return f"s3://{BUCKET}/{key}"

    def keys(self) -> list[str]:
        """The keys of all visible objects."""
        listed = self.client.list_objects_v2(Bucket=BUCKET)
        return sorted(entry["Key"] for entry in listed.get("Contents", []))

    def unfinished(self) -> list[str]:
        """The keys of uploads neither completed nor aborted."""
        listed = self.client.list_multipart_uploads(Bucket=BUCKET)
        return sorted(entry["Key"] for entry in listed.get("Uploads", []))

    def get(self, key: str) -> bytes:
        """The bytes of an object."""
        return self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def put(self, key: str, content: bytes) -> None:
        """Creates an object."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=content)

    def clear(self) -> None:
        """Removes all objects and unfinished uploads."""
        for key in self.keys():
            self.client.delete_object(Bucket=BUCKET, Key=key)
        listed = self.client.list_multipart_uploads(Bucket=BUCKET)
        for upload in listed.get("Uploads", []):
            self.client.abort_multipart_upload(
                Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"]
            )


@contextlib.contextmanager
def running() -> Iterator[S3Server]:
    """A server on a free port, stopped at the end."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    threaded = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    threaded.start()
    try:
        host, port = threaded.get_host_and_port()
        yield S3Server(f"http://{host}:{port}")
    finally:
        threaded.stop()


@contextlib.contextmanager
def running_apart() -> Iterator[S3Server]:
    """A server in a process of its own, for clients that hold Python's global lock meanwhile."""
    # The program writes the port to standard output, and ends with standard input.
    program = (
        "import logging, sys\n"
        "from moto.server import ThreadedMotoServer\n"
        "logging.getLogger('werkzeug').setLevel(logging.ERROR)\n"
        "server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)\n"
        "server.start()\n"
        "print(server.get_host_and_port()[1], flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as process:
        assert process.stdout and process.stdin
        try:
            yield S3Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.stdin.close()
            process.kill()


@pytest.fixture(scope="module")
def s3_apart_session() -> Iterator[S3Server]:
    """One server in a process of its own for the tests of a module."""
    pytest.importorskip("moto.server", reason="needs moto[s3,server]")
    with running_apart() as server:
        yield server


@pytest.fixture
def s3_apart(s3_apart_session: S3Server) -> Iterator[S3Server]:
    """An empty bucket of a server in a process of its own, which the environment names."""
    s3_apart_session.clear()
    with mock.patch.dict("os.environ", s3_apart_session.environment):
        yield s3_apart_session


@pytest.fixture(scope="session")
def s3_session() -> Iterator[S3Server]:
    """One server for all tests: starting it takes a second."""
    pytest.importorskip("moto.server", reason="needs moto[s3,server]")
    with running() as server:
        yield server


@pytest.fixture
def s3(s3_session: S3Server) -> Iterator[S3Server]:
    """An empty bucket, and the environment set so that flows find it."""
    s3_session.clear()
    with mock.patch.dict("os.environ", s3_session.environment):
        yield s3_session
