"""Views of striped files: bytes at regular distances as one array."""

from __future__ import annotations

import io

from .._euphrates import StridedView as NativeView
from .._euphrates import StripedShare, StripedWriter

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from .striped import StripedFile


class StridedView:
    """Pieces of a striped file that lie at regular distances, as one array of bytes.

    `StripedFile.view` makes one. Its requests are ranges of this array. A view belongs to its file,
    and ends with it.

    >>> with eu.open_striped("rows", "wb", data=1, parity=0, home="data") as file:
    ...     _ = file.write(b"a1b2c3")
    >>> digits = eu.open_striped("rows", home="data").view(1, 1, 2, 3)
    >>> digits.size, digits.pread()
    (3, b'123')
    """

    def __init__(self, file: StripedFile, native: NativeView) -> None:
        self._file = file
        self._native = native

    @property
    def size(self) -> int:
        """The length in bytes.

        >>> file = eu.open_striped("grid", "wb", data=1, parity=0, home="data")
        >>> file.view(0, 8, 100, 4, 1000, 3).size
        96
        >>> file.abandon()
        """
        return self._native.bytes()

    def pread(self, size: int = -1, offset: int = 0) -> bytes:
        """Read `size` bytes of the view from `offset` on, or all that are left.

        >>> with eu.open_striped("pairs", "wb", data=1, parity=0, home="data") as file:
        ...     _ = file.write(b"ab..cd..")
        >>> eu.open_striped("pairs", home="data").view(0, 2, 4, 2).pread(2, 1)
        b'bc'
        """
        buffer = bytearray(max(self.size - offset, 0) if size < 0 else size)
        self.preadinto(buffer, offset)
        return bytes(buffer)

    def preadinto(self, buffer: Any, offset: int = 0) -> int:
        """Fill a buffer with bytes of the view from `offset` on, and return their number.

        >>> with eu.open_striped("every", "wb", data=1, parity=0, home="data") as file:
        ...     _ = file.write(b"a-b-c-")
        >>> buffer = bytearray(3)
        >>> eu.open_striped("every", home="data").view(0, 1, 2, 3).preadinto(buffer), buffer
        (3, bytearray(b'abc'))
        """
        native = self._file._check(offset)
        if self._file.mode in ("wb", "xb") or isinstance(native, StripedShare):
            raise io.UnsupportedOperation("not readable")
        native.read_view(self._native, offset, buffer)
        return memoryview(buffer).nbytes

    def pwrite(self, data: Any, offset: int = 0) -> int:
        """Write all bytes of a buffer into the view from `offset` on, and return their number.

        >>> with eu.open_striped("third", "wb", data=1, parity=0, home="data") as file:
        ...     _ = file.write(b"......")
        ...     file.view(2, 1, 3, 2).pwrite(b"xy")
        2
        >>> eu.open_striped("third", home="data").read()
        b'..x..y'
        """
        native = self._file._check(offset)
        if not isinstance(native, (StripedWriter, StripedShare)):
            raise io.UnsupportedOperation("not writable")
        with self._file._turns:
            return native.write_view(self._native, offset, data)
