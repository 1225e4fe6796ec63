"""Filters by the keys of joins reach sources behind joins, groups and projections; DuckDB is the
oracle."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from join_tables import check_same

ROWS, KEYS = 60_000, 20_000


def facts(path: Path) -> str:
    """A table with several rows a key."""
    at = np.arange(ROWS) * 7919 % ROWS
    table = pa.table(
        {
            "k": at % KEYS,
            "other": pa.array(at // 7 % 100, pa.int32()),
            "x": pa.array(at, mask=at % 13 == 0),
            "text": [f"text {one % 50}" for one in at],
        }
    )
    pq.write_table(table, path, row_group_size=15_000)
    return str(path)


def dimension(path: Path, keys: int) -> str:
    table = pa.table({"d": np.arange(keys) * 31 % KEYS, "name": [f"n{one}" for one in range(keys)]})
    pq.write_table(table, path)
    return str(path)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("keys")
    return {
        "f": facts(folder / "f.parquet"),
        "few": dimension(folder / "few.parquet", 40),
        "many": dimension(folder / "many.parquet", 15_000),
    }


def compare(query: str, tables: dict[str, str], **go: object) -> str:
    """The report of a query, whose rows are DuckDB's."""
    con = duckdb.connect()
    for name, path in tables.items():
        con.execute(f"create view {name} as from '{path}'")
    expected = con.sql(query).arrow().read_all()
    flow = eu.Flow("compared")
    flow.chain(eu.sql(query, **tables), eu.collect())
    report = flow.go(progress=False, **go)
    found = pa.table(report.collected())
    types = [field.with_type(wanted.type) for field, wanted in zip(found.schema, expected.schema)]
    check_same(found.cast(pa.schema(types)), expected)
    return str(report)


PATHS = {
    "through a group": """
        select d, s from few join (select k, sum(x) as s from f group by k) on d = k""",
    "through a renamed group": """
        select d, s from few join
            (select key + 0 as more, key, sum(x) as s from (select k as key, x from f)
             group by key) on d = key""",
    "through an equal key of a join": """
        select few.d, count(*) as n from many join f on many.d = k join few on few.d = many.d
        group by few.d""",
    "through the right side of a join": """
        select name, f.x from many join f on many.d = f.other where f.k in (select d from few)""",
    "through an outer join": """
        select few.d, f.x, many.name from f left join many on many.d = k join few on few.d = k""",
}


# Joins by several keys of which the scan of `f` has columns for one.
SINGLE = {
    "keys of two tables": """
        select many.name, x from f join many on k = many.d
            join few on few.d = f.other and few.name = many.name""",
    "a computed key": """
        select few.name, x from f join few on k = d and f.other % 2 = d % 2""",
    "a text beside a computed key": """
        select few.d, x from f join (select d, 'text ' || d % 7 as label from few) few
            on text = label and k % 3 = few.d % 3""",
    "of a group beside a sum": """
        select d, s from few join (select k, sum(x) as s, count(*) as n from f group by k)
            on d = k and d % 2 + 2 = n""",
}


@pytest.mark.parametrize("path", PATHS | SINGLE)
def test_filter_reaches_the_source(tables: dict[str, str], path: str) -> None:
    report = compare((PATHS | SINGLE)[path], tables)
    assert "left out" in report, report


def test_filter_reaches_the_source_behind_a_sort_and_a_join(tables: dict[str, str]) -> None:
    flow = eu.Flow("sorted")
    first = flow.place(eu.join([{"left": "k", "right": "d"}], build="right"))
    second = flow.place(eu.join([{"left": "k", "right": "d"}], build="right", suffix="_2"))
    _ = flow.place(eu.scan(tables["f"])) >> first["left"]
    _ = flow.place(eu.scan(tables["many"])) >> first["right"]
    _ = first >> flow.place(eu.sort("x")) >> second["left"]
    _ = flow.place(eu.scan(tables["few"])) >> second["right"], second >> eu.collect()
    # The scan does not wait for the keys behind a sort, so the report may lack them.
    assert "may filter scan_1 and scan_2 by k" in str(flow.explain())
    report = flow.go(progress=False)
    assert "by the keys of join_1" in str(report), report
    con = duckdb.connect()
    wanted = f"""select count(*) from '{tables["f"]}' f join '{tables["many"]}' m on k = m.d
        join '{tables["few"]}' w on k = w.d"""
    assert len(pa.table(report.collected())) == con.sql(wanted).fetchall()[0][0]


