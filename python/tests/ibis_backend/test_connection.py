"""Connections of Ibis: tables, views, files, and how their expressions run."""

from __future__ import annotations

import datetime as dt
import gc
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import ibis.common.exceptions as exc
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ibis import _

import euphrates as eu
from euphrates.ibis_backend import Backend

SALES = {"city": ["Ur", "Kish", "Ur"], "price": [2, 3, 5]}
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def con() -> Any:
    return Backend().connect({"sales": SALES})


def prices(table: Any) -> list[int]:
    return sorted(table.to_pyarrow()["price"].to_pylist())


def test_package_is_loaded_without_ibis() -> None:
    code = "import sys, euphrates as eu; eu.query({'n': [1]}).to_pydict()\n"
    loaded = subprocess.check_output([sys.executable, "-c", code + "print('ibis' in sys.modules)"])
    assert loaded.split() == [b"False"]


def test_backend_is_registered_by_its_name() -> None:
    assert 'euphrates = "euphrates.ibis_backend"' in (ROOT / "pyproject.toml").read_text()
    con = ibis.euphrates.connect({"sales": SALES})
    assert con.name == "euphrates" and con.version == eu.__version__
    assert ibis.connect("euphrates://").list_tables() == []


@pytest.mark.parametrize(
    "rows",
    [
        SALES,
        pa.table(SALES),
        pl.DataFrame(SALES),
        pd.DataFrame(SALES),
        eu.query(SALES),
        eu.from_arrow(SALES),
    ],
    ids=["dict", "pyarrow", "polars", "pandas", "query", "source"],
)
def test_rows_of_all_kinds_are_tables(rows: Any) -> None:
    con = Backend().connect({"given": rows})
    made = con.create_table("made", rows)
    assert prices(con.table("given")) == prices(made) == [2, 3, 5]


def test_created_table_keeps_the_rows_that_there_were(con: Any) -> None:
    sales = con.table("sales")
    kept = con.create_table("kept", sales.filter(_.price > 2))
    con.create_table("sales", {"city": ["Ur"], "price": [9]}, overwrite=True)
    assert prices(kept) == [3, 5]
    assert prices(con.table("sales")) == [9]


def test_table_is_created_from_a_schema(con: Any) -> None:
    empty = con.create_table("empty", schema={"n": "int16", "s": "string"})
    assert empty.schema() == ibis.schema({"n": "int16", "s": "string"})
    assert empty.count().to_pyarrow().as_py() == 0
    with pytest.raises(ValueError, match="must be specified"):
        con.create_table("nothing")


def test_name_that_is_taken_needs_overwrite(con: Any) -> None:
    with pytest.raises(exc.IbisError, match="`sales` exists already"):
        con.create_table("sales", {"n": [1]})
    with pytest.raises(exc.IbisError, match="`sales` exists already"):
        con.create_view("sales", con.table("sales"))
    assert prices(con.table("sales")) == [2, 3, 5]


def test_view_is_a_part_of_the_flow_of_its_query(con: Any) -> None:
    dear = con.create_view("dear", con.table("sales").filter(_.price > 2))
    assert prices(dear) == [3, 5]
    plan = con.query(dear.group_by("city").agg(n=_.count()))
    modules = [node["module"] for node in plan.flow._document["modules"]]
    assert modules[:2] == ["from_arrow", "filter"] and "aggregate" in modules


def test_tables_and_views_are_listed_renamed_and_dropped(con: Any) -> None:
    con.create_view("dear", con.table("sales").filter(_.price > 2))
    assert con.list_tables() == ["dear", "sales"]
    assert con.list_tables(like="^d") == ["dear"]
    con.rename_table("dear", "costly")
    with pytest.raises(exc.IbisError, match=r"is a view\n  remedy: drop it by drop_view"):
        con.drop_table("costly")
    con.drop_view("costly")
    con.drop_table("sales")
    assert con.list_tables() == []
    con.drop_table("sales", force=True)
    with pytest.raises(exc.TableNotFound, match="no table named `sales`"):
        con.drop_table("sales")


def test_unknown_table_is_named_with_a_near_one(con: Any) -> None:
    with pytest.raises(exc.TableNotFound, match="did you mean `sales`"):
        con.table("sale")
    with pytest.raises(eu.UsageError, match="did you mean `sales`"):
        con.sql("select * from sale")


def test_variables_of_the_program_are_no_tables(con: Any) -> None:
    wares = SALES
    with pytest.raises(eu.UsageError, match="no table named `wares`"):
        con.sql("select * from wares")
    assert prices(con.create_table("wares", wares)) == [2, 3, 5]


