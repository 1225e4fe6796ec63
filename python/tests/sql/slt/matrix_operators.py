"""Operators: arithmetic, comparison and logic, for pairs of types with their edges and nulls."""

from __future__ import annotations

from collections.abc import Iterator

NUMBERS = {
    "i8": ("tinyint", ["-128", "-1", "0", "3", "127", "null"]),
    "i16": ("smallint", ["-32768", "-7", "0", "2", "32767", "null"]),
    "i32": ("int", ["-2147483648", "-3", "0", "5", "2147483647", "null"]),
    "i64": ("bigint", ["-4611686018427387904", "-2", "0", "7", "4611686018427387903", "null"]),
    "f32": ("real", ["-1.5", "-0.5", "0.0", "2.25", "1048576.0", "null"]),
    "f64": ("double", ["-1e100", "-2.5", "0.0", "0.125", "1e15", "null"]),
    "dec": ("decimal(9, 2)", ["-1234567.89", "-0.01", "0.00", "1.50", "9999999.99", "null"]),
    "big": ("decimal(18, 4)", ["-12345678901234.5678", "-1.0000", "0", "2.5", "0.0001", "null"]),
}
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]
OTHERS = {
    "t": ("varchar", ["''", "'a'", "'A'", "'b'", "'é'", "null"]),
    "b": ("boolean", ["true", "false", "true", "false", "null", "null"]),
    "d": (
        "date",
        [
            *("'1970-01-01'", "'1969-12-31'", "'2024-02-29'", "'2024-03-01'", "'1900-01-01'"),
            "null",
        ],
    ),
    "ts": (
        "timestamp",
        [
            *("'1970-01-01 00:00:00'", "'1969-12-31 23:59:59.5'", "'2024-02-29 00:00:00.000001'"),
            *("'2024-03-01'", "'1900-01-01 12:00:00'", "null"),
        ],
    ),
}


def table(name: str, columns: dict[str, tuple[str, list[str]]]) -> str:
    rows = zip(*(values for _, values in columns.values()), strict=True)
    casts = ", ".join(f"cast({column} as {of}) as {column}" for column, (of, _) in columns.items())
    texts = [[one if one == "null" else "'" + one.strip("'") + "'" for one in row] for row in rows]
    values = ",\n  ".join(f"({number}, {', '.join(row)})" for number, row in enumerate(texts, 1))
    return (
        f"create table {name} as select cast(id as int) as id, {casts}\n"
        f"from (values\n  {values}\n) as given (id, {', '.join(columns)})"
    )


def arithmetic() -> Iterator[str]:
    yield table("n", NUMBERS)
    names = list(NUMBERS)
    for one in names:
        yield f"select id, -{one} as c from n where id > 1"
        yield f"select id, abs({one}) as c from n where id > 1"
        for other in names:
            limited = "p.id in (2, 3, 4, 6) and q.id in (2, 4, 6)"
            for sign in ["+", "-", "*"]:
                if names.index(one) <= names.index(other) or sign == "-":
                    yield (
                        f"select p.id, q.id as other, p.{one} {sign} q.{other} as c\n"
                        f"from n p, n q where {limited}"
                    )
            if not {"dec", "big"} & {one, other}:
                yield (
                    f"select p.id, q.id as other, p.{one} % q.{other} as c\n"
                    f"from n p, n q where {limited}"
                )
    for one in ["f32", "f64"]:
        yield f"select id, {one} / 4 as c from n"
        yield f"select id, {one} / 0.5e0 as c from n"


def comparison() -> Iterator[str]:
    yield table("n", NUMBERS)
    yield table("o", OTHERS)
    for one in NUMBERS:
        for other in NUMBERS:
            if list(NUMBERS).index(one) <= list(NUMBERS).index(other):
                tests = ", ".join(
                    f"p.{one} {sign} q.{other} as c{place}"
                    for place, sign in enumerate(COMPARISONS)
                )
                yield (
                    f"select p.id, q.id as other, {tests}\nfrom n p, n q"
                    f" where p.id in (1, 3, 5, 6) and q.id in (2, 3, 6)"
                )
        for literal in ["0", "-3", "2.5", "127", "null"]:
            yield f"select id from n where {one} > {literal} or {one} = {literal}"
            yield f"select id, {one} <> {literal} as c from n"
        yield f"select id from n where {one} in (0, 3, 5, null)"
        yield f"select id, {one} not in (0, 3, 5, null) as c from n"
        yield f"select id from n where {one} between -2 and 5"
        yield f"select id, {one} not between 1 and 3 as c from n"
    for one in OTHERS:
        for sign in COMPARISONS:
            yield (
                f"select p.id, q.id as other, p.{one} {sign} q.{one} as c\n"
                f"from o p, o q where p.id in (1, 2, 5, 6)"
            )
        yield f"select min({one}) as lo, max({one}) as hi from o"
    for sign in COMPARISONS:
        yield f"select p.id, q.id as other, p.d {sign} q.ts as c from o p, o q where p.id < 4"
        yield f"select id from o where d {sign} date '2024-02-29'"
        yield f"select id from o where t {sign} 'a'"
        yield f"select id from o where ts {sign} timestamp '2024-02-29 00:00:00.000001'"


def logic() -> Iterator[str]:
    values = ["true", "false", "cast(null as boolean)"]
    for one in values:
        yield f"select not {one} as c"
        for test in ["true", "not true", "false", "not false", "null", "not null", "unknown"]:
            yield f"select {one} is {test} as c"
        for other in values:
            yield f"select {one} and {other} as a, {one} or {other} as o"
            yield f"select {one} = {other} as e, {one} <> {other} as n"
            yield f"select not ({one} and not {other}) as c"
    yield (
        "create table l as select p.v as a, q.v as b\n"
        "from (values (true), (false), (null)) p(v), (values (true), (false), (null)) q(v)"
    )
    for test in [
        *("a and b", "a or b", "not a", "not (a and b)", "not (a or b)", "a = b", "a <> b"),
        *("a is not distinct from b", "a and not b", "(a or b) and not (a and b)"),
        *("a is true", "a is not true and b is null", "coalesce(a, b)", "a or null", "a and null"),
        *("case when a then b else not b end", "a in (b, true)", "a in (b, null)", "a > b"),
    ]:
        yield f"select a, b, {test} as c from l"
        yield f"select a, b from l where {test}"
        yield f"select count(*) as n, count({test}) as known from l"
