"""Functions of text, numbers, dates and conditions, over edge values and as literals."""

from __future__ import annotations

from collections.abc import Iterator

TEXTS = [
    *("''", "'a'", "'Abc'", "'  pad '", "'éß'", "'日本語'", "'a,b,,c'", "'100%'", "'a_b'"),
    *("'aAaA'", "'x' || 'y'", "'🙂z'", "null"),
]
OF_TEXT = [
    *("lower(s)", "upper(left(s, 1))", "length(s)", "char_length(s)", "character_length(s)"),
    *("reverse(s)", "trim(s)", "ltrim(s)", "rtrim(s)"),
    *("trim(both 'a' from s)", "trim(leading 'a' from s)", "trim(trailing 'b' from s)"),
    *("ltrim(s, 'a')", "rtrim(s, 'c')", "ascii(s)", "s || '!'", "s || s", "'<' || s"),
    *("concat(s, '-', s)", "concat(s, null)", "concat_ws('-', s, null, 'z')"),
    *("left(s, 1)", "left(s, 0)", "left(s, -1)", "left(s, 99)", "right(s, 1)", "right(s, -1)"),
    *("substr(s, 1)", "substr(s, 2)", "substr(s, 2, 2)", "substring(s from 2 for 1)"),
    *("substring(s, 1, 0)", "lpad(s, 4, '*')", "rpad(s, 4, '*')", "lpad(s, 2, 'ab')"),
    *("lpad(s, 0, 'x')", "repeat(s, 2)", "repeat(s, 0)", "replace(s, 'a', 'bb')"),
    *("replace(s, '', 'x')", "replace(s, 'a', '')", "split_part(s, ',', 1)"),
    *("split_part(s, ',', 3)", "split_part(s, ',', 9)", "split_part(s, ',', -1)"),
    *("strpos(s, 'a')", "strpos(s, '')", "position('b' in s)", "starts_with(s, 'a')"),
    *("starts_with(s, '')", "ends_with(s, 'c')", "contains(s, 'a')", "translate(s, 'abc', 'xy')"),
    *("s like 'a%'", "s like '%a'", "s like '_'", "s like '%'", "s like ''", "s like '%,%'"),
    *("s like '100\\%' escape '\\'", "s like 'a\\_b' escape '\\'", "s not like '%b%'"),
    *("s ilike 'A%'", "s not ilike '%B%'", "s like s", "s like null", "s ilike 'É%'"),
    *("s similar to '[a-z]+'", "regexp_replace(s, 'a', 'X')", "regexp_replace(s, 'a', 'X', 'g')"),
    *("regexp_replace(s, '(a)(.)', '\\2\\1')", "s = upper(s)", "s < 'b'", "s between 'A' and 'b'"),
    *("s in ('', 'a', null)", "s not in ('a')", "coalesce(s, 'none')", "nullif(s, '')"),
    *("ifnull(s, 'x')", "greatest(s, 'M')", "least(s, 'M')", "s is null", "s > 'Z'"),
    *("case s when 'a' then 1 when '' then 2 end", "cast(s as varchar)", "levenshtein(s, 'abc')"),
    *(
        "to_hex(length(s))",
        "chr(65 + cast(length(s) as int))",
        "bit_length(s)",
        "length(s) % 2 = 0",
    ),
    *("s ~ '^a'", "s !~ 'b'", "instr(s, 'b')"),
    *("overlay(s placing 'Q' from 1 for 1)", "upper(substr(s, 1, 1)) || lower(substr(s, 2))"),
]
# What fails today.
DEFECTS: dict[str, str] = {}
NUMBERS = [
    *("0.0", "-0.0", "1.0", "-1.0", "0.5", "-0.5", "1.5", "2.5", "-2.5", "123.456", "1e10"),
    *("-1e-5", "9007199254740993", "null"),
]
OF_NUMBER = [
    *("abs(v)", "ceil(v)", "floor(v)", "round(v)", "round(v, 1)", "round(v, -1)", "trunc(v)"),
    *("trunc(v, 1)", "exp(v / 1e10)", "power(v, 2)", "pow(v, 0)", "cbrt(v)", "sin(v)", "cos(v)"),
    *("tan(v)", "atan(v)", "atan2(v, 2)", "degrees(v)", "radians(v)", "isnan(v)"),
    *("sqrt(abs(v))", "ln(abs(v) + 1)", "log10(abs(v) + 1)", "log2(abs(v) + 1)", "-v", "+v"),
    *(
        "v * v",
        "v + 1",
        "1 - v",
        "v / 2",
        "v % 2",
        "nullif(v, 0)",
        "greatest(v, 1)",
        "sinh(v / 1e10)",
    ),
    *(
        "least(v, 0, 5)",
        "coalesce(v, -9)",
        "v between 0 and 2",
        "v = 0",
        "v > -v",
        "cosh(v / 1e10)",
    ),
    *("case when v > 0 then 'plus' when v < 0 then 'minus' else 'none' end", "tanh(v)"),
    *("asin(v / 1e16)", "acos(v / 1e16)", "cot(v + 0.1)", "log(2, abs(v) + 1)", "v is not null"),
    *("cast(v as decimal(30, 3))", "cast(floor(v) as bigint)", "v in (0, 1.5, null)"),
]
# What gives decimals for decimals.
DECIMAL_FUNCTIONS = (
    "abs",
    "round(v, ",
    "trunc(v, ",
    "v ",
    "1 - v",
    "-v",
    "nullif",
    "greatest",
    "case",
)
WHOLES = ["-3", "-1", "0", "1", "2", "7", "20", "null"]
OF_WHOLE = [
    *("abs(v)", "v % 3", "v * v - 1", "gcd(v, 6)", "lcm(v, 4)", "factorial(abs(v))"),
    *(
        "v & 3",
        "v | 8",
        "power(v, 3)",
        "v in (1, 2)",
        "v not in (1, null)",
        "case when v > 1 then v end",
    ),
    *(
        "coalesce(v, 0) + 1",
        "nullif(v, 7)",
        "greatest(v, 3, null)",
        "least(v, 3)",
        "v between 1 and 7",
    ),
    *("v not between 0 and 2", "round(v, -1)", "v >= 0 and v <= 2"),
    *("cast(v as varchar) || '#'", "v = 1 or v is null", "sqrt(abs(v))", "exp(v)", "v::double / 4"),
    *("ifnull(v, 100)", "v is distinct from 1"),
]
DATES = [
    *("'1970-01-01'", "'1969-12-31'", "'2000-02-29'", "'2023-12-31'", "'2024-01-01'"),
    *("'2024-02-29'", "'2024-12-30'", "'1900-03-01'", "'2100-02-28'", "null"),
]
TIMES = [
    *("'1970-01-01 00:00:00'", "'1969-12-31 23:59:59.999999'", "'2024-02-29 12:34:56.789'"),
    *("'2023-12-31 23:59:59'", "'2024-01-01 00:00:00.000001'", "'1900-03-01 06:00:00'", "null"),
]
FIELDS = [
    *("year", "quarter", "month", "week", "day", "dow", "doy", "isodow", "isoyear", "epoch"),
]
OF_DATE = [
    *("d + 1", "d - 1", "1 + d", "d - date '2000-01-01'", "d - d"),
    *("make_date(2024, 2, 29)", "d between date '1970-01-01' and date '2024-01-01'"),
    *("d in (date '1970-01-01', date '2024-02-29')", "d < '2000-01-01'", "d = '2024-02-29'"),
    *("coalesce(d, date '1999-09-09')", "nullif(d, date '1970-01-01')", "cast(d as timestamp)"),
    *("greatest(d, date '2000-01-01')", "cast(d as varchar)"),
]
SPANS = [
    *("1 day", "-1 day", "1 month", "13 months", "1 year", "2 weeks", "3 hours", "90 minutes"),
    *("1.5 seconds", "1 year 2 months 3 days"),
]


