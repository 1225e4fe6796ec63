"""The function `copy_out`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from os import PathLike
    from .._config import Var


@configures("copy_out")
def copy_out(
    format: str | PathLike[str] | Var,
    *,
    path: str | PathLike[str] | None | Var = None,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
    quote: str | PathLike[str] | None | Var = None,
    escape: str | PathLike[str] | None | Var = None,
    null_value: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Writes to standard output, or a named pipe.

    Formats are `arrow_ipc` (as a stream), `csv`, `json_lines`, `records`, `lines` and
    `parquet`. A stream keeps its order. Every batch goes out as it comes. When the reader has
    had enough, the flow ends well. What has gone out cannot be taken back if the flow fails;
    `save` writes files that appear whole or not at all.

    Options:

    format
        `arrow_ipc`, `csv`, `json_lines`, `records`, `lines` or `parquet`.
    path
        A named pipe or a device; standard output if absent.
    delimiter
        CSV: the character between fields; a comma if absent.
    header
        CSV: whether the first line names the columns; it does if absent.
    compression
        Of `csv`, `json_lines`, `records` and `lines`: `none`, `gzip`, `bzip2` or `zstd`.
    quote
        CSV: the character around fields that need it, `"` if absent; none if empty.
    escape
        CSV: the character before a quote within quotes, and before whatever means something
        where there are none; if absent, a quote is doubled.
    null_value
        CSV: what is written for a null, like `NA`; nothing if absent.

    Example:

    >>> import os
    >>> reading, writing = os.pipe()
    >>> flow = eu.Flow()
    >>> cities = eu.from_arrow({"city": ["Ur", "Uruk"]})
    >>> _ = flow.chain(cities, eu.copy_out("csv", path=f"/dev/fd/{writing}"))
    >>> _ = flow.go()
    >>> os.read(reading, 100)
    b'city\\nUr\\nUruk\\n'
    """
