"""Parquet files written by Euphrates and by others."""

from __future__ import annotations

import datetime as dt
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpora
import euphrates as eu

ROWS = 30_000


def nested() -> pa.Table:
    """Columns with several entries per row, of several pages each."""
    numbers = range(ROWS)
    lists = pa.array([None if n % 97 == 0 else [n] * (n % 4) for n in numbers])
    maps = pa.array(
        [[(f"k{n % 50}", n)] * (n % 3) for n in numbers], pa.map_(pa.string(), pa.int64())
    )
    structs = pa.array([{"a": [n, n + 1], "b": [{"c": [f"{n}"]}]} for n in numbers])
    deep = pa.array([[[n], [], None, [n, None]] for n in numbers])
    return pa.table({"l": lists, "m": maps, "s": structs, "d": deep, "n": list(numbers)})


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "gzip", "brotli", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_nested_columns_of_several_pages_are_read(
    tmp_path: Path, version: str, compression: str, use_dictionary: bool
) -> None:
    rows, path = nested(), tmp_path / "rows.parquet"
    pq.write_table(
        rows,
        path,
        data_page_version=version,
        compression=compression,
        use_dictionary=use_dictionary,
        data_page_size=4096,
        write_batch_size=64,
    )
    assert corpora.difference(corpora.read(path), rows) is None
    one = corpora.read(path, columns=["d"])
    assert one["d"].equals(corpora.read(path)["d"])


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_nested_columns_are_readable_by_other_readers(tmp_path: Path, compression: str) -> None:
    rows, path = nested(), tmp_path / "rows.parquet"
    # Enough for several pages of a megabyte.
    rows = pa.concat_tables([rows] * 10)
    flow = eu.Flow("save")
    flow.chain(
        eu.from_arrow(rows, order=True), eu.save(str(path), overwrite=True, compression=compression)
    )
    flow.go(cores=2)
    assert corpora.read(path).equals(pq.read_table(path))
    assert corpora.read(path)["d"].to_pylist() == rows["d"].to_pylist()
    assert corpora.read(path)["m"].to_pylist() == rows["m"].to_pylist()


DAY = 86_400_000
TIMES = [
    (pa.timestamp("s"), [0, -1, None, 253402300799], pa.timestamp("ms"), "TIMESTAMP"),
    (
        pa.timestamp("s", "Europe/Berlin"),
        [0, 1700000000, None],
        pa.timestamp("ms", "Europe/Berlin"),
        "TIMESTAMP WITH TIME ZONE",
    ),
    (pa.time32("s"), [0, 86399, None], pa.time32("ms"), "TIME"),
    (pa.date64(), [0, -DAY, None, 19000 * DAY], pa.date32(), "DATE"),
]


def wrapped(values: pa.Array) -> dict[str, pa.Array]:
    """Values as a column, and inside nested types."""
    lists = pa.ListArray.from_arrays(list(range(len(values) + 1)), values)
    keys = pa.array([f"{n}" for n in range(len(values))])
    ends = list(range(len(values) + 1))
    codes = pa.array(range(len(values)), pa.int8())
    return {
        "plain": values,
        "lists": lists,
        "structs": pa.StructArray.from_arrays([values, lists], ["v", "l"]),
        "maps": pa.MapArray.from_arrays(ends, keys, values),
        "dictionary": pa.DictionaryArray.from_arrays(codes, values),
    }


@pytest.mark.parametrize(("kind", "values", "stored", "by_duckdb"), TIMES, ids=str)
def test_seconds_and_date64_are_stored_as_times_and_dates(
    tmp_path: Path, kind: Any, values: list[int | None], stored: Any, by_duckdb: str
) -> None:
    path = tmp_path / "times.parquet"
    integers = pa.array(values, pa.int32() if kind == pa.time32("s") else pa.int64())
    rows = pa.table(wrapped(integers.cast(kind)))
    corpora.save(rows, path)
    read = pq.read_table(path)
    assert read["plain"].type == stored
    assert read["lists"].type.value_type == stored
    assert read["structs"].type["v"].type == stored
    assert read["maps"].type.item_type == stored
    assert corpora.difference(read, rows) is None
    assert corpora.difference(corpora.read(path), rows) is None
    types = dict(zip(read.column_names, duckdb.read_parquet(str(path)).types, strict=True))
    assert str(types["plain"]) == by_duckdb
    assert str(types["lists"]) == f"{by_duckdb}[]"


