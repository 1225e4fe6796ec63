"""Arrow's stream interface of a query: other libraries pull its rows while the flow runs."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .._euphrates import Batch, Schema


class Streamed:
    """Arrow's stream interface of a query. Any consumer of an Arrow stream accepts a query:
    pyarrow, Polars, DuckDB.
    """

    if TYPE_CHECKING:

        @property
        def schema(self) -> Schema: ...

        def batches(self, **options: Any) -> Iterator[Batch]: ...

    def __arrow_c_schema__(self) -> Any:
        """The schema as an Arrow capsule."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows as an Arrow stream. The flow starts when the first batch is taken, waits for the
        consumer, and is cancelled when the stream is dropped. Needs pyarrow.

        >>> import polars
        >>> polars.DataFrame(eu.query({"n": [1, 2]}).filter("n > 1"))["n"].to_list()
        [2]
        """
        from .batch_stream import reader

        return reader(self).__arrow_c_stream__(requested_schema)
