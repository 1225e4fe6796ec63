"""Joins take keys with the dictionaries of their files, and put those of a small build side."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from join_tables import HOWS

ROWS, CITIES = 60_000, 40
LITTLE = {"memory": "64MiB", "cores": 2}


def texts(luck: random.Random, count: int, of: int, *, nulls: float = 0.05) -> list[str | None]:
    def text() -> str | None:
        at = luck.randrange(of)
        return None if luck.random() < nulls else "" if at == 0 else f"{at}" * (at % 7 + 1)

    return [text() for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sales of cities, some of which are unknown; cities of regions; regions of countries."""
    folder, luck = tmp_path_factory.mktemp("tables"), random.Random(7)
    sales = {
        "city": texts(luck, ROWS, CITIES + 9),
        "seller": texts(luck, ROWS, 300),
        "price": [luck.randrange(1000) for _ in range(ROWS)],
    }
    names = [*sorted({text for text in texts(luck, 3000, CITIES) if text is not None}), None]
    double = [*names, *names[::3]]
    cities = {
        "city": double,
        "region": texts(luck, len(double), 9),
        "mayor": [f"mayor {at}" for at in range(len(double))],
    }
    regions = {"region": sorted({one for one in cities["region"] if one}), "country": "a"}
    regions["country"] = texts(luck, len(regions["region"]), 3)
    for name, table in {"sales": sales, "cities": cities, "regions": regions}.items():
        pq.write_table(pa.table(table), folder / f"{name}.parquet", row_group_size=9_000)
    wide = [f"{at:06}" * 40 for at in range(20_000)]
    many = {"city": [str(at) for at in range(20_000)], "region": [one[:80] for one in wide]}
    pq.write_table(pa.table(many | {"mayor": wide}), folder / "many.parquet")
    return folder


def aggregated(
    folder: Path, by: list[str], go: dict[str, Any], *, cities: str = "cities", **options: Any
) -> pa.Table:
    flow = eu.Flow("star")
    join = flow.place(eu.join(["city"], **options))
    flow.place(eu.scan(str(folder / "sales.parquet"))) >> join["left"]
    flow.place(eu.scan(str(folder / f"{cities}.parquet"))) >> join["right"]
    values = {"paid": "sum(price)", "rows": "count()"}
    join >> eu.aggregate(by=by, values=values) >> eu.collect()
    return flow.go(progress=False, **go).collected()


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*table.to_pydict().values(), strict=True)))


def queried(folder: Path, sql: str) -> list[str]:
    connection = duckdb.connect()
    for path in folder.glob("*.parquet"):
        connection.execute(f"create view {path.stem} as from '{path}'")
    return rows_of(connection.execute(sql).to_arrow_table())


@pytest.mark.parametrize("go", [{"cores": 2}, LITTLE], ids=["memory", "little memory"])
@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("how", HOWS)
def test_groups_of_a_join_by_text_match_duckdb(
    folder: Path, how: str, build: str, go: dict[str, Any]
) -> None:
    keys = ["city", "seller"] if how in ("semi", "anti") else ["city", "region"]
    found = aggregated(folder, keys, go, how=how, build=build)
    assert found.schema.types[:2] == [pa.string(), pa.string()]
    join = f"sales {how} join cities using (city)"
    sql = f"select {', '.join(keys)}, sum(price)::bigint, count(*) from {join} group by all"
    assert rows_of(found) == queried(folder, sql)


@pytest.mark.parametrize("build", ["left", "right"])
def test_dictionary_of_a_large_build_side(folder: Path, build: str) -> None:
    found = aggregated(folder, ["region"], {"cores": 2}, cities="many", build=build)
    join = "sales join many using (city)"
    sql = f"select region, sum(price)::bigint, count(*) from {join} group by all"
    assert rows_of(found) == queried(folder, sql)


def test_keys_of_other_names_and_a_condition(folder: Path) -> None:
    flow = eu.Flow("pairs")
    on = [{"left": "seller", "right": "city"}]
    join = flow.place(eu.join(on, where="city <> region", suffix="_of"))
    flow.place(eu.scan(str(folder / "sales.parquet"))) >> join["left"]
    flow.place(eu.scan(str(folder / "cities.parquet"))) >> join["right"]
    values = {"paid": "sum(price)", "regions": "count(distinct region)"}
    join >> eu.aggregate(by=["seller"], values=values) >> eu.collect()
    sql = """
        select seller, sum(price)::bigint, count(distinct region)
        from sales join cities on seller = cities.city where sales.city <> region group by all"""
    assert rows_of(flow.go(progress=False).collected()) == queried(folder, sql)


def test_chain_of_joins_by_columns_with_dictionaries(folder: Path) -> None:
    flow = eu.Flow("snowflake")
    first, second = flow.place(eu.join(["city"])), flow.place(eu.join(["region"], how="left"))
    flow.place(eu.scan(str(folder / "sales.parquet"))) >> first["left"]
    flow.place(eu.scan(str(folder / "cities.parquet"))) >> first["right"]
    first >> second["left"]
    flow.place(eu.scan(str(folder / "regions.parquet"))) >> second["right"]
    values = {"paid": "sum(price)", "sellers": "count(distinct seller)"}
    second >> eu.aggregate(by=["country", "region"], values=values) >> eu.collect()
    sql = """
        select country, region, sum(price)::bigint, count(distinct seller)
        from sales join cities using (city) left join regions using (region) group by all"""
    assert rows_of(flow.go(progress=False).collected()) == queried(folder, sql)


def test_columns_that_come_out_keep_their_types(folder: Path) -> None:
    flow = eu.Flow("plain")
    join = flow.place(eu.join(["city"]))
    flow.place(eu.scan(str(folder / "sales.parquet"))) >> join["left"]
    flow.place(eu.scan(str(folder / "cities.parquet"))) >> join["right"]
    join >> eu.project(["seller", "region"]) >> eu.collect()
    assert flow.go(progress=False).collected().schema.types == [pa.string(), pa.string()]
