"""A consumer that has enough, and an exception that looks like one, end nothing else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu

ROWS = 1_000_000


def test_divide_goes_on_for_outputs_that_still_have_a_consumer() -> None:
    records = eu.generate("records", rows=ROWS)
    flow = eu.Flow("halves")
    divided = flow.chain(records, eu.divide("key"))
    first = flow.chain(divided, eu.limit(5), eu.collect())
    rest = flow.chain(divided, eu.count(), eu.collect())
    report = flow.go(progress=False)
    assert report.collected(first).num_rows == 5
    assert report.collected(rest).to_pydict()["count"][0] > ROWS * 0.49


@pytest.mark.parametrize("kind", ["closed", "interrupted", "usage"])
def test_exception_of_a_library_with_a_kind_of_its_own_is_a_failure(kind: str) -> None:
    class LibraryError(Exception):
        def __init__(self) -> None:
            super().__init__("the library failed")
            self.kind = kind

    def fail(batch: Any) -> Any:
        if not batch.num_rows:
            return batch
        raise LibraryError

    flow = eu.Flow("failing")
    flow.chain(eu.from_arrow(pa.table({"n": range(100)})), eu.map(fail), eu.count(), eu.collect())
    with pytest.raises(eu.FlowError, match="the library failed"):
        flow.go(progress=False)
