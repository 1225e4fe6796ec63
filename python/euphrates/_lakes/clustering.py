"""Sorts of Delta tables in place: their files are read, sorted and replaced in one commit."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from .._other_names.answers import answering
from .._user_code.placed import Placed
from ..errors import UsageError
from ..flow import Flow
from ..modules import ModuleCall
from ..report import Report
from .deletion_vectors import check_unchanged
from .delta import active_files, rows_of
from .delta_commit import add_action
from .delta_log import check_writable, errors, library, location, opened
from .staged_files import StagedFiles


@answering
def sort_delta(
    path: str | os.PathLike[str],
    by: str | Sequence[str],
    *,
    file_bytes: int | str | None = None,
    compression: str | None = None,
    **options: Any,
) -> Report:
    """Sorts a Delta table in place, so that filters on the columns `by` skip most of its files and
    row groups. The table may be larger than the memory.

    Its files are replaced by sorted ones in one commit, which says that no rows have changed. With
    partitions, each is sorted. If another program commits meanwhile, that is a `ConflictError`, and
    the table stays as it is. The other options are those of `Query.save_delta`.

    >>> numbers = eu.query({"n": [3, 1, 2]})
    >>> _ = numbers.save_delta("numbers")
    >>> _ = eu.sort_delta("numbers", "n")
    >>> eu.scan_delta("numbers").to_pydict()
    {'n': [1, 2, 3]}
    """
    layout = {"file_bytes": file_bytes, "compression": compression}
    with sorting(path, [by] if isinstance(by, str) else list(by), layout) as (flow, commit):
        report = flow.go(**options)
        commit()
    return report


@contextlib.contextmanager
def sorting(
    path: str | os.PathLike[str], by: list[str], layout: dict[str, Any]
) -> Iterator[tuple[Flow, Callable[[], None]]]:
    """The flow that sorts a table, and a function that commits its files."""
    deltalake, place = library(), location(path)
    if "://" in place:
        raise UsageError("tables on object stores cannot be written yet", place=place)
    table = opened(place)
    check_writable(table, place, replaces=False)
    check_unchanged(table, place)
    partition_by = list(table.metadata().partition_columns)
    before = active_files(table)
    flow = rows_of(table, place).sort(*by).flow
    files, committed = StagedFiles.below(place), False

    def commit() -> None:
        nonlocal committed
        from deltalake.transaction import RemoveAction

        placed, now = files.place(), time.time_ns() // 1_000_000
        removed = [
            RemoveAction(
                unquote(file["path"]),
                False,
                now,
                file["size_bytes"],
                {name: _text(file[f"partition.{name}"]) for name in partition_by},
            )
            for file in before
        ]
        added = [add_action(file, data_change=False) for file in placed]
        # A retry would keep what another commit has added, or remove files twice.
        once = deltalake.CommitProperties(max_commit_retries=0)
        with errors(place):
            table.create_write_transaction(
                [*removed, *added],
                "append",
                table.schema(),
                partition_by=partition_by,
                commit_properties=once,
            )
        committed = True

    try:
        last = Placed(flow, str(flow._document["modules"][-1]["id"]))
        sink: ModuleCall = files.sink(partition_by, layout)
        # One instance writes, so that each file has a range of its own; partitions are ranges.
        flow.attach(last, flow.place(sink, count=None if partition_by else 1))
        yield flow, commit
    finally:
        if not committed and not _is_committed(place, files):
            files.remove()


def _is_committed(place: str, files: StagedFiles) -> bool:
    """Whether the table has the files, although the commit seemed to fail."""
    with contextlib.suppress(Exception):
        names = {os.path.basename(uri) for uri in opened(place).file_uris()}
        return bool(files.placed) and os.path.basename(files.placed[0].path) in names
    return False


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
