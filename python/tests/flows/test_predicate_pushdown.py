"""A scan skips row groups of which no row passes the filters behind it; DuckDB is the oracle."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu

GROUPS, GROUP_ROWS = 10, 10
ROWS = GROUPS * GROUP_ROWS
NAN = float("nan")


def every(value: object, nth: int, values: list[object]) -> list[object]:
    return [value if at % nth == nth - 1 else one for at, one in enumerate(values)]


def table() -> pa.Table:
    """Columns of all types whose values rise from one row group to the next."""
    whole = list(range(ROWS))
    text = [f"k{at:03d}" for at in whole]
    day, moment = date(2024, 1, 1), datetime(2024, 1, 1, 12)
    moments = [moment + timedelta(hours=at) for at in whole]
    zoned = [one.replace(tzinfo=UTC) for one in moments]
    return pa.table(
        {
            "i": pa.array(whole, pa.int64()),
            "tiny": pa.array([at - 50 for at in whole], pa.int8()),
            "u32": pa.array([at + 2**31 - 50 for at in whole], pa.uint32()),
            "u64": pa.array([at + 2**63 - 50 for at in whole], pa.uint64()),
            "f": pa.array([at / 4 - 10 for at in whole], pa.float64()),
            "nan": pa.array(every(NAN, 15, [float(at) for at in whole]), pa.float64()),
            "f32": pa.array([at / 4 for at in whole], pa.float32()),
            "zero": pa.array([-0.0 if at < ROWS / 2 else 1.0 for at in whole], pa.float64()),
            "money": pa.array([Decimal(at - 50).scaleb(-2) for at in whole], pa.decimal128(15, 2)),
            "huge": pa.array([Decimal(at) * 10**30 for at in whole], pa.decimal128(38, 0)),
            "s": pa.array(text),
            "long": pa.array([one + "é" * 100 + one for one in text]),
            "dict": pa.array(text).dictionary_encode(),
            "bytes": pa.array([bytes([at + 100, 255]) for at in whole], pa.binary()),
            "day": pa.array([day + timedelta(days=at) for at in whole], pa.date32()),
            "us": pa.array(moments, pa.timestamp("us")),
            "ms": pa.array(moments, pa.timestamp("ms")),
            "utc": pa.array(zoned, pa.timestamp("us", "UTC")),
            "clock": pa.array([time(at // 5, at % 5) for at in whole], pa.time64("us")),
            "flag": pa.array([at >= ROWS / 2 for at in whole], pa.bool_()),
            "gaps": pa.array(every(None, 3, whole), pa.int32()),
            "late": pa.array([None] * (ROWS // 2) + whole[ROWS // 2 :], pa.int32()),
            "none": pa.array([None] * ROWS, pa.int32()),
            "mixed": pa.array([at * 37 % ROWS for at in whole], pa.int32()),
        }
    )


CONDITIONS = {
    # Each comparison at the edges of a row group, whose values are 50 to 59.
    "i = 49": 9, "i = 50": 9, "i = 59": 9, "i = 60": 9, "i = 100": 10, "i = -1": 10,
    "i < 50": 5, "i < 51": 4, "i <= 49": 5, "i <= 50": 4, "i > 59": 6, "i > 58": 5,
    "i >= 60": 6, "i >= 59": 5, "50 > i": 5, "59 < i": 6, "i <> 50": 0, "i > 59.5": 6,
    "not (i < 50)": 5, "i between 50 and 59": 9, "i not between 10 and 89": 8,
    "i in (0, 99)": 8, "i not in (0, 99)": 0, "i < 10 or i >= 90": 8, "i >= 10 and i < 20": 9,
    "i < 10 and mixed >= 0": 9, "i + 0 < 10": 0, "i < 10 and i + 0 = 3": 9,
    "i + 0 = 3 and i < 10": 0,
    "tiny < -40": 9, "tiny = 0": 9, "u32 < 2147483648": 5, "u32 >= 2147483648": 5,
    "u64 < 9223372036854775808": 5, "u64 > 9223372036854775807": 5,
    "f < -9.75": 9, "f = 0": 9, "f <= 0.0": 5, "f > 12": 0, "f >= 12 and f <= 12": 9,
    "nan > 95": 0, "nan < 5": 9, "nan = 20": 9, "f32 < 2.5": 9, "f32 = 5.25": 9,
    "zero = 0.0": 5, "zero < 0.0": 10, "zero >= 0": 0, "zero < 1": 5,
    "money < -0.40": 9, "money = 0.00": 9, "money >= 0.4": 9, "money > 0.395": 9,
    "huge < 10000000000000000000000000000000": 9, "huge >= 90000000000000000000000000000000": 9,
    "s = 'k050'": 9, "s < 'k010'": 9, "s > 'k089'": 9, "s like 'k05%'": 9, "s like '%5'": 0,
    "s not like 'k05%'": 0, "s in ('k000', 'nothing')": 9, "s > 'z'": 10,
    "long < 'k01'": 9, "long >= 'k09'": 9, "long > 'k099é'": 9, "dict = 'k050'": 9,
    "dict >= 'k090'": 9, "day < date '2024-01-11'": 9, "day >= '2024-03-31'": 9,
    "us < timestamp '2024-01-01 22:00:00'": 9, "us = '2024-01-01 12:00:00'": 9,
    "ms >= timestamp '2024-01-05 06:00:00'": 9, "utc < timestamptz '2024-01-01 22:00:00+00'": 9,
    "clock < time '02:00:00'": 9, "flag": 5, "not flag": 5, "flag = false": 5,
    "gaps is null": 0, "gaps is not null": 0, "gaps < 10": 9, "late is null": 5,
    "late is not null": 5, "late > 0": 5, "not (late < 50)": 5, "none = 1": 10,
    "none is not null": 10, "none is null": 0, "late is null or i >= 90": 4, "mixed = 5": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("pushdown") / "table.parquet")
    pq.write_table(table(), path, row_group_size=GROUP_ROWS)
    return path


def found(path: str | list[str], *conditions: str, **options: object) -> tuple[list[int], int]:
    """The sorted values of `i`, and how many row groups were skipped."""
    flow = eu.Flow()
    filters = [eu.filter(condition) for condition in conditions]
    flow.chain(eu.scan(path, **options), *filters, eu.project(["i"]), eu.collect())
    report = flow.go(progress=False)
    skipped = re.search(r"skipped (\d+) of \d+ row groups", str(report))
    return sorted(row["i"] for row in report.collected().to_pylist()), int(
        skipped[1]
    ) if skipped else 0


def expected(path: str, condition: str) -> list[int]:
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        # From a table, since a scan with this condition would skip row groups as well.
        connection.execute(f"create table t as select * from read_parquet('{path}')")
        query = f"select i from t where {condition} order by i"
        return [row[0] for row in connection.execute(query).fetchall()]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_those_of_a_filter_without_skipping(path: str, condition: str) -> None:
    rows, skipped = found(path, condition)
    assert rows == expected(path, condition)
    if CONDITIONS[condition] is not None:
        assert skipped == CONDITIONS[condition]


@pytest.mark.parametrize("order", [False, True])
def test_conditions_of_several_filters_count(path: str, order: bool) -> None:
    assert found(path, "i >= 10", "i < 15", order=order) == ([10, 11, 12, 13, 14], 9)


def test_statistics_may_be_absent(tmp_path: Path) -> None:
    path = str(tmp_path / "table.parquet")
    pq.write_table(table(), path, row_group_size=GROUP_ROWS, write_statistics=["i", "late"])
    for condition, skipped in [("s < 'k010'", 0), ("i < 10 and s < 'k005'", 9), ("late > 90", 9)]:
        assert found(path, condition) == (expected(path, condition), skipped)


def test_files_differ_in_layout(tmp_path: Path) -> None:
    """Text or a dictionary, decimals of different digits, a column of nulls alone."""
    one = table().select(["i", "s", "money", "late"])
    other = pa.table(
        {
            "late": pa.array([None] * ROWS, pa.null()),
            "money": one["money"].cast(pa.decimal128(20, 4)),
            "s": one["s"].combine_chunks().dictionary_encode(),
            "i": pa.array(range(ROWS, 2 * ROWS)),
        }
    )
    paths = [str(tmp_path / name) for name in ["a.parquet", "b.parquet"]]
    pq.write_table(one, paths[0], row_group_size=GROUP_ROWS)
    pq.write_table(other, paths[1], row_group_size=GROUP_ROWS)
    assert found(paths, "money = 0.01") == ([51, 151], 18)
    assert found(paths, "s = 'k007'") == ([7, 107], 18)
    assert found(paths, "late >= 90")[0] == list(range(90, 100))


def test_limit_and_other_consumers_see_all_rows(path: str) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(path, order=True), eu.limit(30), eu.filter("i >= 25"), eu.collect())
    assert len(flow.go(progress=False).collected()) == 5
    flow = eu.Flow()
    tee = flow.place(eu.tee())
    flow.attach(flow.place(eu.scan(path)), tee)
    few, all_rows = flow.place(eu.filter("i < 10")), flow.place(eu.count())
    few_rows = flow.place(eu.collect())
    flow.attach(tee, few)
    flow.attach(few, few_rows)
    flow.attach(tee, all_rows)
    counted = flow.place(eu.collect())
    flow.attach(all_rows, counted)
    report = flow.go(progress=False)
    assert "skipped" not in str(report)
    assert report.collected(counted).to_pylist() == [{"count": ROWS}]


def test_skipped_rows_do_not_hide_errors(path: str) -> None:
    with pytest.raises(eu.EuphratesError, match="Divide by zero"):
        found(path, "1 / (i - 3) >= 0 and i > 90")
    with pytest.raises(eu.EuphratesError, match="Divide by zero"):
        # The first term is null where the second fails.
        found(path, "late > 60 and 1 / (i - 3) >= 0")
    with pytest.raises(eu.EuphratesError, match="Divide by zero"):
        found(path, "1 / (i - 3) >= 0", "i > 90")
    assert found(path, "i > 95 and 1 / (i - 3) >= 0") == ([96, 97, 98, 99], 9)


def test_cluster_skips_the_same_row_groups(path: str) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(path), eu.filter("i >= 85"), eu.sort(["i"]), eu.collect())
    report = flow.go(cluster="processes:2", progress=False)
    rows = [row["i"] for row in report.collected().to_pylist()]
    assert rows == list(range(85, 100))
    assert "skipped 8 of 10 row groups" in str(report)


def test_explain_tells_what_is_skipped(path: str) -> None:
    flow = eu.Flow()
    modules = [eu.filter("i >= 85"), eu.sort(["i"]), eu.filter("s < 'k095'"), eu.project(["i"])]
    flow.chain(eu.scan(path), *modules, eu.collect())
    explained = str(flow.explain())
    assert "read 2 of 24 columns" in explained
    assert "skipped 8 of 10 row groups by (i >= 85) and (s < 'k095')" in explained


@pytest.mark.parametrize(
    ("condition", "skipped"),
    [
        ("k = 501", True),
        ("k = 500", False),
        ("s in ('w501', 'w7')", True),
        ("s in ('w501', 'w500')", False),
        ("k = 501 or i < 3", False),
        ("k <> 501 and i = 3", False),
        ("not (k <> 501)", False),
        ("small = 501", True),
        ("small = 500", False),
    ],
)
def test_bloom_filters_exclude_values(tmp_path: Path, condition: str, skipped: bool) -> None:
    path = str(tmp_path / "table.parquet")
    with duckdb.connect() as connection:
        columns = "n * 7919 % 500 * 2 as k, (n * 7919 % 500 * 2)::integer as small, n as i"
        query = f"select *, 'w' || k as s from (select {columns} from range(40000) as t(n))"
        connection.execute(f"copy ({query}) to '{path}' (format parquet, row_group_size 10000)")
    flow = eu.Flow()
    flow.chain(eu.scan(path), eu.filter(condition), eu.project(["i"]), eu.collect())
    report = flow.go(progress=False)
    rows = sorted(row["i"] for row in report.collected().to_pylist())
    assert rows == expected(path, condition)
    assert ("row groups by Bloom filters" in str(report)) == skipped


# Rows are left out before the other columns are decoded

MANY = 40_000


def many() -> pa.Table:
    """Rows of several pages, in an order in which few conditions skip a row group."""
    at = np.arange(MANY)
    mixed = at * 7919 % MANY
    words = pa.array([f"w{one % 13}" for one in mixed])
    return pa.table(
        {
            "i": pa.array(at, pa.int64()),
            "mixed": pa.array(mixed, pa.int32(), mask=mixed % 11 == 0),
            "word": words,
            "coded": words.dictionary_encode(),
            "text": pa.array([f"{one:05d}" * (one % 5) for one in mixed]),
            "money": pa.array([Decimal(int(one)).scaleb(-2) for one in mixed], pa.decimal128(9, 2)),
            "flag": pa.array(mixed % 2 == 0),
            "list": pa.array([[int(one)] * int(one % 4) for one in mixed]),
            "pair": pa.array([{"a": int(one), "b": None} for one in mixed]),
        }
    )


@pytest.fixture(scope="module", params=["1.0", "2.0"])
def many_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    path = str(tmp_path_factory.mktemp("many") / "table.parquet")
    layout = {"data_page_version": request.param, "data_page_size": 4096, "compression": "zstd"}
    pq.write_table(many(), path, row_group_size=25_000, write_batch_size=256, **layout)
    return path


@pytest.mark.parametrize(
    "condition",
    [
        "mixed = 7", "mixed < 30", "mixed % 100 = 3", "mixed < 4000", "mixed < 20000",
        "mixed >= 0", "mixed is null", "mixed is null or mixed = 8", "word = 'w3'",
        "coded in ('w1', 'w2') and mixed < 500", "text like '%00%'", "text > '39'",
        "money between 1.00 and 1.50", "flag and i < 40", "i between 24990 and 25010",
        "i = 0 or i = 39999", "i = -1 or mixed = 40000", "mixed < 90 and 100 % (mixed + 1) > 3",
        "not (word <> 'w5') and not flag",
    ],
)  # fmt: skip
def test_other_columns_are_those_of_matching_rows(many_path: str, condition: str) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(many_path), eu.filter(condition), eu.sort(["i"]), eu.collect())
    rows = pa.table(flow.go(progress=False).collected())
    wanted = many().take(pa.array(expected(many_path, condition), pa.int64()))
    assert rows.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(("condition", "are_few"), [("mixed < 400", True), ("mixed >= 9", False)])
def test_scan_decodes_the_filtered_column_first(
    many_path: str, condition: str, are_few: bool
) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(many_path), eu.filter(condition), eu.collect())
    assert "decode mixed first" in str(flow.explain())
    report = flow.go(progress=False)
    rows = {module["id"]: module["rows_out"] for module in json.loads(report.to_json())["modules"]}
    assert rows["scan_1"] == (rows["filter_1"] if are_few else MANY)


def test_nothing_is_decoded_first_where_the_filter_reads_all_columns(many_path: str) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(many_path), eu.filter("mixed < 9"), eu.count(), eu.collect())
    assert "decode" not in str(flow.explain())


def test_little_memory_leaves_filtering_to_the_filter(many_path: str) -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(many_path), eu.filter("mixed % 5 = 1"), eu.sort(["i"]), eu.collect())
    rows = flow.go(progress=False, memory="16MiB").collected()
    assert rows.to_pydict()["i"] == expected(many_path, "mixed % 5 = 1")
