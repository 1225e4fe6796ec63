"""Active messages as handlers and senders see them."""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

    Parts = tuple[int, list[int], object | None, tuple[int, int] | None]

WORDS = 8
"""Words of a message."""
WORD_MAX = 2**32 - 1


class Message:
    """A message as its handler gets it.

    Attributes:
        peer: The number of the peer that sent it.
        words: Its eight words.
        data: Its data, if it has some that was not placed.
        placed: Key, offset and length of data that was placed into a region, or None.
    """

    __slots__ = ("data", "peer", "placed", "words")

    def __init__(
        self,
        peer: int,
        words: Sequence[int],
        data: bytes,
        placed: tuple[int, int, int] | None,
    ) -> None:
        self.peer, self.words, self.data, self.placed = peer, tuple(words), data, placed

    def __repr__(self) -> str:
        return f"<message of peer {self.peer}: {self.words}, {len(self.data)} bytes>"


class Returned:
    """A message that returned to its sender, whole.

    Attributes:
        peer: The number of the peer that it was for.
        is_reply: Whether it was a reply.
        handler: The number of its handler.
        words: Its words.
        data: Its data, or None.
        to: Key and offset of the region for its data, or None.
        reason: `"no endpoint"`, `"no handler"`, `"no region"`, `"region too small"`, `"declined"`,
            `"too large"`, or `"peer lost"`: then the peer may have handled it.
        text: The reason as a sentence.
    """

    __slots__ = ("data", "handler", "is_reply", "peer", "reason", "text", "to", "words")

    def __init__(
        self,
        peer: int,
        is_reply: bool,
        handler: int,
        words: Sequence[int],
        data: bytes | None,
        to: tuple[int, int] | None,
        reason: str,
        text: str,
    ) -> None:
        self.peer, self.is_reply, self.handler, self.words = peer, is_reply, handler, tuple(words)
        self.data, self.to, self.reason, self.text = data, to, reason, text

    def __repr__(self) -> str:
        return f"<returned: {self.text}>"


class ReplyToken:
    """The right of a request's handler to reply once."""

    __slots__ = ("_answer",)

    def __init__(self) -> None:
        self._answer: tuple[bool, Parts | None] | None = (False, None)

    def reply(
        self,
        handler: int,
        *words: int,
        data: object = None,
        to: tuple[int, int] | None = None,
    ) -> None:
        """Reply to the sender when the handler ends; the parameters are those of a request."""
        self._decide((False, message_parts(handler, words, data, to)))

    def decline(self) -> None:
        """Return the request to its sender, as if it had not been delivered."""
        self._decide((True, None))

    def _decide(self, answer: tuple[bool, Parts | None]) -> None:
        if self._answer != (False, None):
            why = "the request is answered" if self._answer else "its handler has ended"
            raise UsageError(f"no reply: {why}", remedy="reply once, within the handler")
        self._answer = answer

    def _end(self) -> tuple[bool, Parts | None]:
        answer, self._answer = self._answer, None
        return answer or (False, None)


def message_parts(
    handler: int, words: Sequence[int], data: object, to: tuple[int, int] | None
) -> Parts:
    """A message as the compiled part takes it."""
    if len(words) > WORDS:
        raise UsageError(f"{len(words)} words", remedy=f"a message has {WORDS}: use `data`")
    if data is None and to is not None:
        raise UsageError("a place, and no data for it", remedy="give `data`, or leave out `to`")
    return word(handler, "handler"), [word(value, "word") for value in words], data, to


def word(value: int, name: str) -> int:
    """A number of 32 bits."""
    if not isinstance(value, int) or not 0 <= value <= WORD_MAX:
        raise UsageError(f"{name} {value!r}", remedy="give a number from 0 to 2**32 - 1")
    return value
