"""Tables on object stores: the options of `deltalake` and the one file of a commit."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..modules import ModuleCall
from .staged_files import DataFile

_NAMES = {"anonymous": "aws_skip_signature"}


def resolved(options: Mapping[str, str] | None, place: str) -> dict[str, str] | None:
    """Storage options as `deltalake` takes them: with the values of the environment variables that
    they name.
    """
    if not options:
        return None
    found = {}
    for name, value in options.items():
        if name.lower() in ("profile", "aws_profile"):
            raise UsageError(
                "the log is read by deltalake, which knows no profiles",
                place=place,
                remedy='name environment variables: {"access_key_id": "env:NAME", …}',
            )
        if value.startswith("env:"):
            variable = value.removeprefix("env:")
            if variable not in os.environ:
                raise UsageError(
                    f"the environment of this process has no variable {variable}",
                    place="storage_options",
                    remedy=f"set {variable}",
                )
            value = os.environ[variable]
        found[_NAMES.get(name, name)] = value
    return found


class StagedObject:
    """The file of one run in a table on an object store, which is the file of one commit.

    The object appears when the flow has ended; readers of the table know it from the commit on. It
    is removed if there is none.
    """

    def __init__(self, place: str, storage: Mapping[str, str] | None) -> None:
        self._place = place.rstrip("/")
        self._storage = dict(storage or {})
        self._name = f"part-{uuid.uuid4().hex}.parquet"

    def sink(self, partition_by: list[str], options: dict[str, Any]) -> ModuleCall:
        """The module that writes the file."""
        if partition_by:
            raise UsageError(
                "a table with partitions on an object store cannot be written",
                place=self._place,
                remedy="leave out `partition_by`, or write to a file system",
            )
        config: dict[str, Any] = {"path": f"{self._place}/{self._name}", "format": "parquet"}
        for name, value in options.items():
            if value is None:
                continue
            if name not in ("compression", "row_group_bytes"):
                raise UsageError(
                    f"`{name}` is given, and a commit on an object store has one file",
                    place=self._place,
                    remedy="leave it out, or write to a file system",
                )
            config[name] = value
        if self._storage:
            config["storage_options"] = self._storage
        return ModuleCall("save", config)

    def place(self) -> list[DataFile]:
        """The file, with its footer; nothing if it has no rows."""
        from pyarrow import parquet

        store = self._store()
        with store.open_input_file(self._name) as file:
            metadata = parquet.read_metadata(file)
            size = file.size()
        if metadata.num_rows == 0:
            self.remove()
            return []
        return [DataFile(self._name, size, {}, metadata)]

    def remove(self) -> None:
        """Removes the object, if there is one."""
        with contextlib.suppress(Exception):
            self._store().delete_file(self._name)

    def _store(self) -> Any:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        handler = DeltaStorageHandler(self._place, resolved(self._storage, self._place))
        return fs.PyFileSystem(handler)