def test_value_beyond_the_stored_type_names_the_column(tmp_path: Path) -> None:
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("s"))
    noon = pa.array([DAY // 2], pa.int64()).view(pa.date64())
    for name, values in (("far", far), ("noon", noon)):
        with pytest.raises(eu.FlowError, match=f"column `{name}`"):
            corpora.save(pa.table({name: values}), tmp_path / "no.parquet")
        assert not (tmp_path / "no.parquet").exists()


OTHERS = {
    "duration": pa.array([1, None, -5], pa.duration("us")),
    "duration_s": pa.array([1, None, -5], pa.duration("s")),
    "decimal32": pa.array([Decimal("1.5"), None], pa.decimal32(5, 2)),
    "decimal32_1": pa.array([Decimal("0.5"), None], pa.decimal32(1, 1)),
    "decimal64": pa.array([Decimal("1.5"), None], pa.decimal64(15, 2)),
    "decimal128": pa.array([Decimal("1.5"), None], pa.decimal128(38, 2)),
    "decimal128_5": pa.array([Decimal("-1.5"), None], pa.decimal128(5, 2)),
    "decimal256": pa.array([Decimal("1.5"), None], pa.decimal256(76, 2)),
    "decimal256_5": pa.array([Decimal("-1.5"), None], pa.decimal256(5, 2)),
    "float16": pa.array(np.array([1.5, -2], np.float16)),
    "null": pa.nulls(3),
    "bool": pa.array([True, None, False]),
    "uint64": pa.array([2**64 - 1, None], pa.uint64()),
    "uint8": pa.array([255, None], pa.uint8()),
    "time64": pa.array([1, None], pa.time64("ns")),
    "timestamp_ns": pa.array([1, None], pa.timestamp("ns")),
    "string_view": pa.array(["a", None, "long enough to be elsewhere"], pa.string_view()),
    "binary_view": pa.array([b"a", None, b"long enough to be elsewhere"], pa.binary_view()),
    "large_string": pa.array(["a", None], pa.large_string()),
    "fixed_binary": pa.array([b"abc", None], pa.binary(3)),
    "fixed_list": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
    "large_list": pa.array([[1, 2], None, []], pa.large_list(pa.int32())),
    "list_view": pa.array([[1, 2], None, []], pa.list_view(pa.int32())),
    "large_list_view": pa.array([[1, 2], None, []], pa.large_list_view(pa.int32())),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "dictionary_of_numbers": pa.array([1, None, 1]).dictionary_encode(),
    "dictionary_of_decimals": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 0], pa.int8()), pa.array([Decimal("1.5")])
    ),
    "dictionary_of_structs": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 0], pa.int8()), pa.array([{"a": 1}])
    ),
    "list_of_dictionary": pa.ListArray.from_arrays(
        [0, 2, 3], pa.array(["a", None, "a"]).dictionary_encode()
    ),
    "run_end_encoded": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", None])),
    "list_of_runs": pa.ListArray.from_arrays(
        [0, 2, 3], pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([1, 2]))
    ),
    "struct_of_null": pa.StructArray.from_arrays([pa.nulls(2)], ["n"]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_types_are_readable_by_pyarrow(tmp_path: Path, name: str) -> None:
    rows, path = pa.table({name: OTHERS[name]}), tmp_path / "other.parquet"
    corpora.save(rows, path)
    for read in (pq.read_table(path), corpora.read(path)):
        assert _values(read) == _values(rows), read.schema


def _values(rows: pa.Table) -> list[Any]:
    values = rows.column(0).to_pylist()
    return [value.total_seconds() if isinstance(value, dt.timedelta) else value for value in values]


UNFIT = {
    "union": pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
    ),
    "dense_union": pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()),
        pa.array([0, 0], pa.int32()),
        [pa.array([1]), pa.array(["a"])],
    ),
    "month_day_nano": pa.array([pa.MonthDayNano([1, 2, 3])]),
    "empty_struct": pa.array([{}], pa.struct([])),
    "negative_scale": pa.array([Decimal("1200")], pa.decimal128(5, -2)),
    "no_bytes": pa.array([b""], pa.binary(0)),
    "no_elements": pa.array([[]], pa.list_(pa.int8(), 0)),
}


@pytest.mark.parametrize("name", UNFIT)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_types_without_parquet_form_are_rejected_before_the_run(
    tmp_path: Path, name: str, compression: str
) -> None:
    inner = UNFIT[name]
    inside = pa.StructArray.from_arrays([inner], ["x"])
    lists = pa.ListArray.from_arrays([0, len(inner)], inner)
    for column in (inner, inside, lists):
        flow = eu.Flow("save")
        save = eu.save(str(tmp_path / "no.parquet"), compression=compression)
        flow.chain(eu.from_arrow(pa.table({"the column": column})), save)
        with pytest.raises(eu.UsageError, match="the column"):
            flow.check()


