"""Striped files as Python file objects: bytes across many disks, with parity.

A file is read as one version, and written as one: what a writer changes is invisible to others
until its `close`, and is dropped if the `with` block ends with an exception.
"""

from __future__ import annotations

import io
import operator
import os
import warnings

from .._euphrates import StridedView as NativeView
from .._euphrates import StripedReader, StripedShare, StripedWriter
from .._other_names.answers import answering
from ..errors import UsageError
from .homes import home_for
from .turns import Turns
from .views import StridedView

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

MODES = ("rb", "wb", "xb", "r+b")
MEMORY = 256 << 20
_CALLER = 3
"""The level of who calls `open_striped`, behind what answers its arguments."""


@answering
def open_striped(
    name: str,
    mode: str = "rb",
    *,
    data: int = 4,
    parity: int = 1,
    disks: Sequence[str] | None = None,
    memory: int = MEMORY,
    home: str | os.PathLike[str] | None = None,
    cluster: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
) -> StripedFile:
    """Open a striped file: one file across many disks, of which `parity` may be lost.

    The file is cut into stripes of `data` blocks of 1 MiB, to which `parity` blocks are added; the
    blocks of a stripe lie on different disks, chosen when it is written. Any `data` of them restore
    it, so readers take those of the disks that are fastest now.

    Modes are `rb`; `wb`, which replaces the file when it is closed; `xb`, which fails if there is
    one; and `r+b`, which replaces changed stripes. `data`, `parity` and `disks` are for new files.
    Disks are names of the home's `disks.json`; without `disks` all of them are used. There must be
    as many as a stripe has blocks, and should be more.

    A writer has `memory` bytes for stripes that are not full. If it is in more of them at once, as
    threads with strided views are, it writes some of them several times.

    With `cluster`, `at:HOST:PORT`, the disks are those that the workers of a kept cluster serve;
    `token_file` has the cluster's token. `eu.striped_home` has more options.

    >>> with eu.open_striped("notes", "wb", data=1, parity=0, home="data") as file:
    ...     file.write(b"ten numbers")
    11
    >>> with eu.open_striped("notes", home="data") as file:
    ...     file.pread(7, 4)
    b'numbers'
    """
    folder = home_for(home, cluster, token_file)
    if not isinstance(name, str):
        error = f"{name!r} is not the name of a striped file"
        raise UsageError(error, remedy='give text, "models/first"; `home` is its folder')
    if mode not in MODES:
        modes = ", ".join(repr(known) for known in MODES)
        near = f"{mode}b" if f"{mode}b" in MODES else "rb"
        raise UsageError(
            f"mode {mode!r} is none of {modes}",
            place=f"striped file {name}",
            remedy=f'write "{near}": a striped file has bytes, and text is encoded first',
        )
    if mode == "rb":
        reader = StripedReader(name, folder)
        warning = reader.warning()
        if warning:
            warnings.warn(warning, stacklevel=_CALLER)
        return StripedFile(name, mode, reader)
    bytes_max = count_of("memory", memory, 1)
    if mode == "r+b":
        writer = StripedWriter.update(name, folder)
        writer.set_memory(bytes_max)
        return StripedFile(name, mode, writer)
    shape = (count_of("data", data, 1), count_of("parity", parity, 0))
    chosen = [disks] if isinstance(disks, str) else list(disks or ())
    writer = StripedWriter.create(name, folder, shape, chosen, mode == "wb")
    writer.set_memory(bytes_max)
    if writer.needs_every_disk():
        text = (
            f"striped file {name}: stripes have as many blocks as there are disks, so writing goes "
            "at the pace of the slowest disk; name one disk more, or fewer blocks"
        )
        warnings.warn(text, stacklevel=_CALLER)
    machines = writer.machine_warning()
    if machines:
        warnings.warn(machines, stacklevel=_CALLER)
    return StripedFile(name, mode, writer)


