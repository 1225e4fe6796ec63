"""The `fsspec` file system `euphrates://`: striped files for pandas, PyArrow, Dask and Zarr.

A path is the name of a striped file. Folders are what paths have in common, as in object stores:
they need not be made, and are not empty.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from fsspec.spec import AbstractFileSystem

from .._euphrates import striped_find, striped_folder, striped_remove
from ..errors import UsageError
from .exits import watch
from .homes import home_for
from .names import name_of, path_of
from .striped import StripedFile, open_striped

_BUFFER_BYTES = 1 << 20


class EuphratesFileSystem(AbstractFileSystem):
    """Striped files as an `fsspec` file system.

    Options are those of `open_striped`: `data`, `parity` and `disks` of new files; and `home`, or
    `cluster` and `token_file`.

    >>> import fsspec
    >>> options = {"data": 1, "parity": 0, "home": "data"}
    >>> with fsspec.open("euphrates://days/monday.txt", "w", **options) as file:
    ...     _ = file.write("sunny")
    >>> files = fsspec.filesystem("euphrates", **options)
    >>> files.ls("days", detail=False), files.cat("days/monday.txt")
    (['days/monday.txt'], b'sunny')
    """

    protocol = "euphrates"
    root_marker = ""

    def __init__(
        self,
        data: int = 4,
        parity: int = 1,
        disks: Sequence[str] | None = None,
        home: str | None = None,
        cluster: str | None = None,
        token_file: str | None = None,
        **options: Any,
    ) -> None:
        options["use_listings_cache"] = False
        super().__init__(**options)
        self.data, self.parity, self.disks = data, parity, disks
        self.home = home_for(home, cluster, token_file)
        watch(self)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        stripped = super()._strip_protocol(os.fspath(path))
        return stripped.strip("/")

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """The files and folders in a folder, or the file of this path.

        >>> from euphrates._files.filesystem import EuphratesFileSystem
        >>> EuphratesFileSystem(home="data").ls("")
        []
        """
        path = self._strip_protocol(path)
        found = self._find_file(path)
        entries = {} if found is None else {path: found}
        if found is None and "//" not in path:
            files, folders = json.loads(striped_folder(name_of(path), self.home))
            entries = {name: _folder(name) for name in map(path_of, folders)}
            # A file that has the name of a folder hides it.
            entries.update(
                {name: _file(name, one) for one in files if (name := path_of(one["name"]))}
            )
        if not entries and path:
            raise FileNotFoundError(path)
        listed = [entries[name] for name in sorted(entries)]
        return listed if detail else [entry["name"] for entry in listed]

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Length, type and layout of a file; the type of a folder.

        >>> from euphrates._files.filesystem import EuphratesFileSystem
        >>> EuphratesFileSystem(home="data").info("")["type"]
        'directory'
        """
        path = self._strip_protocol(path)
        found = self._find_file(path)
        if found is not None:
            return found
        if path:
            self.ls(path)
        return _folder(path)

    def _find_file(self, path: str) -> dict[str, Any] | None:
        if not path or "//" in path:
            return None
        try:
            found = striped_find(name_of(path), self.home)
        except UsageError:
            return None
        return None if found is None else _file(path, json.loads(found))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        name = name_of(self._strip_protocol(path))
        if mode == "rb":
            try:
                raw = open_striped(name, "rb", home=self.home)
            except UsageError as error:
                raise FileNotFoundError(f"{path}: {error}") from error
            return watch(SizedReader(raw, block_size or _BUFFER_BYTES))
        appends = mode == "ab"
        if appends:
            mode = "r+b" if self._find_file(self._strip_protocol(path)) else "wb"
        known: dict[str, Any]
        known = {"data": self.data, "parity": self.parity, "disks": self.disks}
        known.update({key: options[key] for key in known if key in options})
        try:
            file = open_striped(name, mode, home=self.home, **known)
        except UsageError as error:
            if mode == "xb" and "already" in str(error):
                raise FileExistsError(path) from error
            raise
        if appends:
            file.seek(0, io.SEEK_END)
        return file if autocommit else UncommittedFile(file)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        """The bytes of a file, or some of them.

        >>> from euphrates._files.filesystem import EuphratesFileSystem
        >>> files = EuphratesFileSystem(data=1, parity=0, home="data")
        >>> _ = files.pipe("digits", b"0123456789")
        >>> files.cat_file("digits", 2, -3)
        b'23456'
        """
        with self.open(path, "rb") as file:
            raw = file.raw
            size = raw.size
            first, last, _ = slice(start, end).indices(size)
            return bytes(raw.pread(max(last - first, 0), first))

    def cat_ranges(
        self,
        paths: list[str],
        starts: list[int] | int | None,
        ends: list[int] | int | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[Any]:
        """Several ranges of files, read at once.

        >>> from euphrates._files.filesystem import EuphratesFileSystem
        >>> files = EuphratesFileSystem(data=1, parity=0, home="data")
        >>> _ = files.pipe("digits", b"0123456789")
        >>> files.cat_ranges(["digits", "digits"], [0, 5], [2, 7])
        [b'01', b'56']
        """
        from concurrent.futures import ThreadPoolExecutor

        first = starts if isinstance(starts, list) else [starts] * len(paths)
        last = ends if isinstance(ends, list) else [ends] * len(paths)

        def read(range_: tuple[str, int | None, int | None]) -> Any:
            try:
                return self.cat_file(*range_)
            except Exception as error:
                if on_error == "return":
                    return error
                raise

        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(read, zip(paths, first, last, strict=True)))

    def _rm(self, path: str) -> None:
        try:
            striped_remove(name_of(self._strip_protocol(path)), self.home)
        except UsageError as error:
            raise FileNotFoundError(path) from error

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files; with `recursive`, all files in a folder.

        >>> from euphrates._files.filesystem import EuphratesFileSystem
        >>> files = EuphratesFileSystem(data=1, parity=0, home="data")
        >>> _ = files.pipe("old/digits", b"0123456789")
        >>> files.rm("old", recursive=True)
        >>> files.exists("old")
        False
        """
        for one in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if self._find_file(one) is not None:
                self._rm(one)
            elif not recursive:
                raise IsADirectoryError(one) if self.isdir(one) else FileNotFoundError(one)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copy a file; a folder needs no copy.

        >>> from euphrates._files.filesystem import EuphratesFileSystem
        >>> files = EuphratesFileSystem(data=1, parity=0, home="data")
        >>> _ = files.pipe("digits", b"0123456789")
        >>> files.cp_file("digits", "copied")
        >>> files.cat("copied")
        b'0123456789'
        """
        if self._find_file(self._strip_protocol(path1)) is None:
            if self.isdir(path1):
                return
            raise FileNotFoundError(path1)
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            while part := source.raw.read(16 << 20):
                target.write(part)

    def created(self, path: str) -> datetime:
        """When the version was written; `modified` is the same.

        >>> from euphrates._files.filesystem import EuphratesFileSystem
        >>> files = EuphratesFileSystem(data=1, parity=0, home="data")
        >>> _ = files.pipe("digits", b"0123456789")
        >>> files.created("digits") == files.modified("digits")
        True
        """
        created: datetime = self.info(path)["created"]
        return created

    modified = created


