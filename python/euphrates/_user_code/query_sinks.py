"""The modules that write the rows of a query: to a file, a folder of files or a collection."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .._options import known_options
from ..errors import UsageError
from ..flow import Flow
from ..modules import ModuleCall

if TYPE_CHECKING:
    from ..queries import Query

DATASET_OPTIONS = ("mode", "file_bytes", "file_name", "partitions_max")
"""Options that only a folder of files has, beside `partition_by`."""
FILE_OPTIONS = ("delimiter", "header", "quote", "escape", "null_value")
"""Options that only one file has."""
SINK_OPTIONS = (*DATASET_OPTIONS, *FILE_OPTIONS, "row_group_bytes", "storage_options")
"""Options of `Query.save` that are those of its sink."""
_SAVE_OPTIONS = ("format", "compression", "overwrite", "partition_by", *SINK_OPTIONS)


def sink_of(path: str | os.PathLike[str], options: dict[str, Any]) -> ModuleCall:
    """The module of a path: `@name` is a collection, and `folder/` a folder, as is any path with an
    option that only a folder has. Options that are `None` are left out.
    """
    if not isinstance(path, str | os.PathLike):
        what = f"{path!r} is not the path of a file, and not the name of a collection"
        raise UsageError(what, remedy='give "sales.parquet", "sales/" or "@sales"')
    path = os.fspath(path)
    given = {name: value for name, value in options.items() if value is not None}
    overwrites = given.pop("overwrite", False)
    if isinstance(given.get("partition_by"), str):
        given["partition_by"] = [given["partition_by"]]
    of_folders = [name for name in ("partition_by", *DATASET_OPTIONS) if name in given]
    if path.startswith("@"):
        if of_folders:
            raise UsageError(
                f"a collection has no option `{of_folders[0]}`",
                remedy="leave it out, or name a folder",
            )
        if of_files := [name for name in SINK_OPTIONS if name in given]:
            error = f"a collection has no option `{of_files[0]}`"
            raise UsageError(error, remedy="leave it out")
        return ModuleCall("write", {"collection": path[1:], **_overwrite(overwrites), **given})
    if not path.endswith("/") and not of_folders:
        return ModuleCall("save", {"path": path, **_overwrite(overwrites), **given})
    if of_files := [name for name in FILE_OPTIONS if name in given]:
        error = f"a folder of files has no option `{of_files[0]}`"
        raise UsageError(error, remedy="leave it out, or save one file")
    if overwrites and "mode" in given:
        raise UsageError("both `overwrite` and `mode` are given", remedy="give `mode`")
    mode = {"mode": "overwrite"} if overwrites else {}
    return ModuleCall("save_dataset", {"path": path, **mode, **given})


def check_options(flow: Flow, options: dict[str, Any]) -> None:
    """Rejects what neither `Query.save` nor the run of its flow knows."""
    known_options(Flow.go, options, flow._document.get("variables", {}), _SAVE_OPTIONS)


def is_written(flow: Flow) -> bool:
    """Whether a flow has a sink."""
    return flow._document["modules"][-1]["module"] in ("save", "save_dataset", "write")


def collected(rows: Query) -> Flow:
    """The flow of a query as it runs: it collects the rows, unless a statement writes them."""
    return rows.flow if is_written(rows._flow) else rows._complete(ModuleCall("collect", {}))


def _overwrite(overwrites: bool) -> dict[str, bool]:
    return {"overwrite": True} if overwrites else {}
