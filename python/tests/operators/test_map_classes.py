"""The module `map`: classes, calls by parts, async functions, generators, rows that fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import euphrates as eu

NUMBERS = {"n": list(range(1000))}


class Model:
    """Counts how often it is constructed."""

    made: list[int] = []  # noqa: RUF012

    def __init__(self, factor: int, *, offset: int = 0) -> None:
        Model.made.append(threading.get_ident())
        self.factor, self.offset = factor, offset

    def __call__(self, batch: eu.Batch) -> Any:
        return batch.to_polars() * self.factor + self.offset


def numbers(*modules: Any, **options: Any) -> list[int]:
    return sorted(eu.query(NUMBERS).then(*modules).collect(**options).to_pydict()["n"])


def test_a_class_is_constructed_once_for_each_instance() -> None:
    Model.made.clear()
    model = eu.map(Model, args=[2], kwargs={"offset": 1}, schema={"n": "int64"}, rows_per_call=10)
    assert numbers(model, cores=1) == [2 * n + 1 for n in range(1000)]
    assert len(Model.made) == 1


def test_a_class_runs_in_the_processes_of_a_cluster() -> None:
    with eu.Cluster.processes(2) as cluster:
        model = eu.map(Model, args=[2], schema={"n": "int64"})
        assert numbers(model, cluster=cluster) == [2 * n for n in range(1000)]


def test_calls_get_no_more_rows_than_asked_for() -> None:
    sizes: list[int] = []

    def count(batch: eu.Batch) -> eu.Batch:
        sizes.append(batch.num_rows)
        return batch

    numbers(eu.map(count, rows_per_call=64, schema={"n": "int64"}))
    assert max(sizes) == 64
    assert sum(sizes) == 1000


def test_awaited_calls_of_a_batch_overlap_within_the_limit() -> None:
    running: list[int] = [0, 0]

    async def slow(batch: eu.Batch) -> eu.Batch:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0.001)
        running[0] -= 1
        return batch

    module = eu.map(slow, rows_per_call=10, concurrency=8, schema={"n": "int64"})
    assert numbers(module, cores=1) == NUMBERS["n"]
    assert running[1] == 8


def test_a_generator_returns_several_results() -> None:
    def halves(batch: eu.Batch) -> Iterator[eu.Batch]:
        middle = batch.num_rows // 2
        yield batch.slice(0, middle)
        yield batch.slice(middle, batch.num_rows - middle)

    assert numbers(eu.map(halves)) == NUMBERS["n"]


def odd_fails(batch: eu.Batch) -> eu.Batch:
    if any(n % 100 == 7 for n in pa.record_batch(batch).column("n").to_pylist()):
        raise ValueError("a seven")
    return batch


def every_20000th_fails(batch: eu.Batch) -> eu.Batch:
    if (batch.to_polars()["n"] % 20_000 == 0).any():
        raise ValueError("a multiple")
    return batch


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_that_fail_are_left_out_and_written(tmp_path: Path, workers: int) -> None:
    rejects = str(tmp_path / "rejects.parquet")
    module = eu.map(odd_fails, on_error="skip", rejects=rejects)
    if workers:
        with eu.Cluster.processes(workers) as cluster:
            kept = numbers(module, cluster=cluster)
    else:
        kept = numbers(module)
    assert kept == [n for n in range(1000) if n % 100 != 7]
    read = eu.query(rejects).sort("n").to_pydict()
    assert read["n"] == list(range(7, 1000, 100))
    assert all("a seven" in reason for reason in read["reason"])


def misfits(batch: eu.Batch) -> list[int]:
    """The rows of a batch whose results have other columns."""
    return [n for n in batch.to_pydict()["n"] if n % 100 == 7]


RESULTS_THAT_DO_NOT_FIT = {
    "a dict of another type": lambda batch: {"n": ["seven"]},
    "rows of other columns": lambda batch: [{"m": 7}],
    "a batch of fewer columns": lambda batch: batch.select([]),
    "a pyarrow table": lambda batch: pa.table({"n": ["seven"]}),
    "a pyarrow batch": lambda batch: pa.record_batch({"n": pa.array([7.0])}),
    "a Polars frame": lambda batch: pl.DataFrame({"n": ["seven"]}),
    "a pandas frame": lambda batch: pd.DataFrame({"m": [7]}),
    "a null": lambda batch: pa.table({"n": pa.array([None], pa.int64())}),
    "no table": lambda batch: 7,
}


@pytest.mark.parametrize("misfit", RESULTS_THAT_DO_NOT_FIT)
@pytest.mark.parametrize("rows_per_call", [None, 50])
def test_rows_whose_results_do_not_fit_the_schema_are_left_out_and_written(
    misfit: str, rows_per_call: int | None, tmp_path: Path
) -> None:
    def function(batch: eu.Batch) -> Any:
        return RESULTS_THAT_DO_NOT_FIT[misfit](batch) if misfits(batch) else batch

    rejects = str(tmp_path / "rejects.parquet")
    schema = pa.schema([pa.field("n", pa.int64(), nullable=misfit != "a null")])
    options = {"schema": schema, "on_error": "skip", "rejects": rejects}
    module = eu.map(function, rows_per_call=rows_per_call, **options)
    assert numbers(module) == [n for n in range(1000) if n % 100 != 7]
    read = eu.query(rejects).sort("n").to_pydict()
    assert read["n"] == list(range(7, 1000, 100))
    assert all(read["reason"])


def test_results_that_fit_in_another_representation_are_taken() -> None:
    words = eu.query({"word": ["Ur", "Kish"]})
    for representation in (pa.large_utf8(), pa.utf8(), pa.string_view()):
        large = eu.map(
            lambda batch, to=representation: pa.table(batch).cast(pa.schema({"word": to})),
            schema={"word": "string"},
            on_error="skip",
        )
        assert sorted(words.then(large).to_pydict()["word"]) == ["Kish", "Ur"]
    nested = eu.map(lambda batch: pl.DataFrame({"l": [[1, 2]]}), schema={"l": pl.List(pl.Int64)})
    assert words.then(nested).to_pydict() == {"l": [[1, 2]]}
    nulls = eu.map(lambda batch: pa.table({"n": pa.nulls(2)}), schema={"n": "int64"})
    assert words.then(nulls).to_pydict() == {"n": [None, None]}
    stream = eu.map(lambda batch: pa.table(batch).to_reader(), schema={"word": "string"})
    assert words.then(stream).collect().num_rows == 2


def test_the_row_whose_result_does_not_fit_is_named() -> None:
    def function(batch: eu.Batch) -> Any:
        return {"n": ["seven"]} if 7 in batch.to_pydict()["n"] else batch

    with pytest.raises(eu.FlowError, match="promised were n: Int64") as error:
        numbers(eu.map(function, schema={"n": "int64"}))
    assert error.value.row is not None and error.value.row.endswith("n = 7")
    assert "schema=…" in str(error.value.remedy)


def test_more_failures_than_allowed_end_the_flow(tmp_path: Path) -> None:
    rejects = str(tmp_path / "rejects.parquet")
    with pytest.raises(eu.FlowError, match="a seven"):
        numbers(eu.map(odd_fails, on_error="skip", errors_max=3, rejects=rejects))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", [0, 2])
def test_failures_are_counted_over_all_instances(tmp_path: Path, workers: int) -> None:
    # 20 rows fail, in batches of several instances.
    rows = eu.query(eu.generate("integers", rows=400_000))

    def run(most: int, **options: Any) -> int:
        module = eu.map(every_20000th_fails, on_error="skip", errors_max=most)
        return rows.then(module).group_by().agg(c="count()").to_pydict(**options)["c"][0]

    def check(**options: Any) -> None:
        assert run(20, **options) == 400_000 - 20
        with pytest.raises(eu.FlowError, match="more than 19 errors"):
            run(19, **options)

    if workers:
        with eu.Cluster.processes(workers) as cluster:
            check(cluster=cluster)
    else:
        check()


def test_options_that_do_not_fit_are_usage_errors() -> None:
    with pytest.raises(eu.UsageError, match="no class"):
        numbers(eu.map(odd_fails, args=[1]))
    with pytest.raises(eu.UsageError, match="not async"):
        numbers(eu.map(odd_fails, concurrency=2))
    with pytest.raises(eu.UsageError, match="on_error"):
        numbers(eu.map(odd_fails, rejects="r.parquet"))
    with pytest.raises(eu.UsageError, match="is 0"):
        numbers(eu.map(odd_fails, rows_per_call=0))
