"""Python functions over batches."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import euphrates as eu
import functions
from euphrates._user_code.mapped import prepared, with_exact_numbers

Run = Callable[..., eu.Table]


def numbers(rows: int = 10, **options: Any) -> eu.modules.ModuleCall:
    return eu.generate("integers", rows=rows, order=True, **options)


@pytest.mark.parametrize(
    "function",
    [
        functions.doubled,
        "functions:doubled",
        lambda batch: pl.DataFrame(batch).select(pl.col("n") * 2),
        lambda batch: batch.to_polars().select(pl.col("n") * 2),
        lambda batch: batch.to_pandas() * 2,
        lambda batch: pa.Table.from_batches([functions.doubled(batch)]),
        lambda batch: functions.duckdb_doubled(batch),
    ],
    ids=["function", "path", "polars", "to_polars", "pandas", "table", "duckdb"],
)
def test_functions_may_return_any_arrow_object(function: Any, collected: Run) -> None:
    assert collected(numbers(), eu.map(function)).to_pydict()["n"] == list(range(0, 20, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: {"n": [2 * n for n in batch.to_pydict()["n"]]},
        lambda batch: {"n": np.asarray(batch.to_pydict()["n"], dtype="int64") * 2},
        lambda batch: [{"n": 2 * row["n"]} for row in batch.to_pylist()],
    ],
    ids=["lists", "arrays", "dicts"],
)
def test_functions_may_return_values_of_python(function: Any, collected: Run) -> None:
    mapped = eu.map(function, schema={"n": "int64"})
    assert collected(numbers(), mapped).to_pydict()["n"] == list(range(0, 20, 2))


def test_frames_of_polars_may_have_nothing_but_nulls(collected: Run) -> None:
    def nulls(batch: eu.Batch) -> pl.DataFrame:
        return batch.to_polars().with_columns(none=pl.lit(None))

    assert collected(numbers(rows=2), eu.map(nulls)).to_pydict() == {
        "n": [0, 1],
        "none": [None] * 2,
    }


def test_importable_function_is_saved_by_reference() -> None:
    flow = eu.Flow()
    flow.chain(numbers(), functions.doubled, eu.collect())
    config = json.loads(flow.to_json())["modules"][1]["config"]
    assert config == {"function": "functions:doubled"}
    again = eu.Flow.from_json(flow.to_json())
    assert again.go().collected().to_pydict()["n"][-1] == 18


def test_arguments_are_passed_to_every_call(collected: Run) -> None:
    call = eu.map(functions.doubled, arguments={"factor": 3})
    assert collected(numbers(), call).to_pydict()["n"][-1] == 27


def test_none_sends_nothing_and_order_is_kept(collected: Run) -> None:
    def sometimes(batch: eu.Batch) -> eu.Batch | None:
        if len(batch) and batch.to_pydict()["n"][0] % 131072 == 0:
            return None
        return batch.slice(0, 2)

    rows = collected(numbers(1_000_000), eu.map(sometimes, schema={"n": "int64 not null"}))
    kept = rows.to_pydict()["n"]
    assert kept == sorted(kept)
    assert 0 not in kept
    assert 65536 in kept


def test_function_may_return_more_rows(collected: Run) -> None:
    def often(batch: eu.Batch) -> pa.Table:
        return pa.Table.from_batches([batch.to_pyarrow()] * 100)

    assert len(collected(numbers(50_000), eu.map(often))) == 5_000_000


def test_instances_run_in_separate_threads(collected: Run) -> None:
    local = threading.local()
    meeting = threading.Barrier(2, timeout=20)

    def meet(batch: eu.Batch) -> eu.Batch:
        if len(batch) and not hasattr(local, "met"):
            local.met = True
            meeting.wait()
        return batch

    flow = eu.Flow()
    source = flow.place(eu.generate("integers", rows=2_000_000), count=1)
    mapped = flow.place(eu.map(meet), count=2)
    flow.attach(source, mapped)
    flow.attach(mapped, flow.place(eu.collect()))
    assert len(flow.go().collected()) == 2_000_000


def test_exception_has_place_and_traceback(collected: Run) -> None:
    with pytest.raises(eu.FlowError) as caught:
        collected(numbers(), functions.raising)
    text = str(caught.value)
    assert "module map_1" in text
    assert "rows 0 to 9" in text
    assert "ValueError: seven is right out" in text
    assert 'functions.py", line' in text
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda batch: batch if len(batch) == 0 else 3, "the function returned int"),
        (lambda batch: batch if len(batch) == 0 else [1], "the function returned list"),
        (lambda b: b if len(b) == 0 else pa.table({"m": [1]}), "returned the columns m: Int64"),
        (lambda b: b if len(b) == 0 else pa.table({"n": [1.5]}), "promised were n: Int64"),
        (lambda b: b if len(b) == 0 else pa.table({"n": pa.array([None], pa.int64())}), "null"),
        (lambda b: b if len(b) == 0 else pa.chunked_array([[1]]), "is not a table"),
    ],
    ids=["type", "list", "name", "kind", "null", "column"],
)
def test_invalid_return_values_are_rejected(function: Any, says: str, collected: Run) -> None:
    with pytest.raises(eu.EuphratesError, match=says) as caught:
        collected(numbers(), eu.map(function))
    assert "module map_1" in str(caught.value)
    assert "rows 0 to 9" in str(caught.value)


def test_columns_are_checked_before_the_run() -> None:
    flow = eu.Flow()
    flow.chain(numbers(), eu.map(lambda batch: 3), eu.collect())
    with pytest.raises(eu.UsageError, match="with an empty batch"):
        flow.check()
    flow = eu.Flow()
    flow.chain(numbers(), eu.map(lambda batch: None), eu.collect())
    with pytest.raises(eu.UsageError, match="returned None for an empty batch"):
        flow.check()
    flow = eu.Flow()
    flow.chain(numbers(), eu.map(functions.doubled, schema={"n": "int46"}), eu.collect())
    with pytest.raises(eu.UsageError, match="no type is called `int46`"):
        flow.check()


def test_exception_during_check_is_the_cause() -> None:
    flow = eu.Flow()
    flow.chain(numbers(), eu.map(lambda batch: 1 // len(batch)), eu.collect())
    with pytest.raises(eu.UsageError, match="empty batch") as caught:
        flow.check()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_any_arrow_text_type_is_accepted(collected: Run) -> None:
    call = eu.map(lambda batch: pl.DataFrame({"s": ["x"]}), schema=pa.schema({"s": pa.string()}))
    rows = collected(numbers(), call)
    assert rows.to_pyarrow().schema.field("s").type == pa.string()
    call = eu.map(lambda batch: pd.DataFrame({"s": [None]}), schema={"s": "string"})
    assert collected(numbers(), call).to_pydict() == {"s": [None]}


SCHEMA = eu.schema({"n": "int64", "small": "UInt8 not null", "x": "float64"})


def answered(frame: Any) -> Any:
    """What an instance makes of a frame, of whose function the schema is known."""
    return with_exact_numbers(lambda batch: frame, SCHEMA)(None)


def test_frames_have_integers_where_the_schema_has_them() -> None:
    frame = pd.DataFrame({"n": [1, None], "small": [255.0, 0.0], "x": [1.0, None]})
    made = answered(frame)
    assert made["n"].tolist() == [1, pd.NA] and made["x"].dtype == "float64"
    assert pa.table(made).schema.types == [pa.int64(), pa.uint8(), pa.float64()]
    assert str(frame.dtypes["n"]) == "float64"
    exact = pd.DataFrame({"n": pd.array([2**53 + 1, None], "Int64")})
    assert answered(exact) is exact


def test_frames_have_floating_point_numbers_where_the_schema_has_them() -> None:
    made = answered(pd.DataFrame({"x": [1, -(2**53)]}))
    assert pa.table(made).schema.types == [pa.float64()] and made["x"].tolist() == [1, -(2**53)]
    made = answered(pd.DataFrame({"x": pd.array([1, None], "UInt8")}))
    assert made["x"].tolist() == [1.0, pd.NA]


@pytest.mark.parametrize(
    ("column", "values", "says", "remedy"),
    [
        (
            "n",
            [1, None, 0.5],
            "row 2 of the frame: column `n` is 0.5, which is no Int64",
            "float64",
        ),
        ("n", [None, 2.0**53], "row 1 .* is 9007199254740992.0: floating", '{"n": "Int64"}'),
        ("n", [None, float("inf")], "row 1 .* is inf, which is no Int64", "float64"),
        ("small", [255.0, 256.0], "row 1 .* is 256.0, beyond UInt8", "schema="),
        ("small", [-1.0], "row 0 .* is -1.0, beyond UInt8", "schema="),
        ("x", pd.array([None, 2**53 + 1], "Int64"), "row 1 .* is 9007199254740993,", "int64"),
        ("x", [1, 2**53 + 1], "row 1 .* is 9007199254740993, which a Float64 would", "int64"),
    ],
)
def test_numbers_of_a_frame_that_are_no_exact_integers_are_named(
    column: str, values: list[float], says: str, remedy: str
) -> None:
    with pytest.raises(eu.FlowError, match=says) as caught:
        answered(pd.DataFrame({column: values}))
    assert remedy in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("kind", "bits"), [("float16", 11), ("float32", 24), ("Float32", 24), ("Float64", 53)]
)
def test_floats_are_exact_below_the_size_of_their_fraction(kind: str, bits: int) -> None:
    frame = pd.DataFrame({"n": pd.Series([2**bits - 1], dtype=kind)})
    assert answered(frame)["n"].tolist() == [2**bits - 1]
    with pytest.raises(eu.FlowError, match="skip integers"):
        answered(frame + 1)


def test_each_of_several_results_gets_its_integers() -> None:
    def halves(batch: pa.RecordBatch) -> Any:
        yield pd.DataFrame({"n": [1, None]})
        yield pa.table({"n": [2]})

    first, second = with_exact_numbers(prepared(halves), SCHEMA)(pa.record_batch({"n": [1]}))
    assert first["n"].tolist() == [1, pd.NA] and second.num_rows == 1


def test_frames_with_nulls_among_integers_need_exact_types(collected: Run) -> None:
    def exact(batch: eu.Batch) -> pd.DataFrame:
        return pd.DataFrame({"n": pd.array([2**53 + 1, None], "Int64")})

    rows = collected(numbers(1), eu.map(exact))
    assert rows.to_pydict() == {"n": [2**53 + 1, None]}


BIG = 2**53 + 1
"""An integer that a floating point number of 64 bits does not hold."""


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: batch.to_pandas(),
        lambda batch: batch.to_pandas().assign(n=lambda frame: frame.n * 2 - frame.n),
        lambda batch: pd.DataFrame({"n": pd.array(batch.to_pydict()["n"], "Int64")}),
    ],
)
@pytest.mark.parametrize("options", [{}, {"schema": {"n": "int64"}}, {"rows_per_call": 1}])
def test_frames_of_integers_with_nulls_are_exact(
    function: Any, options: Any, collected: Run
) -> None:
    rows = {"n": [BIG, None, 3]}
    assert collected(eu.from_arrow(rows), eu.map(function, **options)).to_pydict() == rows


def test_floats_of_a_frame_are_the_integers_of_the_schema(collected: Run) -> None:
    def rounded(batch: eu.Batch) -> pd.DataFrame:
        return pd.DataFrame({"n": batch.to_pydict()["n"]})

    mapped = eu.map(rounded, schema={"n": "int64"})
    rows = {"n": [1, None, 3]}
    assert collected(eu.from_arrow(rows), mapped).to_pydict() == rows
    with pytest.raises(eu.FlowError, match=r"row 1 of the frame(.|\n)*skip integers") as caught:
        collected(eu.from_arrow({"n": [1, BIG, None]}), mapped)
    assert caught.value.row is not None


def test_floats_of_a_frame_stay_floats_where_the_schema_has_floats(collected: Run) -> None:
    mapped = eu.map(lambda batch: pd.DataFrame({"n": [1.0, None]}), schema={"n": "float64"})
    rows = collected(numbers(1), mapped)
    assert (rows.to_pydict(), rows.schema.types) == ({"n": [1.0, None]}, ["Float64"])


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("functions", "package.module:name"),
        ("no_such_module:f", "cannot import `no_such_module`"),
        ("functions:no_such", "`functions` has no `no_such`"),
        ({"$live": 10**9}, "another process"),
    ],
)
def test_unresolvable_references_are_rejected(reference: Any, says: str, collected: Run) -> None:
    with pytest.raises(eu.UsageError, match=says):
        collected(numbers(), eu.map(reference))
