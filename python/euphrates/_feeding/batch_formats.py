"""Batches in the formats of other libraries, with the names of Ray Data's methods."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py` of the package.

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Literal, TypeAlias

    import pyarrow as pa

    BatchFormat: TypeAlias = Literal["default", "numpy", "pandas", "pyarrow"]

ROWS = 256
"""The rows of a batch, unless a size is given: as in Ray Data."""
AHEAD_MAX = 3
"""Units that a consumer may ask for before it needs them: it holds one more."""


class BatchFormats:
    """The methods of queries and consumers that give batches to programs."""

    if TYPE_CHECKING:

        def _record_batches(
            self, rows: int | None, drop_last: bool, ahead: int | None
        ) -> Iterator[pa.RecordBatch]: ...

        def _row_lists(self) -> Iterator[list[dict[str, Any]]]: ...

    def iter_batches(
        self,
        *,
        batch_size: int | None = ROWS,
        batch_format: BatchFormat = "default",
        drop_last: bool = False,
        prefetch_batches: int | None = None,
    ) -> Iterator[Any]:
        """Batches of `batch_size` rows, or, with `None`, as they come: dicts of NumPy arrays
        (`"numpy"`, the default), or tables of pandas or pyarrow. Integers and truth values are
        exact beside nulls: an array of objects with `None`, and in pandas `Int64` and `boolean`.
        `drop_last` leaves out a last batch of fewer rows. `prefetch_batches` is the number that a
        consumer of a split asks for before it needs them: none on the same host, one over TCP; at
        most 3.

        >>> rows = eu.query({"n": [1, 2, 3]})
        >>> [batch["n"].tolist() for batch in rows.iter_batches(batch_size=2)]
        [[1, 2], [3]]
        >>> [len(batch) for batch in rows.iter_batches(batch_size=2, batch_format="pandas")]
        [2, 1]
        """
        _check(batch_size, prefetch_batches)
        convert = _converter(batch_format)
        return map(convert, self._record_batches(batch_size, drop_last, prefetch_batches))

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        """The rows as dicts, with the values of `to_pylist`.

        >>> for row in eu.query({"n": [1, 2]}).iter_rows():
        ...     print(row)
        {'n': 1}
        {'n': 2}
        """
        for rows in self._row_lists():
            yield from rows

    def iter_torch_batches(
        self,
        *,
        batch_size: int | None = ROWS,
        dtypes: Any = None,
        device: Any = None,
        collate_fn: Callable[[dict[str, Any]], Any] | None = None,
        drop_last: bool = False,
        prefetch_batches: int | None = None,
    ) -> Iterator[Any]:
        """Batches as dicts of tensors of PyTorch. `dtypes` is a type, or a dict of types by column;
        `device` is where the tensors go. `collate_fn` makes of a dict of NumPy arrays what it
        likes, instead. The other options are those of `iter_batches`.

        >>> rows = eu.query({"n": [1, 2, 3]})
        >>> batches = rows.iter_torch_batches(batch_size=2)  # doctest: +SKIP
        >>> [batch["n"].sum().item() for batch in batches]  # doctest: +SKIP
        [3, 3]
        """
        from .tensors import as_arrays, as_tensors, torch

        torch()
        _check(batch_size, prefetch_batches)
        batches = self._record_batches(batch_size, drop_last, prefetch_batches)
        if collate_fn is not None:
            return (collate_fn(as_arrays(batch)) for batch in batches)
        return (as_tensors(batch, dtypes, device) for batch in batches)


def _check(batch_size: int | None, prefetch_batches: int | None) -> None:
    from ..errors import UsageError

    if batch_size is not None and not (_is_whole(batch_size) and batch_size >= 1):
        error = f"batch_size is {batch_size!r}"
        raise UsageError(error, remedy="give a whole number, at least 1, or None")
    if prefetch_batches is not None and not (
        _is_whole(prefetch_batches) and 0 <= prefetch_batches <= AHEAD_MAX
    ):
        raise UsageError(
            f"prefetch_batches is {prefetch_batches!r}", remedy=f"give 0 to {AHEAD_MAX}, or None"
        )


def _is_whole(number: object) -> bool:
    """Whether it is an integer, of NumPy or of Python."""
    return hasattr(number, "__index__")


def _converter(batch_format: str) -> Callable[[pa.RecordBatch], Any]:
    from ..errors import UsageError

    if batch_format in ("default", "numpy"):
        from .tensors import as_arrays

        return as_arrays
    if batch_format == "pandas":
        from .._user_code.rows import frame_of

        return frame_of
    if batch_format == "pyarrow":
        import pyarrow as pa

        return lambda batch: pa.Table.from_batches([batch])
    known = "numpy, pandas, pyarrow"
    raise UsageError(f"there is no batch format `{batch_format}`", remedy=f"known: {known}")
