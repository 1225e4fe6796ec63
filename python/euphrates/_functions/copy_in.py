"""The function `copy_in`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Any
    from .._config import Var
    from ..modules import SchemaLike


@configures("copy_in", lists=["null_values"])
def copy_in(
    format: str | PathLike[str] | Var,
    *,
    path: str | PathLike[str] | None | Var = None,
    columns: Mapping[str, Any] | None | Var = None,
    types: SchemaLike | None | Var = None,
    order: bool | Var = True,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
    quote: str | PathLike[str] | None | Var = None,
    escape: str | PathLike[str] | None | Var = None,
    comment: str | PathLike[str] | None | Var = None,
    skip_rows: int | None | Var = None,
    null_values: Sequence[str | PathLike[str]] | None | Var = None,
    encoding: str | PathLike[str] | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Reads standard input, or a named pipe.

    Formats are `arrow_ipc` (as a stream), `csv`, `json_lines`, `records` and `lines`. What is
    compressed with gzip, bzip2 or zstd is decompressed, but for Arrow. Types of CSV and JSON
    are inferred from the first 256 KiB, which are read when the flow is checked, unless
    `columns` names them. One thread reads, so the rows come in their order. Files that can be
    read in parts are better read by `scan`.

    Options:

    format
        `arrow_ipc`, `csv`, `json_lines`, `records` or `lines`.
    path
        A named pipe or a file; standard input if absent.
    columns
        Names and types of the columns, in the order they come: `{"id": "int64"}`.
    types
        CSV and JSON: types of columns, like `{"zip": "string"}`; the others are inferred from
        the first records.
    order
        Keep the order of the rows.
    delimiter
        CSV: the character between fields; a comma if absent.
    header
        CSV: whether the first line names the columns; it does if absent.
    quote
        CSV: the character around fields that may hold anything, `"` if absent; none if empty.
    escape
        CSV: the character behind which any other is itself; if absent, a quote within quotes is
        doubled.
    comment
        CSV: the character with which comments begin, which end with their line.
    skip_rows
        CSV: how many lines to pass over at the beginning, before the header.
    null_values
        CSV: fields without quotes that are nulls, like `["NA", ""]`; the empty one if absent.
    encoding
        CSV, JSON and lines: the encoding of the text, like `latin-1` or `utf-16`; UTF-8 if
        absent, or what a mark at its beginning says.
    compression
        Text and records: `none` says that they are not compressed, although their first bytes
        or their name look like it.

    Example:

    >>> with open("cities.csv", "w") as file:
    ...     print("city,founded", "Ur,-3800", "Uruk,-4000", sep="\\n", file=file)
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.copy_in("csv", path="cities.csv"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk'], 'founded': [-3800, -4000]}
    """