class SizedReader(io.BufferedReader):
    """A buffered file with its length, by which `fsspec` cuts it into blocks.

    >>> from euphrates._files.filesystem import EuphratesFileSystem
    >>> files = EuphratesFileSystem(data=1, parity=0, home="data")
    >>> _ = files.pipe("lines", b"one\\ntwo\\nthree\\n")
    >>> files.read_block("lines", 2, 4, delimiter=b"\\n")
    b'two\\n'
    """

    @property
    def size(self) -> int:
        size: int = self.raw.size  # type: ignore[attr-defined]
        return size


class UncommittedFile(io.RawIOBase):
    """A file of an `fsspec` transaction: it stays invisible until the transaction ends."""

    def __init__(self, file: StripedFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def write(self, data: Any, /) -> int:
        return self._file.write(data)

    def commit(self) -> None:
        self._file.close()

    def discard(self) -> None:
        self._file.abandon()


def _file(path: str, found: dict[str, Any]) -> dict[str, Any]:
    created = datetime.fromtimestamp(found["created"], timezone.utc)
    layout = found["layout"]
    return {
        "name": path,
        "type": "file",
        "size": layout["bytes"],
        "created": created,
        "version": found["version"],
        "data": layout["data"],
        "parity": layout["parity"],
        "disks": layout["disks"],
    }


def _folder(path: str) -> dict[str, Any]:
    return {"name": path, "type": "directory", "size": 0}
