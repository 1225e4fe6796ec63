"""The function `scan`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from .._config import Var
    from ..modules import SchemaLike


@configures("scan", lists=["columns", "null_values"])
def scan(
    path: str | PathLike[str] | Sequence[str | PathLike[str]] | Var,
    *,
    format: str | PathLike[str] | None | Var = None,
    columns: Sequence[str | PathLike[str]] | None | Var = None,
    order: bool | Var = False,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
    types: SchemaLike | None | Var = None,
    quote: str | PathLike[str] | None | Var = None,
    escape: str | PathLike[str] | None | Var = None,
    comment: str | PathLike[str] | None | Var = None,
    skip_rows: int | None | Var = None,
    null_values: Sequence[str | PathLike[str]] | None | Var = None,
    encoding: str | PathLike[str] | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
    hive: bool | None | Var = None,
    hive_types: SchemaLike | None | Var = None,
    union_by_name: bool | None | Var = None,
    on_error: str | PathLike[str] | None | Var = None,
    errors_max: int | None | Var = None,
    rejects: str | PathLike[str] | None | Var = None,
    only_new: str | PathLike[str] | None | Var = None,
    storage_options: Mapping[str, str | PathLike[str]] | None | Var = None,
) -> ModuleCall:
    """Reads files: Parquet, CSV, JSON, Arrow IPC, records, lines.

    Columns of several files are matched by their names: one that a file lacks is null there,
    and numbers are widened. Names of folders like `year=2024/` are columns, too: integers,
    dates or texts, as all their values allow; a `filter` on them leaves out files before these
    are opened. Files are read in splits (row groups, ranges of rows where these are few, or
    ranges of 16 MiB), and each instance takes the next split when it has finished one. Text
    that is compressed (`.csv.gz`, `.bz2`, `.zst`) or not UTF-8, JSON that is not one object a
    line, and CSV with comments or escapes are one split a file. If `columns` is absent, those
    that no module after it reads are left out. Row groups of Parquet files are skipped if no
    row of them can pass the `filter`s behind it, by their statistics: minimum, maximum and
    number of nulls. A `join` behind it has rows left out whose keys match nothing.

    Options:

    path
        A file, a pattern (`data/*.parquet`, `**`), a folder, a URL (`s3://bucket/key`, `gs://`,
        `az://`, `https://host/file`, `euphrates://striped_file`), or a list of them.
    format
        `parquet`, `csv`, `json_lines` (also arrays, and objects over several lines),
        `arrow_ipc`, `records` (100 bytes, as gensort makes them) or `lines`; told from the
        extension if absent.
    columns
        The columns to read, in this order; all if absent.
    order
        Keep the order of the records: file by file, each from front to back.
    delimiter
        CSV: the character between fields; a comma if absent, a tab for `.tsv`.
    header
        CSV: whether the first line names the columns; it does if absent.
    types
        CSV and JSON: types of columns, like `{"zip": "string"}`; the others are inferred from
        the first records.
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
    hive
        Whether names of folders like `year=2024/` are columns; if absent, they are where there
        are any. With `true`, there must be some.
    hive_types
        Types of columns in names of folders, like `{"zip": "string"}`; the others are told from
        their values.
    union_by_name
        Which columns are read if files have different ones: `true` for those of all files,
        `false` for those of the first. If absent, a file may have fewer columns than the first,
        but no others.
    on_error
        CSV and JSON: what becomes of what cannot be read: `fail` ends the flow, `null` makes
        the value null, `skip` leaves the record out. A record with too many or too few fields
        is left out by `null`, too. `fail` if absent. With `null`, all columns are read; with
        `skip`, all but columns of text in CSV, which only have to be UTF-8.
    errors_max
        The most errors before the flow fails after all; any number if absent.
    rejects
        A file for what cannot be read, which is replaced, or a folder that ends with `/`, which
        grows: `file`, `line`, `column`, `reason` and the text of the `record`. It appears with
        the other outputs of the flow.
    only_new
        A name under which the files that are read are noted in the home folder, when the flow
        has ended well: the next run with this name leaves them out. A file that has changed
        since is an error. `eu.forget(name)` forgets them.
    storage_options
        Options of the store or server of `path`, beside the environment: of S3 `endpoint`,
        `region`, `allow_http`, `anonymous`, `profile` (of `~/.aws`), `access_key_id` and
        others. What may be a secret is the name of an environment variable:
        `{"secret_access_key": "env:KEY"}`.

    Example:

    >>> with open("cities.csv", "w") as file:
    ...     print("city,founded", "Ur,-3800", "Uruk,-4000", sep="\\n", file=file)
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.scan("cities.csv", columns=["city"], order=True), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk']}
    """