@pytest.mark.parametrize("footer", ["encrypted", "plain"])
def test_encrypted_parquet_is_named(tmp_path: Path, footer: str) -> None:
    import pyarrow.parquet.encryption as pe

    class Kms(pe.KmsClient):
        def wrap_key(self, key_bytes: bytes, _: str) -> str:
            return key_bytes.hex()

        def unwrap_key(self, wrapped_key: str, _: str) -> bytes:
            return bytes.fromhex(wrapped_key)

    path = tmp_path / "secret.parquet"
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    config = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=footer == "plain"
    )
    factory = pe.CryptoFactory(lambda _: Kms())
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    with pq.ParquetWriter(path, rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
    with pytest.raises(eu.UsageError, match="encrypted"):
        corpora.read(path)


def zeros(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, np.int64))


MILLION = 1_000_000

ONE_PAGE = {
    "data_page_size": 1 << 30,
    "write_batch_size": 1 << 30,
    "max_rows_per_page": 1 << 30,
    "row_group_size": 1 << 30,
    "use_dictionary": False,
}


def one_page(rows: int, compression: str) -> tuple[pa.Table, dict[str, Any]]:
    return pa.table({"a": zeros(rows)}), {"compression": compression, **ONE_PAGE}


def long_word() -> pa.Array:
    """A text of a megabyte, repeated in most rows, and many short ones."""
    words = pa.array(["y" * MILLION, *(f"k{n}" for n in range(999))])
    codes = pa.array([*range(1000), *[0] * 2000])
    return pa.DictionaryArray.from_arrays(codes, words).cast("string")


# Highly compressed files: their rows, and the writer's options.
BOMBS: dict[str, Callable[[], tuple[pa.Table, dict[str, Any]]]] = {
    "a page": lambda: one_page(100 * MILLION, "zstd"),
    "gzip": lambda: one_page(50 * MILLION, "gzip"),
    "brotli": lambda: one_page(50 * MILLION, "brotli"),
    "pages": lambda: (
        pa.table({"a": zeros(100 * MILLION)}),
        {"compression": "zstd", "use_dictionary": False, "row_group_size": 100 * MILLION},
    ),
    "runs": lambda: (
        pa.table({"a": zeros(100 * MILLION)}),
        {"row_group_size": 100 * MILLION},
    ),
    "a long text": lambda: (
        pa.table({"a": ["x" * MILLION] * 400}),
        {"compression": "zstd", **ONE_PAGE, "write_batch_size": 1000},
    ),
    "a long word": lambda: (
        pa.table({"a": long_word()}),
        {"dictionary_pagesize_limit": 1 << 22, "compression": "zstd"},
    ),
    "columns": lambda: (
        pa.table({f"a{n}": zeros(MILLION) for n in range(200)}),
        {"compression": "zstd", "use_dictionary": False, "row_group_size": MILLION},
    ),
    "lists": lambda: (
        pa.table(
            {"a": pa.ListArray.from_arrays(range(0, 50 * MILLION + 1, 10_000), zeros(50 * MILLION))}
        ),
        {},
    ),
    "a list": lambda: (
        pa.table({"a": pa.ListArray.from_arrays([0, 50 * MILLION], zeros(50 * MILLION))}),
        {},
    ),
}


COUNT = """
import sys
import euphrates as eu

flow = eu.Flow("bomb")
flow.chain(eu.scan(sys.argv[1]), eu.{sink})
try:
    flow.go(memory="128MiB", cores=2)
except eu.ResourceError as error:
    assert error.args and "memory" in str(error), error
status = open("/proc/self/status").read()
print(status.partition("VmHWM:")[2].split()[0])
"""


COUNTED, SAVED = "count(), eu.collect()", "save(sys.argv[2], overwrite=True)"

