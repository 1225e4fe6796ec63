"""Rare Arrow layouts: their values are preserved, or rejected before the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc
import pytest

import euphrates as eu

Collected = Callable[..., eu.Table]
NUMBERS = pa.array(range(10), pa.int64())
PAIRS = pa.StructArray.from_arrays([NUMBERS, NUMBERS], ["a", "b"], mask=pa.array([False, True] * 5))


@pytest.mark.parametrize(
    "column",
    [
        pa.StructArray.from_arrays([PAIRS], ["x"]),
        pa.StructArray.from_arrays([PAIRS.slice(3, 6)], ["x"]),
        pa.FixedSizeListArray.from_arrays(PAIRS, 2),
        pa.FixedSizeListArray.from_arrays(PAIRS.slice(2, 6), 2),
        pa.StructArray.from_arrays([pa.FixedSizeListArray.from_arrays(PAIRS, 2)], ["x"]),
        pa.UnionArray.from_sparse(pa.array([0, 1] * 5, pa.int8()), [NUMBERS, PAIRS]),
    ],
    ids=lambda column: str(column.type)[:40],
)
def test_nested_struct_slices_are_imported(column: pa.Array, collected: Collected) -> None:
    for start, length in [(0, len(column)), (1, 2), (2, len(column) - 2), (len(column), 0)]:
        table = pa.table({"c": column.slice(start, length)})
        found = collected(eu.from_arrow(table)).to_pyarrow()
        found.validate(full=True)
        assert found.to_pylist() == table.to_pylist()


def unions(mode: str) -> pa.Array:
    codes = pa.array([0, 1, 0, 1, 0, 1], pa.int8())
    if mode == "sparse":
        texts = pa.array([f"text {at}" for at in range(6)])
        return pa.UnionArray.from_sparse(codes, [pa.array(range(6)), texts])
    places = pa.array([0, 0, 1, 1, 2, 2], pa.int32())
    texts = pa.array(["one", "three", "five"])
    return pa.UnionArray.from_dense(codes, places, [pa.array([0, 2, 4]), texts])


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_slices_of_union_lists_are_written_unchanged(
    mode: str, tmp_path: Path, collected: Collected
) -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3, 3, 6], pa.int32()), unions(mode))
    table = pa.table({"c": lists})
    for name in ("file", "collection"):
        path = tmp_path / "lists.arrow"
        sink = eu.save(path) if name == "file" else eu.write("lists")
        flow = eu.Flow("cut")
        flow.chain(eu.from_arrow(table, order=True), eu.limit(3, offset=1), sink)
        flow.go()
        source = eu.scan(path) if name == "file" else eu.read("lists", order=True)
        found = collected(source).to_pyarrow()
        assert found.to_pylist() == table.to_pylist()[1:], name
    assert feather.read_table(path).to_pylist() == table.to_pylist()[1:]


def runs(rows: int) -> pa.Array:
    """Values `0, 0, 1, 1, …`, with every fifth null."""
    ends = pa.array(range(2, rows + 1, 2), pa.int16())
    values = pa.array([None if at % 5 == 4 else float(at) for at in range(rows // 2)])
    return pa.RunEndEncodedArray.from_arrays(ends, values)


def test_run_end_encoding_is_decoded_at_any_depth(tmp_path: Path, collected: Collected) -> None:
    encoded = runs(20)
    columns = {
        "plain": encoded,
        "struct": pa.StructArray.from_arrays([encoded], ["x"]),
        "list": pa.ListArray.from_arrays(pa.array(range(21), pa.int32()), encoded),
    }
    table = pa.table(columns).slice(3, 15)
    path = tmp_path / "runs.arrow"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    wanted = table.to_pydict()
    for source in (eu.from_arrow(table, order=True), eu.scan(path, order=True)):
        found = collected(source).to_pyarrow()
        assert found.schema.field("plain").type == pa.float64()
        assert found.schema.field("list").type == pa.list_(pa.float64())
        assert found.to_pydict() == wanted


def test_tables_beyond_16_bit_run_ends_are_concatenated(collected: Collected) -> None:
    encoded = pa.RunEndEncodedArray.from_arrays(pa.array([300], pa.int16()), pa.array(["same"]))
    table = pa.table({"k": pa.array([1] * 300), "text": encoded})
    flow = eu.Flow("many pairs")
    join = flow.place(eu.join(["k"]))
    flow.attach(flow.place(eu.from_arrow(table)), join, input="left")
    flow.attach(flow.place(eu.from_arrow(table.select(["k"]))), join, input="right")
    flow.chain(join, eu.aggregate(["text"], values={"n": "count()"}), eu.collect())
    assert flow.go().collected().to_pylist() == [{"text": "same", "n": 90_000}]


def test_zero_size_lists_are_rejected_before_the_run(collected: Collected) -> None:
    kind = pa.list_(pa.int32(), 0)
    column = pa.Array.from_buffers(kind, 4, [None], children=[pa.array([], pa.int32())])
    with pytest.raises(eu.UsageError, match="column `c` has fixed-size lists of no values"):
        collected(eu.from_arrow(pa.table({"c": column})))


ODD = [math.nan, -math.nan, 0.0, -0.0, 1.0, -1.0, None, math.inf]


@pytest.mark.parametrize("form", ["dictionary", "struct", "list", "map"])
def test_nested_zeros_are_equal_and_nan_sorts_last(form: str, collected: Collected) -> None:
    """A tie is broken by the row number, descending."""
    numbers = pa.array(ODD)
    column = {
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array(range(8)), numbers),
        "struct": lambda: pa.StructArray.from_arrays([numbers], ["x"]),
        "list": lambda: pa.ListArray.from_arrays(pa.array(range(9), pa.int32()), numbers),
        "map": lambda: pa.MapArray.from_arrays(
            pa.array(range(9), pa.int32()), pa.array(["k"] * 8), numbers
        ),
    }[form]()
    table = pa.table({"c": column, "row": range(8)})
    found = collected(eu.from_arrow(table), eu.sort(["c", "row desc"])).to_pydict()["row"]
    assert found == [5, 3, 2, 4, 7, 1, 0, 6]


@pytest.mark.parametrize("former", [False, True], ids=["current framing", "former framing"])
def test_feather_v1_files_are_read(former: bool, tmp_path: Path, collected: Collected) -> None:
    version = pyarrow.ipc.MetadataVersion.V4
    options = pyarrow.ipc.IpcWriteOptions(metadata_version=version, use_legacy_format=former)
    table = pa.table({"n": [1, None], "text": pa.array(["a", "b"]).dictionary_encode()})
    for make in (pyarrow.ipc.new_file, pyarrow.ipc.new_stream):
        path = tmp_path / f"{make.__name__}.arrow"
        with make(path, table.schema, options=options) as sink:
            sink.write_table(table)
        assert collected(eu.scan(path)).to_pylist() == table.to_pylist()


def test_128_bit_integers_are_rejected_by_name(
    tmp_path: Path, collected: Collected, capfd: pytest.CaptureFixture[str]
) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"n": [1], "s": polars.Series([{"wide": 1}], dtype=polars.Struct({"wide": polars.Int128}))}
    )
    frame.write_parquet(tmp_path / "wide.parquet")
    frame.write_ipc(tmp_path / "wide.arrow", compat_level=None)
    frame.write_ipc_stream(tmp_path / "stream.arrow")
    sources = [eu.scan(path) for path in sorted(tmp_path.glob("wide.*"))]
    for source in [*sources, eu.scan(tmp_path / "stream.arrow"), eu.from_arrow(frame)]:
        with pytest.raises(eu.UsageError, match=r"column `(s\.)?wide` has integers of 128 bits"):
            collected(source)
    assert "panicked" not in capfd.readouterr().err