def test_insert_adds_rows_and_truncate_removes_them(con: Any) -> None:
    con.insert("sales", {"price": [7], "city": ["Uruk"]})
    con.insert("sales", {"city": ["Eridu"]})
    table = con.table("sales").order_by("price").to_pyarrow()
    assert table.to_pydict() == {
        "city": ["Ur", "Kish", "Ur", "Uruk", "Eridu"],
        "price": [2, 3, 5, 7, None],
    }
    con.insert("sales", con.table("sales").filter(_.price == 7), overwrite=True)
    assert prices(con.table("sales")) == [7]
    con.truncate_table("sales")
    assert con.table("sales").columns == ("city", "price")
    assert prices(con.table("sales")) == []


def test_databases_are_refused(con: Any) -> None:
    with pytest.raises(exc.UnsupportedOperationError, match="there are no databases"):
        con.list_tables(database="main")


def test_connections_do_not_share_tables(con: Any) -> None:
    other = Backend().connect({"sales": {"price": [1]}})
    assert con != other
    assert prices(con.table("sales")) == [2, 3, 5]
    assert prices(other.table("sales")) == [1]


def test_memtable_is_dropped_with_its_expression(con: Any) -> None:
    numbers = ibis.memtable({"n": [1, 2]})
    assert con.to_pyarrow(numbers.n.sum()).as_py() == 3
    name = numbers.get_name()
    assert name in con.list_tables()
    del numbers
    gc.collect()
    assert name not in con.list_tables()


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_files_are_written_and_read(con: Any, format: str, tmp_path: Path) -> None:
    path = tmp_path / f"sales.{format}"
    getattr(con, f"to_{format}")(con.table("sales").filter(_.price > 2), path)
    read = getattr(con, f"read_{format}")
    assert prices(read(path)) == [3, 5]
    getattr(con, f"to_{format}")(con.table("sales"), path)
    assert prices(read([path, path], table_name="twice")) == [2, 2, 3, 3, 5, 5]
    assert con.list_tables(like="twice") == ["twice"]


def test_options_of_pyarrow_have_its_writer_write(con: Any, tmp_path: Path) -> None:
    path = tmp_path / "sales.parquet"
    con.to_parquet(con.table("sales"), path, use_dictionary=False)
    assert "parquet-cpp" in pq.ParquetFile(path).metadata.created_by
    con.to_parquet(con.table("sales"), path, compression="zstd")
    assert "parquet-cpp" not in pq.ParquetFile(path).metadata.created_by
    assert prices(con.read_parquet(path)) == [2, 3, 5]


