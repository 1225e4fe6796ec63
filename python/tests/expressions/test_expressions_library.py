"""Functions with DuckDB's names have its results over rows, and name bad input."""

from __future__ import annotations

from datetime import date, datetime

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu

ROWS = pa.table(
    {
        "s": ["", "a", "a,b,,c", "éß x%", "1a22b", None, "Mar 4 2026", "2026-03-04 05:06:07"],
        "u": ["", "b", ",", "%", "[0-9]+", "x", None, "a"],
        "n": pa.array([0, 1, -1, 255, 1 << 40, None, 7, -(1 << 62)], pa.int64()),
        "f": pa.array([0.0, 0.5, -1.5, 2.5, 1e10, None, 3.7, -7.0]),
        "d": [
            *(date(1970, 1, 1), date(2024, 2, 29), date(2023, 12, 31), date(1900, 3, 1), None),
            *(date(2026, 1, 1), date(2021, 1, 3), date(1969, 12, 31)),
        ],
        "t": pa.array(
            [
                *(datetime(2024, 2, 29, 23, 59, 59, 999999), datetime(1970, 1, 1), None),
                *(datetime(1969, 12, 31, 12, 0, 0, 1), datetime(2000, 1, 3, 0, 30)),
                *(datetime(2025, 5, 31, 6), datetime(2026, 3, 30, 1), datetime(1850, 7, 1)),
            ],
            pa.timestamp("us"),
        ),
        "j": [
            *('{"a": {"b": [1, 2.5, "x"]}}', "[1, [2], null]", '"t"', "null", "-5", None),
            *('{"x y": true, "a": []}', "1.5"),
        ],
        "l": pa.array(
            [[3, None, 1], [], None, [2, 2], [5], [-1, 4, 4, 0], [None], [7]], pa.list_(pa.int64())
        ),
    }
)

EXPRESSIONS = [
    *(
        "string_split(s, ',')",
        "string_split(s, coalesce(u, 'q'))",
        "string_split_regex(s, '[0-9]+')",
    ),
    *("regexp_extract_all(s, '[a-z]')", "regexp_extract_all(s, '([0-9])([a-z])', 2)"),
    *("hex(s)", "hex(n)", "bin(n)", "unhex(hex(s))", "md5(s)", "sha256(s)", "url_encode(s)"),
    *(
        "url_decode(url_encode(s))",
        "to_base64(unhex(hex(s)))",
        "from_base64(to_base64(unhex(hex(s))))",
    ),
    *(
        "jaccard(s || 'q', 'abc')",
        "hamming(s || 'ab', s || 'ba')",
        "ord(s)",
        "bar(f, -2, 3, 7)",
        "bit_count(n)",
    ),
    *("even(f)", "round_even(f, 0)", "format_bytes(n)", "parse_filename(s)", "parse_path(s)"),
    *("strftime(t, '%Y-%m-%d %H:%M:%S.%f %g %I %p %y %j %a %A %b %B %w %u')",),
    *("strftime(t, '%U %W %V %G|%c|%x|%X|%-d.%-m. %-H %-I %-j')", "strftime(d, '%d/%m/%y')"),
    *("try_strptime(s, '%Y-%m-%d %H:%M:%S')", "try_strptime(s, '%b %d %Y')"),
    *("strptime(strftime(t, '%Y %j %H%M%S.%f'), '%Y %j %H%M%S.%f')",),
    *("date_sub('month', d, t)", "date_sub('day', t, d)", "date_sub('quarter', t, d)"),
    *("date_diff('week', d, t)", "date_diff('hour', t, d)", "date_diff('decade', d, t)"),
    *("date_diff('isoyear', d, t)", "date_diff('millisecond', t, d)"),
    *("time_bucket(interval '15 minutes', t)", "time_bucket(interval '7 days', d)"),
    *(
        "time_bucket(interval '5 months', t)",
        "time_bucket(interval '1 day', t, interval '6 hours')",
    ),
    *("time_bucket(interval '3 hours', t, timestamp '2001-02-03 01:00:00')", "age(t, d)"),
    *("age(d, t)", "to_days(3)", "to_months(14)", "to_hours(-5)", "t + to_minutes(5)"),
    *(
        "epoch_us(t)",
        "epoch_ns(t)",
        "epoch_ms(n // 1000000)",
        "make_timestamp(2024, 2, 29, 1, 2, 3.5)",
    ),
    *("make_time(23, 59, 59.999)", "date_part('century', d)", "date_part('yearweek', d)"),
    *("date_part('era', d)", "isoyear(d)", "yearweek(d)"),
    *(
        "json_extract(j, '$.a.b[1]')",
        "json_extract_string(j, '$.a.b[2]')",
        "json_extract(j, '/1/0')",
    ),
    *("json_extract(j, '$.\"x y\"')", "json_extract_string(j, 'a')", "json_type(j)"),
    *(
        "json_type(j, '$.a')",
        "json_array_length(j)",
        "json_array_length(j, '$.a')",
        "json_valid(s)",
    ),
    *("json_value(j, '$.a.b[0]')", "json_exists(j, '$.a')", "json_keys(j)"),
    *("json_exists(j, ['$.a', '$.b'])", "json_type(j, ['$.a', '$'])", "json_keys(j, ['$', '$.a'])"),
    *("json_value(j, ['$.a.b[0]', '$.c'])", "json_array_length(j, ['$.a', '$'])"),
    "nextafter(cast(f as float), cast(n as float))",
    *("list_sort(l)", "list_sort(l, 'DESC')", "list_reverse_sort(l)", "list_count(l)"),
    *("list_min(l)", "list_max(l)", "list_median(l)", "list_first(l)", "list_last(l)"),
    *("list_stddev_pop(l)", "list_var_samp(l)", "list_unique(l)", "list_aggregate(l, 'min')"),
    *("timezone('Europe/Berlin', t)", "t at time zone 'America/New_York'"),
    "(t at time zone 'UTC') at time zone 'Asia/Kolkata'",
    "cast((t at time zone 'UTC') as varchar)",
    *(
        "s[1]",
        "s[-2:3]",
        "split_part(s, ',', 3)",
        "split_part(s, '', -1)",
        "octet_length(unhex(hex(s)))",
    ),
    *("damerau_levenshtein(s, u)", "jaro_similarity(s, u)", "jaro_winkler_similarity(s, 'a,c')"),
    *(
        "decode(unhex(hex(s)))",
        "decode(encode(s))",
        "try_cast(s as bigint)",
        "try_cast(s as time)",
        "cast(d as varchar)",
    ),
    *(
        "signbit(-f)",
        "gamma(abs(f))",
        "lgamma(f)",
        "nextafter(f, n)",
        "to_hex(n)",
        "ceil(f::decimal(14, 3))",
    ),
    *("list_distinct([n, 1, n]) = [1]", "list_where(l, [true, false, true])", "isfinite(d)"),
    *("list_sort(l, 'DESC', 'NULLS FIRST')", "date_trunc('decade', t)", "date_trunc('century', t)"),
    *(
        "date_part(['year', 'month'], d)",
        "(n, s)",
        "row(n, (s, l))",
        "d + make_time(1, 2, 3)",
    ),
    *(
        "t + 3 * interval '1 month'",
        "t + interval '5 days' / 3",
        "interval '1 day' * (f / 1e6) + t",
    ),
]


