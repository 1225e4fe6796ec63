"""The methods of a flow that feed its rows to programs."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py` of the package.

if TYPE_CHECKING:
    from typing import Any

    from .split import Split


class FlowFeeding:
    """The part of a flow that feeds programs."""

    def split(self, consumers: int, **options: Any) -> Split:
        """Splits the rows of the one output that is not attached among consumers, which may be in
        other processes; the options are those of `Query.split`.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=4), eu.filter("n > 1"))
        >>> with flow.split(1) as consumers:
        ...     sum(batch.num_rows for batch in consumers[0])
        2
        """
        from .._user_code.query_tables import query

        return query(self).split(consumers, **options)
