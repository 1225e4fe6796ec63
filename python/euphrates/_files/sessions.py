"""Sessions: several processes or threads fill one new version of a striped file."""

from __future__ import annotations

import os

from .._euphrates import StripedSession as NativeSession
from .._euphrates import StripedShare
from .._other_names.answers import answering
from .homes import home_for
from .striped import MEMORY, StripedFile, count_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


@answering
def striped_session(
    name: str,
    writers: int,
    *,
    data: int = 4,
    parity: int = 1,
    disks: Sequence[str] | None = None,
    collective: bool = False,
    home: str | os.PathLike[str] | None = None,
    cluster: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
) -> StripedSession:
    """Begin a session in which `writers` processes or threads fill one striped file.

    Each writer opens its file with `session.writer(number)`, writes ranges that no other writes,
    and closes it. The process that began the session publishes all as one version with `commit`.
    The session can be pickled, so it can be given to other processes, also of other hosts that see
    the home and its disks. The other parameters are those of `open_striped`.

    In a `collective` session each stripe has an owner among the writers. The others send it the
    pieces that they have of the stripe, and it writes the stripe while they still run. The writers
    must be processes of one machine.

    >>> with eu.striped_session("shared", 2, data=1, parity=0, home="data") as session:
    ...     for number in range(2):
    ...         with session.writer(number) as file:
    ...             _ = file.pwrite(b"%d" % number * 3, 3 * number)
    >>> eu.open_striped("shared", home="data").read()
    b'000111'
    """
    folder = home_for(home, cluster, token_file)
    shape = (count_of("data", data, 1), count_of("parity", parity, 0))
    chosen = [disks] if isinstance(disks, str) else list(disks or ())
    number = count_of("writers", writers, 1)
    native = NativeSession(name, folder, shape, chosen, (number, bool(collective)))
    return StripedSession(name, number, folder, native.id(), native)


class StripedSession:
    """An open session; `striped_session` begins one.

    As a context manager it is committed at the end of the block, and abandoned after an exception.
    A session that its process leaves open, or whose process dies, is abandoned as well.

    >>> session = eu.striped_session("parts", 1, data=1, parity=0, home="data")
    >>> session.commit()
    Traceback (most recent call last):
    euphrates.errors.UsageError: ...writer 0 of 1 has not ended...
    >>> session.abandon()
    """

    def __init__(
        self,
        name: str,
        writers: int,
        home: str | None,
        key: str,
        native: NativeSession | None = None,
    ) -> None:
        self.name = name
        self.writers = writers
        self.key = key
        self._home = None if home is None else os.path.abspath(home)
        self._native = native

    def writer(self, number: int, *, memory: int = MEMORY) -> StripedFile:
        """Open the file as one of the writers, which are numbered from 0 on.

        What it writes is kept in the session when it is closed. It can be written once: after an
        exception or a crash another process may take its place.

        It has `memory` bytes for stripes that are not full, in a collective session also for those
        that it owns; the rest goes to temporary files.

        >>> with eu.striped_session("one", 1, data=1, parity=0, home="data") as session:
        ...     with session.writer(0) as file:
        ...         file.write(b"abc")
        3
        """
        bytes_max = count_of("memory", memory, 1)
        share = StripedShare(self._home, self.key, count_of("number", number, 0))
        share.set_memory(bytes_max)
        return StripedFile(self.name, "wb", share)

    @property
    def missing(self) -> list[int]:
        """The writers that have not closed their files.

        >>> with eu.striped_session("two", 2, data=1, parity=0, home="data") as session:
        ...     session.writer(1).close()
        ...     session.missing
        ...     session.writer(0).close()
        [0]
        """
        return self._own().missing()

    def commit(self) -> int:
        """Publish what all writers have written, and return the number of the version.

        An error says which writers are missing, or which two have written the same byte; the
        session is then still open. If another version was published since the session began, that
        one stays.

        >>> session = eu.striped_session("done", 1, data=1, parity=0, home="data")
        >>> session.writer(0).close()
        >>> session.commit() > 0
        True
        """
        native = self._own()
        version = native.commit()
        native.abandon()
        return version

    def abandon(self) -> None:
        """End the session, and remove what its writers have written.

        >>> eu.striped_session("never", 1, data=1, parity=0, home="data").abandon()
        """
        if self._native is not None:
            self._native.abandon()

    def __enter__(self) -> StripedSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._native is None:
            return
        try:
            if kind is None:
                self.commit()
        finally:
            self.abandon()

    def __reduce__(self) -> tuple[object, ...]:
        return StripedSession, (self.name, self.writers, self._home, self.key)

    def __repr__(self) -> str:
        return f"<session of striped file {self.name!r}, {self.writers} writers>"

    def _own(self) -> NativeSession:
        if self._native is None:
            from ..errors import UsageError

            raise UsageError(
                "the session was begun by another process, which commits it",
                place=f"striped file {self.name}",
            )
        return self._native
