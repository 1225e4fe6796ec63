"""Functions of values at the edges of their types, which DuckDB computes, too."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu
from test_sql import rows

VALUES = [
    """select json_exists('{"a": {"b": 1}}', ['$.a', '$.c']) as a,
       json_keys('{"a": {"b": 1}}', ['$.a', '$']) as b,
       json_type('{"a": {"b": 1}}', ['$.a', '$.a.b']) as c,
       json_array_length('{"a": [1, 2]}', ['$.a', '$']) as d,
       json_value('{"a": 1}', ['$.a', '$']) as e""",
    "select json_array('a', [1, 2]) as a, json_object('a', [1, 2]) as b",
    "select nextafter(1::float, 2::float) as a, nextafter(1::float, -2::float) as b",
    "select nextafter(1::double, 2::double) as a, nextafter(0::float, -1::float) as b",
    "select greatest([1, null], [1, 2]) as a, least([1, null], [1, 2]) as b",
    "select greatest(l, [1]) as a, least(l, [2, 2]) as b from lists",
    "select greatest({'a': 1}, {'a': null}) as a, least([[1]], [[null]]) as b",
    "select list_min(n) as a, list_max(n) as b from lists",
    "select list_min([{'a': 2}, {'a': 1}]) as a, list_max([[1, null], [1, 2], null]) as b",
    "select list_mode(l) as a from lists",
    "select sign('nan'::double)::double as a, sign(-0.0)::double as b, sign(-2.5)::double as c",
    "select sign(x)::double as a from (values (null), (-3.5), ('nan'::double)) t(x)",
    "select array_to_string(l, ',') as a from lists",
    "select array_to_string([]::int[], ',') as a, array_to_string([null, null]::int[], ',') as b",
    "select equi_width_bins(-13, 97, 7, true) as a, equi_width_bins(0, 2, 5, false) as b",
    "select equi_width_bins(-1234567, 9876543, 10, true) as a, equi_width_bins(3, 3, 4, true) as b",
    "select equi_width_bins(0.0::double, 1.7::double, 5, true) as a",
    "select equi_width_bins(2.155e11::double, 2.086e12::double, 17, true) as a",
    "select equi_width_bins(date '2024-01-01', date '2024-12-31', 5, false) as a",
    "select equi_width_bins(date '2024-01-01', date '2024-01-03', 5, false) as a",
    "select avg(z) as a from times",
    "select avg(t) over (order by t rows between 1 preceding and current row) as a from times",
    "select avg(d) over (partition by t is null) as a from times",
    "select arg_max(id, s) over (order by id) as a from lists",
    "select arg_min(id, l) over (order by id) as a from lists",
]


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    lists = {
        "id": [1, 2, 3, 4, 5, 6],
        "l": pa.array([[3, None, 1], [], None, [None], [2, 2], [1, 2, 3]], pa.list_(pa.int64())),
        "n": pa.array([[[1], [None]], [], None, [None, []], [[1, None], [1, 2]], [[2]]]),
        "s": [{"p": 1}, {"p": None}, None, {"p": 3}, {"p": None}, {"p": 1}],
    }
    times = duckdb.sql(
        "select t, t::date as d, t::timestamptz as z from (values (null),"
        " (timestamp '1960-01-01 00:00:00'),"
        " (timestamp '2024-01-04 00:00:01'), (timestamp '2024-01-01 00:00:00.000001')) v(t)"
    )
    return {"lists": pa.table(lists), "times": times.to_arrow_table()}


@pytest.mark.parametrize("query", VALUES)
def test_values_are_those_of_duckdb(query: str, tables: dict[str, pa.Table]) -> None:
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    theirs = connection.sql(query).to_arrow_table()
    assert rows(eu.sql(query, **tables).to_pyarrow(), False) == rows(theirs, False)


@pytest.mark.parametrize(
    ("zone", "arguments"),
    [
        ("UTC", ""),
        ("UTC", ", interval '3 hours'"),
        ("UTC", ", timestamptz '2000-01-01 05:00:00+00'"),
        ("Europe/Berlin", ""),
        ("Europe/Berlin", ", interval '3 hours'"),
    ],
)
def test_buckets_of_instants_are_those_of_utc_whatever_their_zone(
    zone: str, arguments: str
) -> None:
    connection = duckdb.connect()
    connection.execute(f"set timezone = '{zone}'")
    query = f"select time_bucket(interval '1 day', z{arguments}) as b from times order by z"
    times = connection.sql(
        "select * from (values (timestamptz '2024-03-05 23:20:30+00'),"
        " (timestamptz '1969-07-01 00:30:00+00')) t(z)"
    ).to_arrow_table()
    connection.register("times", times)
    theirs = connection.sql(query).to_arrow_table()["b"].cast(pa.int64())
    assert eu.sql(query, times=times).to_pyarrow()["b"].cast(pa.int64()) == theirs


FRAMES = [
    "order by id rows between 2 preceding and 1 preceding",
    "order by id rows between 7 following and 20 following",
    "partition by g order by id rows between 1 following and 1 following",
    "partition by g order by id rows between unbounded preceding and unbounded following"
    " exclude current row",
    "partition by g order by id rows between unbounded preceding and 1 preceding exclude group",
]
CALLS = ["max(x)", "min(n)", "sum(n)", "avg(n)", "bool_and(n > 2)", "count(n)", "product(x)"]
CALLS += ["sum(n) filter (where n > 3)", "first_value(n ignore nulls)", "bit_or(n)"]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("call", CALLS)
def test_frames_without_rows_have_no_value(call: str, frame: str) -> None:
    given = {
        "id": list(range(1, 13)),
        "g": [1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 9],
        "x": [1.5, -3, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4],
        "n": [3, 1, None, 1, 5, 9, None, 6, None, None, 5, 8],
    }
    table = pa.table(given)
    query = f"select id, {call} over ({frame}) as c from t order by id"
    connection = duckdb.connect()
    connection.register("t", table)
    theirs = connection.sql(query).to_arrow_table()
    assert rows(eu.sql(query, t=table).to_pyarrow(), True) == rows(theirs, True)
