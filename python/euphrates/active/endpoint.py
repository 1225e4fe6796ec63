"""Endpoints of active messages: connections, handlers and regions."""

from __future__ import annotations

from .._euphrates import ActiveEndpoint, ActiveRegion
from ..errors import UsageError
from .messages import Message, ReplyToken, Returned, message_parts, word

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import TypeVar

    from .messages import Parts

    Run = TypeVar("Run", bound=Callable[..., object])


class Region:
    """Memory of an endpoint into which peers place data; `Endpoint.region` makes one."""

    def __init__(self, native: ActiveRegion) -> None:
        self._native = native

    def __len__(self) -> int:
        return self._native.size()

    @property
    def key(self) -> int:
        """The key by which peers name the region."""
        return self._native.key()

    def read(self, offset: int = 0, count: int | None = None) -> bytes:
        """Copy bytes from the region, to its end by default."""
        return self._native.read(offset, len(self) - offset if count is None else count)

    def write(self, offset: int, data: object) -> None:
        """Copy bytes to the region."""
        self._native.write(offset, data)


class Endpoint:
    """An endpoint: connections, handlers and regions.

    Handlers run in `poll`, `wait`, `serve`, and in `request` while it waits for a credit. They may
    not use their endpoint: one that has more to send notes it, and the caller of `wait` sends it.
    If a handler raises an exception, its request returns to its sender as declined, and the
    exception is that of the call in which the handler ran. A context manager closes the endpoint.

    Args:
        name: Its name: letters, digits, `-`, `_` and `.`.
        token: The token that all endpoints share; `new_token` makes one.
        listen: Where it listens: `host:port` (port 0 is a free one) or `unix:/path`. Without it,
            others cannot connect.
        security: `"tls"`, or `"token"`: TCP is then neither encrypted nor authenticated after the
            handshake. Unix sockets need neither.
        credits: Requests to one peer that may be unsettled, 1 to 256.
        message_bytes: The largest data of one message that it accepts.
        lost_after: Seconds of silence after which a peer counts as lost, if not the default.
    """

    def __init__(
        self,
        name: str,
        token: str,
        listen: str | None = None,
        *,
        security: str = "tls",
        credits: int = 64,
        message_bytes: int = 64 << 20,
        lost_after: float | None = None,
    ) -> None:
        if security not in ("tls", "token"):
            raise UsageError(f"security {security!r}", remedy='choose "tls" or "token"')
        if not 1 <= credits <= 256:
            raise UsageError(f"{credits} credits", remedy="choose 1 to 256")
        if not 0 <= message_bytes <= 4 << 30:
            raise UsageError(f"messages of {message_bytes} bytes", remedy="choose up to 4 GiB")
        tls = security == "tls"
        self._native = ActiveEndpoint(name, listen, token, tls, credits, message_bytes, lost_after)
        self._stopped = False

    @property
    def address(self) -> str | None:
        """Where it listens, with the port that the system chose."""
        return self._native.address()

    @property
    def peers(self) -> dict[int, str]:
        """The connected peers: names by number."""
        return dict(self._native.peers())

    @property
    def losses(self) -> dict[int, str]:
        """The latest peers that were lost, and why."""
        return dict(self._native.losses())

    @property
    def unsettled(self) -> int:
        """Requests that were neither handled nor returned yet, as far as is known here."""
        return self._native.unsettled()

    def connect(self, address: str, *, within: float = 10) -> int:
        """Connect to another endpoint, and return its number.

        A `ResourceError` says that it was not reached, a `UsageError` that the tokens differ.
        """
        return self._native.connect(address, within)

    def handler(self, number: int) -> Callable[[Run], Run]:
        """Decorate the handler of requests with a number: `handler(token, message)`."""

        def decorate(function: Run) -> Run:
            def run(*parts: object) -> tuple[bool, Parts | None]:
                token = ReplyToken()
                try:
                    function(token, Message(*parts))  # type: ignore[arg-type]
                finally:
                    answer = token._end()
                return answer

            self._native.on_request(word(number, "handler"), run)
            return function

        return decorate

    def reply_handler(self, number: int) -> Callable[[Run], Run]:
        """Decorate the handler of replies with a number: `handler(message)`."""

        def decorate(function: Run) -> Run:
            def run(*parts: object) -> None:
                function(Message(*parts))  # type: ignore[arg-type]

            self._native.on_reply(word(number, "handler"), run)
            return function

        return decorate

    def returned_handler(self, function: Run) -> Run:
        """Decorate the handler of messages that return: `handler(returned)`.

        Without one, such a message is a `FlowError` of `poll`, `wait` or `request`.
        """
        self._native.on_returned(lambda *parts: function(Returned(*parts)))
        return function

    def region(self, size: int) -> Region:
        """Make a region of zeros, whose key peers need."""
        return Region(self._native.register(size))

    def end_region(self, region: Region) -> bool:
        """End a region: messages for it return from now on. False if it has ended before."""
        return self._native.unregister(region._native)

    def request(
        self,
        peer: int,
        handler: int,
        *words: int,
        data: object = None,
        to: tuple[int, int] | None = None,
    ) -> None:
        """Send a request; while there is no credit, handle what arrives.

        Args:
            peer: The number of the peer.
            handler: The number of the handler there.
            words: Up to eight numbers of 32 bits.
            data: Bytes for the handler, or for a region.
            to: Key and offset of the region into which the data is copied.
        """
        self._native.request(peer, message_parts(handler, words, data, to))

    def poll(self) -> int:
        """Handle what has arrived, and return how much that was."""
        return self._native.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until something arrives, and handle it. Returns 0 after `timeout` seconds."""
        return self._native.wait(timeout)

    def serve(self) -> None:
        """Handle what arrives until `stop` is called, by a handler or by another thread."""
        while not self._stopped:
            self.wait(0.1)
        self._stopped = False

    def stop(self) -> None:
        """End `serve`."""
        self._stopped = True

    def close(self, *, within: float = 10) -> None:
        """Close the endpoint: requests that still arrive return to their senders.

        Waits until its own messages are settled; those that are not within `within` seconds return
        as lost.
        """
        self._native.close(within)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