def table(name: str, column: str, of: str, values: list[str]) -> str:
    texts = [f"'{value}'" if value[0] in "-0123456789" else value for value in values]
    rows = ", ".join(f"({number}, {value})" for number, value in enumerate(texts, 1))
    return (
        f"create table {name} as select cast(id as int) as id, cast({column} as {of}) as {column}\n"
        f"from (values {rows}) as given (id, {column})"
    )


def over(functions: list[str], name: str) -> Iterator[str]:
    for function in functions:
        query = f"select id, {function} as c from {name}"
        reason = DEFECTS.get(function) or DEFECTS.get(f"{name}: {function}")
        yield f"# {reason}\nskipif euphrates\n{query}" if reason else query


def strings() -> Iterator[str]:
    yield table("t", "s", "varchar", TEXTS)
    yield from over(OF_TEXT, "t")
    for function in OF_TEXT[::3]:
        yield f"select {function} as c from (select 'Abc' as s) t"
    yield from [f"select id from t where {test}" for test in OF_TEXT if " like " in test]


def numbers() -> Iterator[str]:
    yield table("t", "v", "double", NUMBERS)
    yield from over(OF_NUMBER, "t")
    yield table("i", "v", "int", WHOLES)
    yield from over(OF_WHOLE, "i")
    yield table("w", "v", "bigint", WHOLES)
    yield from over(OF_WHOLE[::2], "w")
    yield table(
        "m", "v", "decimal(12, 3)", ["-2.500", "-0.001", "0", "0.05", "1.250", "9.995", "null"]
    )
    exact = [one for one in OF_NUMBER if one.startswith(DECIMAL_FUNCTIONS) and "/" not in one]
    yield from over(exact, "m")


def dates() -> Iterator[str]:
    yield table("t", "d", "date", DATES)
    yield table("s", "d", "timestamp", TIMES)
    yield from over(OF_DATE, "t")
    yield from over([one for one in OF_DATE if "1" not in one], "s")
    for field in FIELDS:
        yield f"select id, extract({field} from d) as c from t"
        yield f"select id, date_part('{field}', d) as c from s"
    for field in ["hour", "minute", "second", "millisecond", "microsecond"]:
        yield f"select id, extract({field} from d) as c from s"
    for unit in ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]:
        yield f"select id, date_trunc('{unit}', d) as c from s"
        if unit not in ("hour", "minute", "second"):
            yield f"select id, cast(date_trunc('{unit}', d) as date) as c from t"
    for span in SPANS:
        yield f"select id, d + interval '{span}' as c from s"
        yield f"select id, d - interval '{span}' as c from s"
        if "hour" not in span and "minute" not in span and "second" not in span:
            yield f"select id, cast(d + interval '{span}' as timestamp) as c from t"
        yield f"select id from s where d + interval '{span}' > timestamp '2024-01-01'"
        yield f"select interval '{span}' as c"
    for one, other in [("t", "t"), ("s", "s"), ("t", "s")]:
        yield f"select p.id, q.id as other, p.d - q.d as c from {one} p, {other} q where p.id < 4"
        yield f"select p.id, count(*) as n from {one} p join {other} q on p.d < q.d group by p.id"