# A sink holds one unfinished page per column; their total is unbounded.
CASES = [
    (name, sink)
    for name in BOMBS
    for sink in (COUNTED, SAVED)
    if (name, sink) != ("columns", SAVED)
]


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a highly compressed file on first use."""
    folder = tmp_path_factory.mktemp("bombs")

    @functools.cache
    def written(name: str) -> Path:
        rows, options = BOMBS[name]()
        path = folder / f"{name}.parquet"
        pq.write_table(rows, path, **options)
        assert path.stat().st_size < 1_500_000
        return path

    return written


@pytest.mark.parametrize(("name", "sink"), CASES)
def test_highly_compressed_files_stay_within_memory(
    tmp_path: Path, name: str, sink: str, bomb: Callable[[str], Path]
) -> None:
    path = bomb(name)
    command = [sys.executable, "-c", COUNT.format(sink=sink), str(path), f"{tmp_path}/out.parquet"]
    child = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=300)
    assert child.returncode == 0, child.stderr
    peak = int(child.stdout) / 1024
    print(f"{name}: {path.stat().st_size} bytes, {peak:.0f} MiB")
    assert peak <= 128 * 1.1 + 64


@pytest.mark.parametrize("counts", [[0], [2, 0, 2], [0, 0, 3]])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_row_groups_without_rows_have_dictionaries_without_values(
    tmp_path: Path, compression: str, counts: list[int]
) -> None:
    path = tmp_path / "rows.parquet"
    parts = [pa.table({"k": ["a", "b", "c"][:count], "n": range(count)}) for count in counts]
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    with pq.ParquetWriter(path, schema, compression=compression) as writer:
        for part in parts:
            writer.write_table(part.cast(schema))
    rows = corpora.read(path)
    assert rows.num_rows == sum(counts)

    flow = eu.Flow("empty groups")
    join = flow.place(eu.join(["k"], build="left"))
    flow.place(eu.from_arrow({"k": ["a", "b"]})) >> join["left"]
    flow.place(eu.scan(str(path))) >> eu.filter("n >= 0") >> join["right"]
    join >> eu.collect()
    found = flow.go(progress=False).collected()
    assert found.num_rows == sum(min(count, 2) for count in counts)


@pytest.mark.parametrize(
    "values", [["a", "b", None, "a"], [b"a", b"bc", None, b"\xff"]], ids=["text", "bytes"]
)
def test_dictionaries_of_views_are_written(tmp_path: Path, values: list[Any]) -> None:
    views = pa.array(values, pa.string_view() if values[0] == "a" else pa.binary_view())
    codes = pa.array([0, 1, None, 3], pa.int8())
    coded = pa.DictionaryArray.from_arrays(codes, views)
    lists = pa.ListArray.from_arrays([0, 1, 4], coded)
    for column in (coded, lists):
        eu.query(pa.table({"c": column})).save(tmp_path / "out.parquet", overwrite=True)
        written = pq.read_table(tmp_path / "out.parquet")["c"].to_pylist()
        assert written == column.to_pylist()


UUIDS = """
    select uuid() as id, [uuid(), null] as ids, {'id': uuid(), 'n': n} as part, n,
        case when n % 7 = 0 then null else uuid() end as other
    from range(20000) numbers(n) order by id
"""


@pytest.mark.parametrize(
    "where",
    [
        "id = '{one}'",
        "id = cast(upper(replace('{one}', '-', '')) as uuid)",
        "other < '3' and n > 100",
        "part.id >= 'f' or other is null",
        "id > '{one}' and other in (select other from rows where n < 50)",
    ],
)
def test_uuids_are_text_as_duckdb_shows_them(tmp_path: Path, where: str) -> None:
    path = tmp_path / "ids.parquet"
    duckdb.sql(f"copy ({UUIDS}) to '{path}' (row_group_size 5000)")
    texts = """id::varchar as id, ids::varchar[] as ids, n, other::varchar as other,
        {'id': part.id::varchar, 'n': part.n} as part"""
    rows = duckdb.sql(f"select {texts} from '{path}' order by n").to_arrow_table()
    read = eu.scan(path).select("id", "ids", "n", "other", "part")
    assert read.sort("n").to_pylist() == rows.to_pylist()
    where = where.format(one=rows["id"][123].as_py())
    query = f"select count(*) as rows, sum(n) as sum from rows where {where}"
    wanted = duckdb.sql(query.replace("as uuid)", "as uuid)::varchar")).fetchall()
    report = eu.sql(query, rows=read).collect()
    assert [tuple(row.values()) for row in report.to_pylist()] == wanted


def test_bounds_of_uuids_leave_out_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "ids.parquet"
    duckdb.sql(f"copy ({UUIDS}) to '{path}' (row_group_size 5000)")
    flow = eu.Flow()
    flow.chain(eu.scan(path), eu.filter("id < '2'"), eu.save(tmp_path / "low.parquet"))
    assert "skipped 3 of 4 row groups" in str(flow.go())
    low = eu.scan(tmp_path / "low.parquet").sort("id").to_pylist()
    assert low == eu.scan(path).sort("id").limit(len(low)).to_pylist()
