"""A byte stream between two hosts, to measure a link. Started by file name.

`receive` prints its port. After each given number of bytes, and at the end, it prints the total and
the seconds since the first byte. `send` sends for some seconds.
"""

from __future__ import annotations

import argparse
import socket
import time

PIECE_BYTES = 256 << 10


def receive(each: int) -> None:
    """Receives one stream to its end."""
    buffer = bytearray(PIECE_BYTES)
    with socket.create_server(("", 0)) as server:
        print(server.getsockname()[1], flush=True)
        stream, _ = server.accept()
    with stream:
        came = stream.recv_into(buffer)
        start, said = time.perf_counter(), 0
        while more := stream.recv_into(buffer):
            came += more
            if came - said >= each:
                said = came
                print(came, time.perf_counter() - start, flush=True)
        print(came, time.perf_counter() - start, flush=True)


def send(address: str, port: int, seconds: float) -> None:
    piece = bytes(PIECE_BYTES)
    with socket.create_connection((address, port)) as stream:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            stream.sendall(piece)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ways = parser.add_subparsers(dest="way", required=True)
    receiver = ways.add_parser("receive")
    receiver.add_argument("--each", type=int, default=1 << 62)
    sender = ways.add_parser("send")
    sender.add_argument("address")
    sender.add_argument("port", type=int)
    sender.add_argument("seconds", type=float)
    given = parser.parse_args()
    if given.way == "receive":
        receive(given.each)
    else:
        send(given.address, given.port, given.seconds)


if __name__ == "__main__":
    main()