def test_json_lines_are_read(con: Any, tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    path.write_text('{"city": "Ur", "price": 4}\n{"city": "Kish", "price": 1}\n')
    assert prices(con.read_json(path)) == [1, 4]


def test_options_of_scan_reach_the_file(con: Any, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("city;price\nUr;4\n")
    assert prices(con.read_csv(path, delimiter=";")) == [4]


def test_collection_is_a_table(con: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUPHRATES_HOME", str(tmp_path))
    con.to_parquet(con.table("sales"), "@sold")
    assert prices(con.table("@sold").filter(_.price > 2)) == [3, 5]
    with pytest.raises(exc.IbisError, match="name of a collection"):
        con.create_table("@sold", SALES)


def test_schema_of_a_text_is_known_without_running() -> None:
    con = Backend().connect({"numbers": eu.generate("integers", rows=10**15)})
    doubled = con.sql('select n * 2 as "D", n > 3 as big from numbers')
    assert doubled.schema() == ibis.schema({"D": "!int64", "big": "!boolean"})


def test_text_of_another_dialect_is_translated(con: Any) -> None:
    query = "select city from sales where price > 2 order by price"
    assert con.sql(query, dialect="duckdb").to_pyarrow()["city"].to_pylist() == ["Kish", "Ur"]


def test_batches_come_while_the_flow_runs() -> None:
    con = Backend().connect({"numbers": eu.generate("integers", rows=10**15)})
    batches = con.table("numbers").mutate(twice=_.n * 2).to_pyarrow_batches(chunk_size=100)
    batch = batches.read_next_batch()
    assert batch.num_rows == 100
    assert batch.schema.names == ["n", "twice"]
    batches.close()


def test_results_are_polars_and_pandas(con: Any) -> None:
    sales = con.table("sales").order_by("price")
    assert sales.to_polars().equals(pl.DataFrame(SALES).sort("price"))
    assert sales.execute().price.tolist() == [2, 3, 5]
    assert con.execute(sales.price.sum()) == 10


def test_parameters_are_values(con: Any) -> None:
    least = ibis.param("int64")
    sales = con.table("sales").filter(_.price >= least)
    assert con.to_pyarrow(sales.count(), params={least: 3}).as_py() == 2


def test_explain_shows_what_is_pushed_down(con: Any, tmp_path: Path) -> None:
    con.to_parquet(con.table("sales"), tmp_path / "sales.parquet")
    sales = con.read_parquet(tmp_path / "sales.parquet")
    plan = con.explain(sales.filter(_.price > 2).select("city"))
    assert plan.data["modules"][0]["module"] == "scan"
    assert "price" in str(plan.data["modules"][0])


def test_options_of_the_connection_are_those_of_its_flows() -> None:
    con = Backend().connect({"sales": SALES}, cores="many")
    with pytest.raises((eu.UsageError, TypeError)):
        con.table("sales").to_pyarrow()
    one = Backend().connect({"sales": SALES}, cores=1)
    assert prices(one.table("sales")) == [2, 3, 5]


def test_error_of_the_flow_names_the_row(con: Any) -> None:
    text = con.table("sales").mutate(n=_.city.cast("int64"))
    with pytest.raises(eu.FlowError, match="Cannot cast string"):
        text.to_pyarrow()


def test_value_that_its_type_cannot_hold_is_an_error(con: Any) -> None:
    narrow = con.sql("select price * 100 as p from sales", schema={"p": "int8"})
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        narrow.to_pyarrow()


def test_product_of_decimals_keeps_its_digits() -> None:
    price = pa.array([Decimal("1.25")], pa.decimal128(15, 2))
    con = Backend().connect({"sales": pa.table({"price": price})})
    squares = con.table("sales").select(s=_.price * _.price)
    assert squares.to_pyarrow()["s"].to_pylist() == [Decimal("1.5625")]
    assert squares.to_pandas().s.tolist() == [Decimal("1.5625")]
    assert squares.s.to_pyarrow().to_pylist() == [Decimal("1.5625")]
    assert con.to_pyarrow(squares.s.max()).as_py() == Decimal("1.5625")


def test_difference_of_times_keeps_its_digits() -> None:
    noon = dt.datetime(2026, 1, 2, 12, 0, 0, 250_000)
    con = Backend().connect({"times": pa.table({"at": [noon]})})
    waited = con.table("times").select(d=_.at - ibis.timestamp("2026-01-02 12:00:00"))
    assert waited.to_pyarrow()["d"].to_pylist() == [dt.timedelta(milliseconds=250)]
    assert waited.to_pandas().d.tolist() == [pd.Timedelta(milliseconds=250)]


def test_times_of_day_are_written_and_read(con: Any) -> None:
    assert con.to_pyarrow(ibis.time("12:30:01.5")).as_py() == dt.time(12, 30, 1, 500_000)
    assert con.to_pyarrow(ibis.literal("12:30:01").cast("time")).as_py() == dt.time(12, 30, 1)
    assert con.to_pyarrow(ibis.null("time")).as_py() is None


def test_number_of_a_time_is_in_seconds(con: Any) -> None:
    noon = ibis.timestamp("2026-01-02 12:00:00.75")
    seconds = int(dt.datetime(2026, 1, 2, 12, tzinfo=dt.timezone.utc).timestamp())
    assert con.to_pyarrow(noon.cast("int64")).as_py() == seconds
    assert con.to_pyarrow(noon.try_cast("int64")).as_py() == seconds
    assert con.to_pyarrow(noon.cast("float64")).as_py() == seconds + 0.75


@pytest.mark.parametrize("how", ["asof", "any_inner"])
def test_join_of_an_unknown_kind_is_refused(con: Any, how: str) -> None:
    left, right = con.table("sales"), con.table("sales").view()
    joined = (
        left.asof_join(right, "price")
        if how == "asof"
        else left.join(right, left.price == right.price, how=how)
    )
    with pytest.raises(exc.UnsupportedOperationError, match=f"kind `{how}` are not supported"):
        con.compile(joined)


def test_narwhals_runs_on_a_table(con: Any) -> None:
    sales = nw.from_native(con.table("sales"))
    totals = (
        sales.filter(nw.col("price") > 2)
        .group_by("city")
        .agg(nw.col("price").sum().alias("total"))
        .sort("city")
    )
    assert totals.collect().to_dict(as_series=False) == {"city": ["Kish", "Ur"], "total": [3, 5]}