def test_two_joins_filter_one_source(tables: dict[str, str], tmp_path: Path) -> None:
    pq.write_table(pa.table({"o": pa.array([3, 5], pa.int32())}), tmp_path / "o.parquet")
    query = "select count(*) as n, min(x) as x from f, few, o where k = d and other = o"
    report = compare(query, {**tables, "o": str(tmp_path / "o.parquet")})
    assert "by the keys of join_1 and join_2" in report, report


@pytest.mark.parametrize("seed", range(60))
def test_random_paths_have_duckdbs_rows(tables: dict[str, str], seed: int) -> None:
    pick = random.Random(seed)
    inner = pick.choice(
        [
            "select k, x, other from f",
            "select k, x, other from f where other < 30",
            "select k, max(x) as x, min(other) as other from f group by k",
            "select other as k, x, other from f",
            "select distinct k, k as x, other from f",
            "select k, row_number() over (partition by k order by x, other, text) as x, other"
            " from f",
            "select k + 1 as k, x, other from f",
            "select m.d as k, x, other from many m {how} join f on m.d = f.k",
            "select f.k, x, other from f {how} join many m on m.d = f.k",
            "select k, x, other from f where exists (select 1 from many where d = k)",
            "select k, x, other from f where k not in (select d from many)",
        ]
    ).format(how=pick.choice(["inner", "left", "right", "full"]))
    how = pick.choice(["inner", "left", "right", "full"])
    table = pick.choice(["few", "many"])
    more = pick.choice(["", " and d % 100 = other", " and d % 3 = other % 3", " and d = x"])
    query = (
        f"select d, name, k, count(*) as n, sum(x) as s, min(other) as o from ({inner}) t"
        f" {how} join {table} on k = d{more} group by d, name, k"
    )
    print(query)
    compare(query, tables, cores=pick.choice([1, 2, 4]))


def test_names_of_the_other_side_are_not_confused(tmp_path: Path) -> None:
    """`v` is a column of the left; that of the right, which has it too, gets a suffix."""
    left = pa.table({"k": range(1000), "v": [at % 10 for at in range(1000)]})
    right = pa.table({"k": range(1000), "v": [at % 7 for at in range(1000)]})
    few = pa.table({"v": [3]})
    for name, table in {"left": left, "right": right, "few": few}.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    path = {name: str(tmp_path / f"{name}.parquet") for name in ("left", "right", "few")}
    for key, wanted in [("v", 100), ("v_right", 143)]:
        flow = eu.Flow("names")
        first = flow.place(eu.join("k", build="left"))
        second = flow.place(eu.join([{"left": key, "right": "v"}], build="right", suffix="_few"))
        _ = flow.place(eu.scan(path["left"])) >> first["left"]
        _ = flow.place(eu.scan(path["right"])) >> first["right"]
        _ = first >> second["left"], flow.place(eu.scan(path["few"])) >> second["right"]
        _ = second >> eu.collect()
        report = flow.go(progress=False)
        assert len(pa.table(report.collected())) == wanted


def test_sources_behind_a_tee_are_not_awaited(tables: dict[str, str]) -> None:
    """With several outputs somewhere, a source that waits could keep another from ending."""
    flow = eu.Flow("tee")
    tee = flow.place(eu.tee())
    _ = flow.place(eu.scan(tables["few"])) >> tee
    first = flow.place(eu.join([{"left": "k", "right": "d"}], build="right"))
    second = flow.place(eu.join([{"left": "k", "right": "d"}], build="right", suffix="_2"))
    _ = flow.place(eu.scan(tables["f"])) >> first["left"]
    _ = tee >> first["right"], first >> second["left"], tee >> second["right"]
    _ = second >> eu.collect()
    assert len(pa.table(flow.go(progress=False).collected())) == 3 * 40


def test_filter_survives_processes(tables: dict[str, str]) -> None:
    with eu.Cluster.processes(2) as cluster:
        for path, query in (PATHS | SINGLE).items():
            report = compare(query, tables, cluster=cluster)
            assert "left out" in report, f"{path}: {report}"


def test_unneeded_columns_stop_at_filters_and_joins(tables: dict[str, str]) -> None:
    """`text` is read for the condition alone."""
    query = "select name, sum(x) as s from f join few on k = d where text like '%7' group by name"
    compare(query, tables)
    explained = str(eu.sql(query, **tables).explain())
    behind_filter = explained.split("filter_1 → ")[1].splitlines()[1]
    assert "text" not in behind_filter and "x" in behind_filter
    behind_join = explained.split("join_1 → ")[1].splitlines()[1]
    assert "d:" not in behind_join
