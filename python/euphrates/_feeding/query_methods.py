"""The methods of a query that feed its rows to programs: batches, consumers, a shuffled order."""

from __future__ import annotations

from .batch_formats import BatchFormats

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py` of the package.

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    import pyarrow as pa

    from .._euphrates import Batch, Schema, Table
    from ..queries import Query
    from ..report import Report
    from .split import Split


class FeedingMethods(BatchFormats):
    """The part of a query that feeds programs."""

    _last_report: Report | None = None

    if TYPE_CHECKING:

        @property
        def schema(self) -> Schema: ...

        def collect(self, **options: Any) -> Table: ...

        def _complete(self, sink: Any) -> Any: ...

    def split(
        self,
        consumers: int,
        *,
        equal: bool = False,
        batch_size: int | None = None,
        listen: str | None = None,
        timeout: float = 60.0,
        resumable: bool = False,
        resume: bool = False,
        state: Any = None,
        shuffle_seed: int | None = None,
        shuffle_by: str | Sequence[str] = (),
        **options: Any,
    ) -> Split:
        """Splits the rows among consumers, which may be in other processes. Each takes a batch when
        it is free, so a slow one takes fewer and delays nobody. The flow runs in this process while
        they take batches, and again for each epoch.

        With `equal`, all consumers get the same number of batches, for synchronous training.
        `batch_size` cuts the rows into batches of this many; by default they come as the flow makes
        them. `listen` is an address for consumers on other hosts: `"10.0.0.1:7000"`. `timeout`
        limits in seconds how long consumers wait for others that have not connected, or not begun
        the next epoch. `resumable` adds what `state_dict` of the consumers needs; `state` is one
        of their states or a list, and `resume` lets the consumers load them. With `shuffle_seed`,
        each epoch has another order: that of `shuffle(shuffle_seed + epoch, by=shuffle_by)`. The
        other options are those of `Flow.start`.

        >>> a, b = eu.query(eu.generate("integers", rows=6)).split(2, equal=True, batch_size=2)
        >>> [batch.num_rows for batch in a], [batch.num_rows for batch in b]
        ([2], [2])
        """
        from .._user_code.batch_stream import needs_pyarrow

        needs_pyarrow("a split")
        from .split import split

        return split(
            self,  # type: ignore[arg-type]
            consumers,
            equal=equal,
            batch_size=batch_size,
            listen=listen,
            timeout=timeout,
            resumable=resumable,
            resume=resume,
            state=state,
            shuffle_seed=shuffle_seed,
            shuffle_by=[shuffle_by] if isinstance(shuffle_by, str) else list(shuffle_by),
            options=options,
        )

    def shuffle(self, seed: int, *, by: str | Sequence[str] = ()) -> Query:
        """The rows in a random order, the same for the same rows and seed, however many workers and
        files there are. It is a sort, so it spills to scratch what does not fit. `by` are columns
        that distinguish all rows, if there are some: without them, equal rows are numbered first,
        which moves the rows once more.

        >>> rows = eu.query(eu.generate("integers", rows=8))
        >>> rows.shuffle(seed=1).to_pydict() == rows.shuffle(seed=1).to_pydict()
        True
        >>> sorted(rows.shuffle(seed=2, by="n").to_pydict()["n"])
        [0, 1, 2, 3, 4, 5, 6, 7]
        """
        from .._user_code.batch_stream import needs_pyarrow

        needs_pyarrow("a shuffle")
        from .row_hashes import shuffled

        columns = [by] if isinstance(by, str) else list(by)
        return shuffled(self, seed, columns)  # type: ignore[arg-type]

    def materialize(self, **options: Any) -> Query:
        """Runs the flow, and returns a query of its rows, which are kept in memory. The options are
        those of `Flow.go`.

        >>> kept = eu.query({"n": [1, 2]}).filter("n > 1").materialize()
        >>> kept.flow
        <flow 'query': from_arrow_1>
        """
        from .._user_code.query_tables import query
        from ..modules import ModuleCall

        report = self._complete(ModuleCall("collect", {})).go(**options)
        kept = query(report.collected())
        kept._last_report = report
        return kept

    def stats(self) -> str:
        """The report of the flow that has made these rows, as text: of `materialize`, or of the
        last loop over the query that took all rows.

        >>> kept = eu.query({"n": [1, 2]}).filter("n > 1").materialize()
        >>> print(kept.stats())
        flow `query` finished in ...
        """
        if self._last_report is None:
            from ..errors import UsageError

            raise UsageError(
                "the query has not run", remedy="take its rows: .materialize(), .iter_batches()"
            )
        return str(self._last_report)

    def _record_batches(
        self, rows: int | None, drop_last: bool, ahead: int | None
    ) -> Iterator[pa.RecordBatch]:
        from .._user_code.batch_stream import needs_pyarrow

        needs_pyarrow("a batch in this format")
        import pyarrow as pa

        from .units import sliced

        batches = (pa.record_batch(batch) for batch in self._batches())
        for batch in batches if rows is None else sliced(batches, rows):
            if rows is None or not drop_last or batch.num_rows == rows:
                yield batch

    def _row_lists(self) -> Iterator[list[dict[str, Any]]]:
        return (batch.to_pylist() for batch in self._batches())

    def _batches(self) -> Iterator[Batch]:
        """The batches of a run; its report is kept if all have been taken."""
        from .._user_code.batch_stream import BatchStream

        stream = BatchStream(self._complete, {})
        try:
            yield from stream
            self._last_report = stream.report
        finally:
            stream.close()
