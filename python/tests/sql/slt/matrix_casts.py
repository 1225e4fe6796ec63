"""Casts: each type's edge values to each other type, as literals and as columns."""

from __future__ import annotations

from collections.abc import Iterator

# Values of a type, as they are written; each fits some of the types it is cast to.
VALUES = {
    "varchar": [
        *("'0'", "'-1'", "'127'", "'128'", "' 42 '", "''", "'abc'", "'1.5'", "'1e3'", "'true'"),
        *("'2024-02-29'", "'2023-02-29'", "'2024-01-31 23:59:59.5'", "'nan'", "'99999999999'"),
    ],
    "boolean": ["true", "false"],
    "tinyint": ["-128", "0", "127"],
    "smallint": ["-32768", "1", "32767"],
    "int": ["-2147483648", "0", "128", "2147483647"],
    "bigint": ["-9223372036854775808", "255", "65536", "9223372036854775807"],
    "double": [
        *("'0.0'", "'-0.0'", "'1.0'", "'-129.0'", "'1e15'", "'1e300'", "'nan'", "'inf'", "'-inf'"),
    ],
    "real": ["0.0", "1.5", "-2.25", "16777216.0"],
    "decimal(10, 2)": ["0.00", "1.00", "-99999999.99", "99999999.99", "0.01"],
    "decimal(38, 0)": ["12345678901234567890123456789012345678", "-1"],
    "date": ["'1970-01-01'", "'1969-12-31'", "'2024-02-29'", "'0001-01-01'", "'9999-12-31'"],
    "timestamp": ["'2024-02-29 12:34:56.789'", "'1969-12-31 23:59:59.999999'", "'2000-01-01'"],
}
TARGETS = {
    "varchar": [
        *("boolean", "tinyint", "smallint", "int", "bigint", "double", "decimal(6, 2)", "date"),
        "timestamp",
    ],
    "boolean": ["int", "double", "varchar", "bigint"],
    "tinyint": ["smallint", "bigint", "double", "decimal(5, 1)", "varchar", "boolean"],
    "smallint": ["tinyint", "int", "double", "decimal(4, 0)", "varchar", "boolean"],
    "int": [
        "tinyint",
        "smallint",
        "bigint",
        "real",
        "double",
        "decimal(12, 2)",
        "varchar",
        "boolean",
    ],
    "bigint": ["tinyint", "smallint", "int", "double", "decimal(20, 1)", "varchar", "boolean"],
    "double": ["tinyint", "int", "bigint", "real", "varchar", "boolean"],
    "real": ["int", "double", "varchar", "decimal(10, 3)"],
    "decimal(10, 2)": ["decimal(4, 2)", "decimal(20, 5)", "double", "varchar", "boolean"],
    "decimal(38, 0)": ["bigint", "double", "varchar"],
    "date": ["timestamp", "varchar", "date"],
    "timestamp": ["date", "varchar", "time"],
}
# What is different here: see `differences.slt`.
DIFFERENT = {
    # Text is a number of other forms.
    *(("varchar", target) for target in ("tinyint", "smallint", "int", "bigint")),
}
# What fails today.
DEFECTS: dict[tuple[str, str], str] = {}
PLAIN = {"1.5", "'1.5'", "'1e3'", "'1e300'", "'nan'"}


def query(source: str, target: str, text: str) -> str:
    """A query with its condition, if it fails today."""
    reason = DEFECTS.get((source, target))
    if (source, target) == ("double", "real") and "try_cast" not in text:
        reason = None  # the literals are in the range
    return f"# {reason}\nskipif euphrates\n{text}" if reason else text


def statements() -> Iterator[str]:
    for source, values in VALUES.items():
        rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values, 1))
        name = "v_" + source.split("(")[0] + ("_wide" if "38" in source else "")
        yield f"# {source}"
        yield (
            f"create table {name} as select cast(id as int) as id, cast(v as {source}) as v\n"
            f"from (values {rows}, (99, null)) as given (id, v)"
        )
        for target in TARGETS[source]:
            is_different = (source, target) in DIFFERENT
            if not is_different:
                yield query(source, target, f"select id, try_cast(v as {target}) as c from {name}")
            for value in values[: 3 if source != "varchar" else 15]:
                if not (is_different and value in PLAIN):
                    text = f"select cast(cast({value} as {source}) as {target}) as c"
                    yield query(source, target, text)
        yield f"select id, v is null as missing, count(*) over (partition by v) as n from {name}"
