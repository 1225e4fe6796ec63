"""The log of a Delta table, read by the package `deltalake`: versions, features, errors."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from .._options import path_text
from ..errors import (
    ConflictError,
    CorruptError,
    EuphratesError,
    FlowError,
    ResourceError,
    UsageError,
)
from .deletion_vectors import check_unchanged
from .delta_paths import SCHEME
from .object_stores import resolved

_READ_FEATURES = {
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "columnMapping",
    "deletionVectors",
    "typeWidening",
    "typeWidening-preview",
}
"""Features of readers that need nothing here, or whose use is checked."""
_WRITE_FEATURES = {
    *_READ_FEATURES,
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "identityColumns",
    "domainMetadata",
}
"""Features of writers of whole files that need nothing here, or whose use is checked. Changes of
whole files need no change data files.
"""
_COMPUTED = {
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "delta.invariants": "invariants",
}
"""Metadata of columns whose values a writer would have to compute or check."""


class NoTableError(UsageError):
    """There is no table at a path."""


def library() -> Any:
    """The package, which is optional."""
    try:
        import deltalake
        import pyarrow  # noqa: F401 - reads footers and schemas
    except ImportError as error:
        raise UsageError(
            f"Delta tables need the package {error.name}",
            remedy="pip install 'euphrates[delta]'",
        ) from None
    return deltalake


def location(path: str | os.PathLike[str]) -> str:
    """The table's path or address: `delta://` in front of it is left out, as is `file://`."""
    text = path_text("path", path)
    text = text.removeprefix(SCHEME)
    if text.startswith("file://"):
        text = unquote(text.removeprefix("file://"))
    return text if "://" in text else os.path.abspath(text)


def opened(
    path: str | os.PathLike[str],
    version: int | None = None,
    timestamp: str | datetime.datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Any:
    """The table as it was at a version or a time; its newest state by default."""
    table_class, place = library().DeltaTable, location(path)
    if version is not None and timestamp is not None:
        raise UsageError("both `version` and `timestamp` are given", remedy="give one")
    storage = {"storage_options": resolved(storage_options, place)}
    with errors(place):
        if version is None and timestamp is None:
            return table_class(place, **storage)
        if version is None:
            table = table_class(place, **storage)
            table.load_as_version(_moment(timestamp))
            return table
        newest = table_class(place, **storage).version()
        if not 0 <= version <= newest:
            raise UsageError(
                f"there is no version {version}",
                place=place,
                remedy=f"the newest version is {newest}",
            )
        return table_class(place, version=version, **storage)


def _moment(timestamp: Any) -> datetime.datetime:
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
        except ValueError:
            raise UsageError(
                f"{timestamp!r} is no time", remedy='write "2026-11-27T12:00:00Z"'
            ) from None
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=datetime.timezone.utc)
    return timestamp  # type: ignore[no-any-return]


@contextlib.contextmanager
def errors(place: str) -> Iterator[None]:
    """Errors of the package in our classes."""
    from deltalake import exceptions as theirs

    try:
        yield
    except EuphratesError:
        raise
    except theirs.TableNotFoundError as error:
        raise NoTableError(
            "there is no Delta table", place=place, remedy="check the path"
        ) from error
    except theirs.CommitFailedError as error:
        raise ConflictError(
            "another program has changed the table meanwhile; nothing was committed",
            place=place,
            remedy="run it again",
        ) from error
    except (theirs.DeltaProtocolError, theirs.SchemaMismatchError) as error:
        raise UsageError(_first_line(error), place=place) from error
    except theirs.DeltaError as error:
        text = _first_line(error)
        if any(word in text.lower() for word in ("json", "parse", "no files in log", "missing")):
            raise CorruptError(
                f"the log cannot be read: {text}",
                place=place,
                remedy="restore the folder _delta_log",
            ) from error
        raise FlowError(text, place=place) from error
    except OSError as error:
        raise ResourceError(_first_line(error), place=place) from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def check_readable(table: Any, place: str) -> None:
    """Fails if a list of files is not what the table has."""
    features = table.protocol().reader_features or []
    _check_features(features, _READ_FEATURES, place)
    _check_mapping(table, place)


def check_writable(table: Any, place: str, *, replaces: bool) -> None:
    """Fails if the table requires a writer feature that is not supported here.

    `replaces` says that files are removed.
    """
    protocol = table.protocol()
    _check_features(protocol.writer_features or [], _WRITE_FEATURES, place)
    _check_mapping(table, place)
    configuration = table.metadata().configuration
    constraints = [name for name in configuration if name.startswith("delta.constraints.")]
    if constraints:
        named = ", ".join(name.removeprefix("delta.constraints.") for name in constraints)
        raise _unsupported(f"check constraints ({named})", place)
    for field in table.schema().fields:
        for key in field.metadata or {}:
            if key in _COMPUTED:
                raise _unsupported(f"{_COMPUTED[key]} (`{field.name}`)", place)
    if replaces and configuration.get("delta.appendOnly") == "true":
        raise UsageError("the table may only be appended to", place=place, remedy='mode="append"')
    if replaces and "deletionVectors" in (protocol.writer_features or []):
        check_unchanged(table, place)


def _check_features(features: list[str], known: set[str], place: str) -> None:
    unknown = sorted(set(features) - known)
    if unknown:
        raise _unsupported(f"the feature {', '.join(unknown)}", place)


def _check_mapping(table: Any, place: str) -> None:
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise _unsupported(f"column mapping ({mode})", place)


def _unsupported(what: str, place: str) -> UsageError:
    return UsageError(
        f"the table has {what}, which is not supported",
        place=place,
        remedy="use the engine that made the table",
    )
