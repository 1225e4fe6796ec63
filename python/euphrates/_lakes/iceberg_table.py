"""Iceberg tables by the package `pyiceberg`: catalogs, errors, names of columns in files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ConflictError, EuphratesError, FlowError, ResourceError, UsageError


def library() -> Any:
    """The package, which is optional."""
    try:
        import pyarrow  # noqa: F401 - reads footers and schemas
        import pyiceberg.catalog
        import pyiceberg.exceptions
    except ImportError as error:
        raise UsageError(
            f"Iceberg tables need the package {error.name}",
            remedy="pip install 'euphrates[iceberg]'",
        ) from None
    return pyiceberg


def catalog_of(catalog: Any) -> Any:
    """A catalog: one of pyiceberg, the name of a configured one, or its properties."""
    library()
    from pyiceberg.catalog import load_catalog

    if isinstance(catalog, str):
        return load_catalog(catalog)
    if isinstance(catalog, Mapping):
        properties = dict(catalog)
        return load_catalog(properties.pop("name", "euphrates"), **properties)
    return catalog


def loaded(table: Any, catalog: Any) -> Any:
    """A table of pyiceberg, by itself, by its metadata file, or by its name in a catalog; its
    newest state.
    """
    library()
    from pyiceberg.table import StaticTable

    with errors(str(table) if isinstance(table, str) else _name(table)):
        if not isinstance(table, str) and hasattr(table, "refresh"):
            return table.refresh()
        if not isinstance(table, str):
            remedy = 'give a table of pyiceberg, or a name in a catalog: "shop.sales"'
            raise UsageError(f"{table!r} is not a table", remedy=remedy)
        if catalog is not None:
            return catalog_of(catalog).load_table(table)
        if table.endswith(".metadata.json"):
            return StaticTable.from_metadata(table)
        raise UsageError(
            "a name needs the catalog that knows it",
            place=table,
            remedy='catalog={"type": "sql", "uri": …}, or the name of a configured one',
        )


def _name(table: Any) -> str:
    return ".".join(table.name()) if hasattr(table, "name") else type(table).__name__


@contextlib.contextmanager
def errors(place: str) -> Iterator[None]:
    """Errors of the package in our classes."""
    from pyiceberg import exceptions as theirs

    missing = (theirs.NoSuchTableError, theirs.NoSuchNamespaceError, theirs.NoSuchIcebergTableError)
    lost = (theirs.CommitFailedException, theirs.ValidationException)
    try:
        yield
    except EuphratesError:
        raise
    except missing as error:
        raise UsageError(
            "there is no Iceberg table", place=place, remedy="check the name"
        ) from error
    except (*lost, theirs.TableAlreadyExistsError) as error:
        raise ConflictError(
            "another program has changed the table meanwhile; nothing was committed",
            place=place,
            remedy="run it again",
        ) from error
    except (ValueError, NotImplementedError, theirs.ValidationError) as error:
        raise UsageError(_first_line(error), place=place) from error
    except OSError as error:
        raise ResourceError(_first_line(error), place=place) from error
    except Exception as error:
        raise FlowError(f"{type(error).__name__}: {_first_line(error)}", place=place) from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def local_path(address: str) -> str:
    """The path of a file in a table, without `file:`; an address of an object store as it is."""
    for scheme in ("file://", "file:"):
        if address.startswith(scheme):
            return address.removeprefix(scheme)
    return address.replace("s3a://", "s3://", 1)


def names_are_ids(metadata: Any) -> bool:
    """Whether a column's name has always meant the same column: then files are read by names."""
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    for schema in metadata.schemas:
        for field_id in schema.field_ids:
            name = schema.find_column_name(field_id)
            if (
                names.setdefault(field_id, name) != name
                or ids.setdefault(name, field_id) != field_id
            ):
                return False
    return True


def columns_in_file(arrow_schema: Any, metadata: Any, place: str) -> dict[int, str]:
    """The names that the columns have in a file, by their ids. Files without ids are read by the
    table's mapping of names. Fails if fields inside of a column have other names than in the table.
    """
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    mapping = metadata.name_mapping()
    try:
        found = pyarrow_to_schema(arrow_schema, name_mapping=mapping)
    except Exception as error:
        raise UsageError(
            f"the columns have neither ids nor names that the table knows: {_first_line(error)}",
            place=place,
        ) from error
    current = metadata.schema()
    for field_id in found.field_ids:
        name, declared = found.find_column_name(field_id), current.find_column_name(field_id)
        if "." in (name or "") and declared and name.split(".")[1:] != declared.split(".")[1:]:
            raise UsageError(
                f"`{name}` is called `{declared}` now; renamed fields inside of a column are not"
                " supported",
                place=place,
                remedy="rewrite the file with the engine that wrote it",
            )
    return {field.field_id: field.name for field in found.fields}
