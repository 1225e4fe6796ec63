"""Files of Delta tables with deletion vectors, which list the deleted rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from .._user_code.module import Module
from ..errors import CorruptError, UsageError
from .object_stores import resolved


def vectors_of(table: Any, place: str) -> dict[str, Any]:
    """For each file with a vector, whether its rows are left, by the address of the file."""
    import pyarrow as pa

    features = table.protocol().reader_features or []
    if "deletionVectors" not in features:
        return {}
    try:
        found = pa.table(table.deletion_vectors())
    except Exception as error:
        raise CorruptError(
            f"the deletion vectors cannot be read: {str(error).splitlines()[0]}",
            place=place,
            remedy="restore the files of the table",
        ) from error
    masks = found.column("selection_vector").combine_chunks()
    addresses = [_plain(one) for one in found.column("filepath").to_pylist()]
    return {address: masks[row].values for row, address in enumerate(addresses)}


def _plain(address: str) -> str:
    return unquote(address.removeprefix("file://")) if address.startswith("file://") else address


class Undeleted(Module):
    """The rows that vectors leave of some files, with the columns of the table. Each instance reads
    files of its own, batch by batch.
    """

    inputs = ()

    def __init__(
        self,
        schema: Any,
        files: list[tuple[str, Any, dict[str, Any]]],
        storage: Mapping[str, str] | None,
    ) -> None:
        self.schema = schema
        self.files = files
        self.storage = storage

    def schemas(self, inputs: Any) -> Any:
        """The columns of the table."""
        return [self.schema]

    def run(self, ports: Any) -> None:
        """Reads the files."""
        from pyarrow import parquet

        for address, mask, partition in self.files[ports.instance :: ports.instances]:
            with parquet.ParquetFile(self._opened(address)) as file:
                begin = 0
                for batch in file.iter_batches():
                    end = begin + batch.num_rows
                    # Rows behind the end of the vector are left.
                    kept = _kept(mask, begin, end)
                    begin = end
                    ports.put(self._completed(batch.filter(kept), partition))

    def _opened(self, address: str) -> Any:
        if "://" not in address:
            return address
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        folder, _, name = address.rpartition("/")
        handler = DeltaStorageHandler(folder, resolved(self.storage, folder))
        return fs.PyFileSystem(handler).open_input_file(name)

    def _completed(self, batch: Any, partition: dict[str, Any]) -> Any:
        import pyarrow as pa

        columns = []
        for field in self.schema:
            if field.name in partition:
                value = pa.scalar(partition[field.name])
                column = pa.repeat(value, batch.num_rows)
            elif field.name in batch.schema.names:
                column = batch.column(field.name)
            else:
                column = pa.nulls(batch.num_rows)
            columns.append(column.cast(field.type))
        return pa.record_batch(columns, schema=self.schema)


def _kept(mask: Any, begin: int, end: int) -> Any:
    import pyarrow as pa

    known = mask.slice(begin, end - begin)
    missing = end - begin - len(known)
    if missing == 0:
        return known
    return pa.concat_arrays([known, pa.repeat(pa.scalar(True), missing)])


def check_unchanged(table: Any, place: str) -> None:
    """Fails if a rewrite of the files would bring deleted rows back."""
    if vectors_of(table, place):
        raise UsageError(
            "rows are deleted by deletion vectors, which are not written",
            place=place,
            remedy="rewrite its files with the engine that deletes (REORG TABLE … APPLY (PURGE))",
        )
