"""A sort before a limit leaves a filter for its source; DuckDB is the oracle."""

from __future__ import annotations

import random
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from test_sql import rows as rows_of

ROWS = 200_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("first") / "t.parquet"
    at = np.arange(ROWS)
    mixed = at * 7919 % ROWS
    columns = {
        "n": mixed,
        "small": pa.array(mixed % 50, pa.int16(), mask=mixed % 11 == 0),
        "real": pa.array(np.where(mixed % 97 == 0, np.nan, mixed / 7), mask=mixed % 13 == 0),
        "text": pa.array([f"prefix {one % 3000}" for one in mixed], mask=mixed % 17 == 0),
        "ordered": at,
        "payload": [f"long text number {one}" for one in at],
    }
    pq.write_table(pa.table(columns), path, row_group_size=10_000)
    return str(path)


def compare(query: str, table: str, **go: object) -> str:
    expected = duckdb.sql(query.replace("from t", f"from '{table}' t")).arrow().read_all()
    flow = eu.Flow("first")
    flow.chain(eu.sql(query, t=table), eu.collect())
    report = flow.go(progress=False, **go)
    assert rows_of(pa.table(report.collected()), True) == rows_of(expected, True)
    return str(report)


def test_other_columns_are_read_of_rows_that_may_be_first(table: str) -> None:
    report = compare("select * from t order by n limit 10", table, cores=1)
    assert "left out" in report and "by the keys of sort_1_partition" in report, report
    explained = str(eu.sql("select * from t order by n limit 10", t=table).explain())
    assert "may filter scan_1 by the first n" in explained, explained


@pytest.mark.parametrize("seed", range(25))
def test_first_rows_are_duckdbs(table: str, seed: int) -> None:
    pick = random.Random(seed)
    keys = pick.sample(["n", "small", "real", "text", "ordered"], pick.choice([1, 2, 3]))
    nulls = ["", " nulls last", " nulls first"]
    by = [f"{key} {pick.choice(['asc', 'desc'])}{pick.choice(nulls)}" for key in keys]
    source = pick.choice(
        [
            "t",
            "(select * from t where small < 20) u",
            "(select small as n, n as small, real, text, ordered, payload from t) u",
            "(select t.*, o.m from t join (select n as m from t where n < 5000) o on m = n) u",
            "(select t.*, o.m from (select n as m from t where n % 3 = 0) o"
            " full join (select * from t where n % 5 > 0) t on m = n) u",
        ]
    )
    tie = "n, small, real, text, ordered, payload" + (", m" if "o.m" in source else "")
    query = (
        f"select * from {source} order by {', '.join(by)}, {tie} limit {pick.choice([1, 9, 20000])}"
        f" offset {pick.choice([0, 0, 3])}"
    )
    print(query)
    compare(query, table, cores=pick.choice([1, 2]))


def test_columns_named_like_a_direction_are_no_keys_of_the_filter(tmp_path: Path) -> None:
    mixed = np.arange(60_000) * 7919 % 60_000
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": mixed, "a desc": -mixed}), path, row_group_size=6000)
    flow = eu.Flow("names")
    flow.chain(eu.scan(str(path)), eu.sort("a desc"), eu.limit(3), eu.collect())
    found = pa.table(flow.go(progress=False).collected())
    assert found.column("a desc").to_pylist() == [-59_999, -59_998, -59_997]


def test_processes_filter_their_own_sources(table: str) -> None:
    with eu.Cluster.processes(2) as cluster:
        compare("select * from t order by text desc, n limit 100", table, cluster=cluster)


def test_row_groups_behind_the_last_row_kept_are_not_read(table: str) -> None:
    for order in ("ordered", "ordered, n", "ordered, text, n"):
        # Queues of 1 MiB, so the source cannot read the file before the first rows are sorted.
        query = f"select * from t where small < 40 order by {order} limit 10"
        report = compare(query, table, cores=1, memory="20MiB")
        skipped = re.search(
            r"skipped (\d+) of 20 row groups by the keys of sort_1_partition", report
        )
        assert skipped and int(skipped[1]) >= 10, report


@pytest.mark.parametrize("key", ["real", "real desc nulls last", "text desc nulls last"])
def test_ties_of_the_first_key_are_decided_by_the_others(table: str, key: str) -> None:
    query = f"select * from t where n % 3 > 0 and small < 45 order by {key}, n desc limit 2000"
    compare(query, table, cores=2)
