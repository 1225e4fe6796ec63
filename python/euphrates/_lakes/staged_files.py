"""Parquet files that a flow writes into a table's folder, before a commit makes them visible.

The engine writes them into a hidden folder inside of the table's, from which they move to their
places by renames. Until the commit no reader of the table knows them, and a run that fails removes
them.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from ..errors import UsageError
from ..modules import ModuleCall

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_STAGING = "_euphrates-"
_LEFT_SECONDS = 24 * 3600
FILE_OPTIONS = ("file_bytes", "compression", "row_group_bytes", "partitions_max")
"""Options of `save_dataset` that writers of lake tables pass on."""


@dataclass(frozen=True)
class DataFile:
    """A file at its place."""

    path: str
    """Relative to the folder of the files."""
    bytes: int
    partition: dict[str, str | None]
    """The values in the names of its folders."""
    metadata: Any
    """Its Parquet footer, as pyarrow reads it."""


@dataclass
class StagedFiles:
    """The files of one run below a folder of a file system."""

    folder: str
    is_new: bool = False
    """Whether the run made the folder."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    placed: list[DataFile] = field(default_factory=list)

    @classmethod
    def below(cls, folder: str) -> StagedFiles:
        """Makes the folder if it is missing, and removes what killed runs have left in it."""
        is_new = not os.path.isdir(folder)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder: {error.strerror}", place=folder) from error
        _remove_left(folder)
        return cls(folder, is_new)

    @property
    def _staging(self) -> str:
        return os.path.join(self.folder, f"{_STAGING}{self.run}")

    def sink(self, partition_by: list[str], options: dict[str, Any]) -> ModuleCall:
        """The module that writes the files."""
        config: dict[str, Any] = {"path": self._staging, "file_name": f"part-{self.run}-{{i}}"}
        if partition_by:
            config["partition_by"] = partition_by
        given = {name: options.get(name) for name in FILE_OPTIONS}
        config |= {name: value for name, value in given.items() if value is not None}
        return ModuleCall("save_dataset", config)

    def place(self) -> list[DataFile]:
        """Moves the written files to their places. Those without rows are left out."""
        from pyarrow import parquet

        for folder, _, names in sorted(os.walk(self._staging)):
            for name in sorted(names):
                staged = os.path.join(folder, name)
                metadata = parquet.read_metadata(staged)
                if metadata.num_rows == 0:
                    continue
                relative = os.path.relpath(staged, self._staging)
                target = os.path.join(self.folder, relative)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                size = os.path.getsize(staged)
                file = DataFile(relative, size, values_of(relative), metadata)
                # Listed before it moves, so that `remove` finds it in any case.
                self.placed.append(file)
                os.rename(staged, target)
        self._remove_staging()
        return self.placed

    def remove(self) -> None:
        """Removes all files of the run."""
        for file in self.placed:
            path = os.path.join(self.folder, file.path)
            with contextlib.suppress(OSError):
                os.unlink(path)
            with contextlib.suppress(OSError):
                # Only folders that are empty.
                while (path := os.path.dirname(path)) != self.folder:
                    os.rmdir(path)
        self._remove_staging()
        if self.is_new:
            with contextlib.suppress(OSError):
                # Kept if another run has made a table in it.
                os.rmdir(self.folder)

    def _remove_staging(self) -> None:
        import shutil

        shutil.rmtree(self._staging, ignore_errors=True)


def _remove_left(folder: str) -> None:
    import shutil
    import time

    for entry in os.scandir(folder):
        if not entry.name.startswith(_STAGING) or not entry.is_dir(follow_symlinks=False):
            continue
        # A living run moves its files away within seconds, and may end now.
        with contextlib.suppress(FileNotFoundError):
            if entry.stat().st_mtime < time.time() - _LEFT_SECONDS:
                shutil.rmtree(entry.path, ignore_errors=True)


def values_of(path: str) -> dict[str, str | None]:
    """The values in the names of a file's folders, as Hive escapes them. An empty one is null, as
    Delta's protocol says.
    """
    folders = [name.partition("=") for name in path.split("/")[:-1] if "=" in name]
    return {unquote(name): _value(text) for name, _, text in folders}


def _value(text: str) -> str | None:
    return None if text in (NULL_FOLDER, "") else unquote(text)
