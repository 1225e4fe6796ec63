"""Errors name the first row at fault, where it can be determined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import euphrates as eu

Run = Callable[..., eu.Table]


def raises_at(*rows: int) -> Callable[[Any], Any]:
    def function(batch: Any) -> Any:
        for n in batch.to_polars()["n"]:
            if n in rows:
                raise ValueError(f"no {n}")
        return batch

    return function


def row_of(collected: Run, *modules: Any) -> str:
    with pytest.raises(eu.FlowError) as caught:
        collected(eu.generate("integers", rows=1 << 20, order=True), *modules)
    assert caught.value.row is not None
    assert f"  row: {caught.value.row}" in str(caught.value)
    return caught.value.row


def test_first_row_that_raises_is_named(collected: Run) -> None:
    told = row_of(collected, eu.filter("n >= 7"), raises_at(300_000, 300_001, 900_000))
    assert "of its input: n = " in told and "cannot be told" not in told
    assert told.endswith("n = 300000") or told.endswith("n = 900000")


def test_rows_raising_only_together_are_not_blamed(collected: Run) -> None:
    def function(batch: Any) -> Any:
        if len(batch) > 10_000:
            raise ValueError("too many")
        return batch

    assert "it cannot be told which" in row_of(collected, function)


def test_transient_exception_names_the_batch(collected: Run) -> None:
    raised: list[int] = []

    def function(batch: Any) -> Any:
        if len(batch) and not raised:
            raised.append(1)
            raise ValueError("once")
        return batch

    assert "the first of" in row_of(collected, function)


def test_module_exception_names_its_last_batch(collected: Run) -> None:
    class Third(eu.Module):
        def run(self, ports: eu.Ports) -> None:
            for number, batch in enumerate(ports):
                if number == 2:
                    raise ValueError("the third")
                ports.put(batch)

    flow = eu.Flow()
    flow.chain(
        flow.place(eu.generate("integers", rows=1 << 20), count=1),
        flow.place(Third(), count=1),
        eu.collect(),
    )
    with pytest.raises(eu.FlowError) as caught:
        flow.go()
    assert caught.value.row is not None
    assert "batch 2 of input `in`, rows " in caught.value.row


def test_failing_expression_names_the_row(collected: Run) -> None:
    """On workers too."""
    told = row_of(collected, eu.project(["10 / (n - 300000) as q"]))
    assert told.endswith(": n = 300000")
    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=1 << 20), eu.filter("1 / (n - 9) > 0"), eu.collect())
    with pytest.raises(eu.FlowError) as caught:
        flow.go(cluster="processes:2")
    assert caught.value.row is not None and caught.value.row.endswith(": n = 9")