def count_of(what: str, value: int, least: int) -> int:
    """The value of a parameter, which must be a whole number.

    >>> from euphrates._files.striped import count_of
    >>> count_of("data", 4, 1)
    4
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"`{what}` is {value!r}, not a whole number from {least} on")
    return value


class StripedFile(io.RawIOBase):
    """An open striped file; `open_striped` opens one.

    It has the methods of binary files. Reads and writes release the GIL, and `pread` and `pwrite`
    may be called by several threads at once.

    >>> file = eu.open_striped("counts", "wb", data=1, parity=0, home="data")
    >>> file.write(bytes(10)), file.tell(), file.size
    (10, 10, 10)
    >>> file.close()
    """

    def __init__(
        self, name: str, mode: str, native: StripedReader | StripedWriter | StripedShare
    ) -> None:
        self._native: StripedReader | StripedWriter | StripedShare | None = native
        self._damages: list[str] = []
        self._at = 0
        self._turns = Turns()
        self.name = name
        self.mode = mode

    @property
    def size(self) -> int:
        """The length in bytes, what was written included.

        >>> eu.open_striped("none", "wb", data=1, parity=0, home="data").size
        0
        """
        return self._check().bytes()

    @property
    def damages(self) -> list[str]:
        """What was found damaged or missing so far, and restored from other blocks.

        >>> with eu.open_striped("sound", "wb", data=1, parity=0, home="data") as file:
        ...     file.damages
        []
        """
        native = self._native
        return native.damages() if isinstance(native, StripedReader) else self._damages

    def readable(self) -> bool:
        """Return whether the mode is `rb` or `r+b`.

        >>> file = eu.open_striped("in", "wb", data=1, parity=0, home="data")
        >>> file.readable()
        False
        >>> file.close()
        """
        self._check()
        return self.mode in ("rb", "r+b")

    def writable(self) -> bool:
        """Return whether the mode is not `rb`.

        >>> file = eu.open_striped("out", "wb", data=1, parity=0, home="data")
        >>> file.writable()
        True
        >>> file.close()
        """
        self._check()
        return self.mode != "rb"

    def seekable(self) -> bool:
        """Return true: every offset can be read and written.

        >>> file = eu.open_striped("any", "wb", data=1, parity=0, home="data")
        >>> file.seekable()
        True
        >>> file.close()
        """
        self._check()
        return True

    def tell(self) -> int:
        """Return the offset at which `read` and `write` go on.

        >>> file = eu.open_striped("at", "wb", data=1, parity=0, home="data")
        >>> _ = file.write(b"abc")
        >>> file.tell()
        3
        >>> file.close()
        """
        self._check()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset, which may be behind the end, and return it.

        >>> file = eu.open_striped("far", "wb", data=1, parity=0, home="data")
        >>> file.seek(100), file.size
        (100, 0)
        >>> file.close()
        """
        native = self._check()
        offset = operator.index(offset)
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: native.bytes()}
        if whence not in starts:
            raise ValueError(f"invalid whence: {whence}")
        at = starts[whence] + offset
        if at < 0:
            raise ValueError(f"negative seek position {at}")
        self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return the number of bytes; it is less only at the end of the file.

        >>> with eu.open_striped("short", "wb", data=1, parity=0, home="data") as file:
        ...     _ = file.write(b"abc")
        >>> buffer = bytearray(5)
        >>> eu.open_striped("short", home="data").readinto(buffer), buffer
        (3, bytearray(b'abc\\x00\\x00'))
        """
        self._check()
        count = self._read_into(self._at, buffer)
        self._at += count
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes, or all that are left.

        >>> with eu.open_striped("words", "wb", data=1, parity=0, home="data") as file:
        ...     _ = file.write(b"to be")
        >>> file = eu.open_striped("words", home="data")
        >>> file.read(2), file.read()
        (b'to', b' be')
        """
        self._check()
        read = self.pread(-1 if size is None else size, self._at)
        self._at += len(read)
        return read

    def readall(self) -> bytes:
        """Read all that is left.

        >>> with eu.open_striped("all", "wb", data=1, parity=0, home="data") as file:
        ...     _ = file.write(b"abc")
        >>> eu.open_striped("all", home="data").readall()
        b'abc'
        """
        return self.read(-1)

    def pread(self, size: int, offset: int) -> bytes:
        """Read `size` bytes from `offset` on, or all of them if `size` is negative.

        >>> with eu.open_striped("letters", "wb", data=1, parity=0, home="data") as file:
        ...     _ = file.write(b"abcdef")
        >>> eu.open_striped("letters", home="data").pread(2, 3)
        b'de'
        """
        native = self._check(offset)
        left = max(native.bytes() - offset, 0)
        count = left if size < 0 else min(size, left)
        if isinstance(native, StripedReader):
            return native.read(offset, count)
        buffer = bytearray(count)
        count = self._read_into(offset, buffer)
        return bytes(memoryview(buffer)[:count])

    def write(self, data: Any, /) -> int:
        """Write all bytes of a buffer, and return their number.

        >>> file = eu.open_striped("notes", "wb", data=1, parity=0, home="data")
        >>> file.write(memoryview(b"abc"))
        3
        >>> file.close()
        """
        self._check()
        count = self.pwrite(data, self._at)
        self._at += count
        return count

    def pwrite(self, data: Any, offset: int) -> int:
        """Write bytes at `offset`; a gap before them is zeros.

        >>> with eu.open_striped("gap", "wb", data=1, parity=0, home="data") as file:
        ...     file.pwrite(b"end", 5), file.size
        (3, 8)
        """
        native = self._check(offset)
        if isinstance(native, StripedReader):
            raise io.UnsupportedOperation("not writable")
        return native.write_from(offset, data)

    def view(self, start: int, length: int, *strides: int) -> StridedView:
        """Pieces of the file at regular distances, as one array of bytes.

        `length` bytes from `start` on are repeated `count` times, at distances of `stride` bytes,
        for each pair `stride, count`. The first pair is the innermost: it repeats the pieces, and
        the next pair repeats all of these. Pieces must not overlap. A view for reading must lie
        within the file; writing to one that ends behind the file extends it.

        >>> with eu.open_striped("table", "wb", data=1, parity=0, home="data") as file:
        ...     # Rows of two numbers of 4 bytes: the first column, then the second.
        ...     _ = file.view(0, 4, 8, 3).pwrite(b"one1two2thr3")
        ...     _ = file.view(4, 4, 8, 3).pwrite(b"ONE1TWO2THR3")
        >>> eu.open_striped("table", home="data").read()
        b'one1ONE1two2TWO2thr3THR3'
        """
        if len(strides) % 2:
            raise UsageError(
                "a stride has no count", remedy="give view(start, length, stride, count, ...)"
            )
        numbers = (start, length, *strides)
        for number in numbers:
            count_of("view", number, 0)
        native = self._check()
        view = NativeView(start, length, list(zip(strides[::2], strides[1::2], strict=True)))
        if isinstance(native, StripedReader):
            view.expect_within(native.bytes())
        return StridedView(self, view)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut the file, or extend it with zeros; without `size`, end it where `tell` is.

        >>> file = eu.open_striped("cut", "wb", data=1, parity=0, home="data")
        >>> file.truncate(7), file.size, file.tell()
        (7, 7, 0)
        >>> file.close()
        """
        native = self._check()
        if not isinstance(native, StripedWriter):
            raise io.UnsupportedOperation("its length cannot be changed")
        size = self._at if size is None else operator.index(size)
        if size < 0:
            raise ValueError(f"negative size {size}")
        native.truncate(size)
        return size

    def close(self) -> None:
        """Close the file. What was written becomes visible, as a whole.

        >>> file = eu.open_striped("day", "wb", data=1, parity=0, home="data")
        >>> file.write(b"1")
        1
        >>> file.close()
        >>> eu.open_striped("day", home="data").read()
        b'1'
        """
        if self.closed:
            return
        native = self._let_go()
        try:
            if isinstance(native, (StripedWriter, StripedShare)):
                native.commit()
        finally:
            super().close()

    def abandon(self) -> None:
        """Close the file, and drop what was written.

        >>> eu.open_striped("never", "wb", data=1, parity=0, home="data").abandon()
        >>> eu.open_striped("never", home="data")
        Traceback (most recent call last):
        euphrates.errors.UsageError: no striped file named `never`...
        """
        native = self._let_go()
        if isinstance(native, (StripedWriter, StripedShare)):
            native.abandon()
        super().close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        # A file that was never closed may be half written.
        if not self.closed and hasattr(self, "_native"):
            if self.mode != "rb":
                text = f"striped file {self.name} was not closed: what was written to it is dropped"
                warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
            self.abandon()

    def __repr__(self) -> str:
        state = "closed " if self.closed else ""
        return f"<{state}striped file {self.name!r}, mode {self.mode!r}>"

    def _let_go(self) -> StripedReader | StripedWriter | StripedShare | None:
        # A closed file keeps neither memory nor descriptors, though it may be referred to for long.
        native, self._native = self._native, None
        if isinstance(native, StripedReader):
            self._damages = native.damages()
        return native

    def _read_into(self, offset: int, buffer: Any) -> int:
        native = self._check(offset)
        if self.mode in ("wb", "xb") or isinstance(native, StripedShare):
            raise io.UnsupportedOperation("not readable")
        return native.read_into(offset, buffer)

    def _check(self, offset: int = 0) -> StripedReader | StripedWriter | StripedShare:
        native = self._native
        if self.closed or native is None:
            raise ValueError("I/O operation on closed file")
        if offset < 0:
            raise ValueError(f"negative offset {offset}")
        return native
