"""The function `save`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike
    from .._config import Var


@configures("save")
def save(
    path: str | PathLike[str] | Var,
    *,
    format: str | PathLike[str] | None | Var = None,
    overwrite: bool | Var = False,
    compression: str | PathLike[str] | None | Var = None,
    row_group_bytes: int | None | Var = None,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
    quote: str | PathLike[str] | None | Var = None,
    escape: str | PathLike[str] | None | Var = None,
    null_value: str | PathLike[str] | None | Var = None,
    storage_options: Mapping[str, str | PathLike[str]] | None | Var = None,
) -> ModuleCall:
    """Writes one file: Parquet, CSV, JSON lines, Arrow IPC, records, lines.

    The file appears when the flow has ended well, whole and at once; until then, and if the
    flow fails, what was there before stays. Several instances encode in parallel; an ordered
    stream is written in order.

    Options:

    path
        A file, the URL of an object (`s3://bucket/key`, `gs://`, `az://`), or the address of a
        striped file (`euphrates://name`).
    format
        `parquet`, `csv`, `json_lines`, `arrow_ipc`, `records` or `lines`; told from the
        extension if absent.
    overwrite
        Replace an existing file.
    compression
        Parquet (`none`, `snappy`, `lz4`, `gzip`, `brotli`, `zstd`, which is the default), Arrow
        IPC (`none`, `lz4`, `zstd`), and all others as a whole (`none`, `gzip`, `bzip2`, `zstd`;
        from the extension if absent, like `.csv.gz`).
    row_group_bytes
        Bytes that are encoded together, and held by each instance: a row group of Parquet. If
        absent, 8 MiB where these are 262,144 rows or more, and up to 32 MiB of longer rows.
    delimiter
        CSV: the character between fields; a comma if absent, a tab for `.tsv`.
    header
        CSV: whether the first line names the columns; it does if absent.
    quote
        CSV: the character around fields that need it, `"` if absent; none if empty.
    escape
        CSV: the character before a quote within quotes, and before whatever means something
        where there are none; if absent, a quote is doubled.
    null_value
        CSV: what is written for a null, like `NA`; nothing if absent.
    storage_options
        Options of the object store of `path`, as those of `scan`; of a striped file `data`,
        `parity`, `disks` (with commas between) and `home`.

    Example:

    >>> flow = eu.Flow()
    >>> cities = eu.from_arrow({"city": ["Ur", "Uruk"]}, order=True)
    >>> _ = flow.chain(cities, eu.save("cities.csv"))
    >>> _ = flow.go()
    >>> open("cities.csv").read()
    'city\\nUr\\nUruk\\n'
    """