def shown(value: object) -> object:
    """Floating point numbers to nine digits; times with a zone as those of UTC."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {name: shown(item) for name, item in value.items()}
    return value


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("is_query", [False, True], ids=["project", "sql"])
def test_functions_have_the_values_of_duckdb(expression: str, is_query: bool) -> None:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.register("rows", ROWS)
    theirs = connection.sql(f"select {expression} as v from rows").to_arrow_table()
    if is_query:
        ours = eu.sql(f"select {expression} as v from rows", rows=ROWS)
    else:
        ours = eu.query(ROWS).select(v=expression)
    found = [shown(value) for value in ours.to_pyarrow().column("v").to_pylist()]
    assert found == [shown(value) for value in theirs.column("v").to_pylist()]


@pytest.mark.parametrize(
    ("expression", "error", "said"),
    [
        ("strptime(s, '%Y')", eu.FlowError, "does not read as"),
        ("strftime(t, '%q')", eu.FlowError, "no sign `%q`"),
        ("unhex(s)", eu.FlowError, "not hexadecimal"),
        ("cast(s as int)", eu.FlowError, "Cannot cast string"),
        ("cast('12' as time)", eu.FlowError, "Cannot cast string '12'"),
        ("interval '1 day' / (n - n)", eu.FlowError, "division by zero"),
        ("interval '1 day' * n", eu.FlowError, "no such interval"),
        ("decode(unhex('ff'))", eu.FlowError, "no text"),
        ("list_where(l, [null::boolean])", eu.FlowError, "has a null"),
        ("from_base64('a')", eu.FlowError, "not base64"),
        ("hamming(s, 'abc')", eu.FlowError, "different lengths"),
        ("bar(1, 2, 1, 5)", eu.FlowError, "greater"),
        ("json_extract(s, '$.a')", eu.FlowError, "malformed JSON"),
        ("time_bucket(interval '0 days', t)", eu.FlowError, "longer than nothing"),
        ("date_sub('fortnight', d, t)", eu.FlowError, "no unit of time"),
        ("make_timestamp(2023, 2, 29, 0, 0, 0.0)", eu.FlowError, "no such date"),
        ("string_split(n, ',')", eu.UsageError, "does not take"),
        ("md5()", eu.UsageError, "md5"),
        ("list_median(s)", eu.UsageError, "does not take"),
    ],
)
def test_bad_input_is_named(expression: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        eu.query(ROWS).select(v=expression).collect()
