"""The function `save_dataset`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from .._config import Var


@configures("save_dataset", lists=["partition_by"])
def save_dataset(
    path: str | PathLike[str] | Var,
    *,
    format: str | PathLike[str] | None | Var = None,
    partition_by: Sequence[str | PathLike[str]] | Var = [],
    mode: str | PathLike[str] | None | Var = None,
    file_bytes: int | str | PathLike[str] | None | Var = None,
    file_name: str | PathLike[str] | None | Var = None,
    partitions_max: int | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
    row_group_bytes: int | None | Var = None,
) -> ModuleCall:
    """Writes a folder of files, with a folder for each value of some columns if wanted.

    Every instance, on every worker, writes files of its own, of about `file_bytes`. With
    `partition_by=["city"]`, the files of a value are in a folder `city=Ur/`, the column is left
    out of them, and `scan` brings it back; a null is `city=__HIVE_DEFAULT_PARTITION__/`. The
    folder appears when the flow has ended well, whole and at once, in all modes; until then,
    and if the flow fails, what was there before stays. Rows of an ordered input stay in order
    within each file. With `resume`, a flow that `scan`s, and changes only single rows on the
    way, keeps complete files for the next attempt; some are smaller than `file_bytes` then.

    Options:

    path
        A folder on a file system; the folder above it must exist.
    format
        `parquet`, `csv`, `json_lines`, `arrow_ipc`, `records` or `lines`; `parquet` if absent.
    partition_by
        Columns whose values name folders, the outermost first.
    mode
        What becomes of files that are there: `error` refuses a folder that is not empty,
        `append` keeps them, `overwrite` replaces them, `overwrite_partitions` replaces those in
        folders that get new ones. `error` if absent.
    file_bytes
        The size of a file, `"64MB"` or a number of bytes; 256 MiB if absent. No file is more
        than a tenth larger, unless one row is.
    file_name
        The name of a file without its extension, with `{i}` for its number and `{run}` for a
        text that no other run has. `part-{i}` if absent, with `{run}` to append.
    partitions_max
        The most folders of `partition_by`; 10,000 if absent.
    compression
        As for `save`.
    row_group_bytes
        As for `save`.

    Example:

    >>> flow = eu.Flow()
    >>> cities = eu.from_arrow({"land": ["Sumer", "Akkad"], "city": ["Ur", "Kish"]})
    >>> _ = flow.chain(cities, eu.save_dataset("cities", partition_by=["land"]))
    >>> _ = flow.go()
    >>> eu.query(eu.scan("cities")).sort("city").to_pydict()
    {'city': ['Kish', 'Ur'], 'land': ['Akkad', 'Sumer']}
    """
