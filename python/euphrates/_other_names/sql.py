"""What Python, C and other libraries write in expressions, and how SQL has it: remedies for errors
of the parser and of the check of expressions.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Sequence

_AND = 'write and: "a > 1 and b > 2"'
_OR = 'write or: "a > 1 or b > 2"'
_NOT = 'write not: "not ok"'
_CASE = 'write "case when a > 1 then b else c end", or "if(a > 1, b, c)"'
_IS_NULL = 'write "a is null" or "a is not null"'
_NAN = 'write "isnan(a)" or "not isnan(a)"'
_IN = "write parentheses: \"city in ('Ur', 'Kish')\""
_MATCH = "write \"city ~ 'U.*'\", or regexp_like(city, 'U.*')"
_VALUE = 'put the value in, f"a > {n}", or write eu.col("a") > n'
_COLUMN = 'write the name of the column alone: "a > 1"'
_QUOTES = "write straight quotes: 'single' for text, \"double\" for names"
_TABLES = '.sql("select * from self where …"), or .join(other, "id", how="semi")'
_WINDOW = 'write .window("city", order_by="day", value="{name}(…)")'
_DISTINCT = 'write "count(distinct x)"'
AGGREGATES = {
    **dict.fromkeys(("len", "n", "size", "count_star"), 'write "count()"'),
    **dict.fromkeys(("mean", "average"), 'write "avg(x)"'),
    **dict.fromkeys(
        ("countdistinct", "count_distinct", "distinct", "n_unique", "nunique", "unique"), _DISTINCT
    ),
    "std": 'write "stddev(x)"',
    "skew": 'write "skewness(x)"',
    "prod": 'write "product(x)"',
    "percentile": 'write "quantile(x, 0.5)"',
    "collect_list": 'write "list(x)"',
    "implode": 'write "list(x)"',
    "collect_set": 'write "list(distinct x)"',
    "any": 'write "bool_or(x > 1)"',
    "all": 'write "bool_and(x > 1)"',
    "concat": "write \"string_agg(city, ',')\"",
    "join": "write \"string_agg(city, ',')\"",
    "head": 'write .top(5, by="day", per="city")',
    "tail": 'write .top(5, by="day", per="city")',
    "cumsum": 'write .window("city", order_by="day", total="sum(x)")',
    "cum_sum": 'write .window("city", order_by="day", total="sum(x)")',
    **{
        name: _WINDOW.format(name=name)
        for name in ("dense_rank", "lag", "lead", "ntile", "rank", "row_number")
    },
}
"""Functions that no aggregate has as its name."""
FUNCTIONS = {
    "iif": _CASE,
    "ifelse": _CASE,
    "if_else": _CASE,
    "where": _CASE,
    "when": _CASE,
    "str": 'write "cast(a as text)"',
    "int": 'write "cast(a as int)"',
    "float": 'write "cast(a as double)"',
    "bool": 'write "cast(a as boolean)"',
    "astype": 'write "cast(a as int)"',
    "between": 'write "a between 1 and 2"',
    "is_between": 'write "a between 1 and 2"',
    **dict.fromkeys(("is_in", "isin"), _IN),
    **dict.fromkeys(
        ("is_null", "isna", "isnull", "is_not_null", "isnotnull", "notna", "notnull"), _IS_NULL
    ),
    **dict.fromkeys(("fillna", "fill_null"), 'write "coalesce(a, 0)"'),
    **dict.fromkeys(("len_chars", "size"), 'write "length(city)"'),
    "startswith": "write \"starts_with(city, 'U')\"",
    "endswith": "write \"ends_with(city, 'r')\"",
    "col": _COLUMN,
    "lit": "write the value alone: 1, 'text', date '2026-01-31'",
    "max": 'write "greatest(a, b)" for values of a row; .group_by().agg(m="max(a)") for rows',
    "min": 'write "least(a, b)" for values of a row; .group_by().agg(m="min(a)") for rows',
    **{
        name: _WINDOW.format(name=name)
        for name in ("dense_rank", "lag", "lead", "ntile", "rank", "row_number")
    },
}
"""Functions that no expression of a row has as its name."""
_OF_ROWS = 'write .group_by("city").agg(value="{name}(a)"), or .window("city", value="{name}(a)")'
_WORDS = {
    **dict.fromkeys(("?", "if"), _CASE),
    ";": "leave it out",
    "{": _VALUE,
    "=>": 'write "a >= 1"',
    "as": 'write the name in front: total="sum(a)"',
    "over": 'write .window("city", order_by="day", total="sum(a)")',
    "mod": 'write "a % 2 = 0"',
    ")": "leave it out, or open it: it closes nothing",
    **{
        word: f'write "a {sign} 1"'
        for word, sign in {
            **{"eq": "=", "ne": "<>", "neq": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
            **{"lte": "<=", "gte": ">="},
        }.items()
    },
    **{word: FUNCTIONS[word] for word in ("startswith", "endswith")},
    "contains": "write \"contains(city, 'U')\"",
    "isin": _IN,
    "matches": _MATCH,
}
"""Words and signs that stand where none is expected."""
_SIGNS = {
    ("*", "*"): 'write "power(x, 2)"',
    ("=", "<"): 'write "a <= 1"',
    ("=", ">"): 'write "a >= 1"',
    ("=", "="): 'write "a = 1"',
    ("=", "!"): 'write "a != 1"',
}
"""Pairs of signs of which the second is not expected."""
_CONDITIONS = (
    (r"the operator && |^& does not join .*\(true or false\)", _AND),
    (r"^cannot compare `[^`]* & |^& does not join", _AND),
    (r"^cannot compare `[^`]* \| |^\| does not join", _OR),
    (r"^\|\| joins text or bytes, not .*\(true or false\)", _OR),
    (r"^\|\| joins text or bytes", f'{_OR}; || joins texts: "cast(n as text) || city"'),
    (
        r"^cannot compare `[^`]*[<>]=? [^`]*` \(true or false\)",
        'write two conditions: "1 < a and a < 3", or "a between 1 and 3"',
    ),
    (r"the operator ~ is not supported", f"{_NOT}; \"city ~ 'U.*'\" is a match"),
    (r"after IS, found: (nan|NaN)", _NAN),
    (r"after IS, found: ", _IS_NULL),
    (r"^expected \(, found: [\[{]", _IN),
    (r"^expected \), found: the end", "close the parenthesis"),
    (r"^expected AND, found: ,", 'write "a between 1 and 2"'),
    (r"^expected :, found: }|^no column named `@", _VALUE),
    (r"^nothing is known of the value of", f"{_VALUE}, or a variable of the flow: eu.var"),
    (r"found: !", _NOT),
    (r"found: [“”„‘’`´]", _QUOTES),
    (r"^Unterminated string literal", "write a quote in a text twice: 'O''Neil'"),
    (r"token Sharp", "write comments behind --"),
    (r'"div"', 'write "a // 2"'),
    (r"(RLIKE|REGEXP) .* is not supported in expressions", _MATCH),
    (r"^`lambda .* is not supported in expressions", _COLUMN),
    (r"SELECT .* is not supported in expressions", f"write {_TABLES}"),
    (r"^no column named `(None|none|nil|undefined|NA)`", _IS_NULL),
    (r"^no column named `(NaN|nan)`", _NAN),
    (
        r"' does not read as a (whole )?number",
        'compare numbers with numbers, "a > 1", or as text: "cast(a as text) > \'1\'"',
    ),
    (r"^`[^`]*col\([^`]*` is not one function", 'write "sum(x)", or eu.col("x").sum()'),
    (r"^`lambda [^`]*` is not one function", 'write "sum(x)"'),
)
"""What the errors of conditions and values begin with or contain, and remedies."""
_TEXT_BEFORE = re.compile(r"(=|<>|!=|\blike|\bin \(.*)\s*$", re.IGNORECASE)


def remedy_of(message: str, places: Sequence[str], remedy: str | None) -> str | None:
    """The remedy of an error of an expression that is written as in another language; of others,
    the given one.
    """
    first, expression, mark = [*message.split("\n"), "", ""][:3]
    at = mark.find("^") if mark.strip() == "^" else -1
    is_aggregate = any(place.startswith("values") for place in places)
    before, behind = (expression[:at], expression[at:]) if at >= 0 else ("", "")
    if function := re.match(r"no function named `([^`]+)`", first):
        return _of_function(function[1], is_aggregate) or remedy
    if unexpected := re.match(r"`([^`]+)` is not expected here", first):
        if unexpected[1] == "," and is_aggregate:
            return 'give each a name: .agg(low="min(a)", high="max(a)")'
        return _of_word(unexpected[1], before.strip(), behind) or remedy
    if pair := _SIGNS.get((before.rstrip()[-1:], behind[:1])):
        return pair
    for pattern, instead in _CONDITIONS:
        if re.search(pattern, first):
            return instead
    if "found: the end of the expression" in first and before.split():
        return f"complete it: nothing follows `{before.split()[-1]}`"
    if column := re.match(r"no column named `([^`]+)`", first):
        return _of_column(column[1], before, behind, remedy)
    return remedy


def _of_function(name: str, is_aggregate: bool) -> str | None:
    """The remedy for a function that does not exist, or a method."""
    owner, _, method = name.rpartition(".")
    word = method.lower()
    if word == "col" and owner:
        return _COLUMN
    table = AGGREGATES if is_aggregate else FUNCTIONS
    if word in table:
        return table[word]
    from .._euphrates import sql_functions

    known = sql_functions()
    if owner:
        column = owner.partition(".")[0]
        is_known = word in known["aggregate"] or word in known["scalar"] or word == "len"
        return f'write "{word}({column})", its arguments behind the column' if is_known else None
    if not is_aggregate and word in known["aggregate"]:
        return _OF_ROWS.format(name=word)
    return None


def _of_word(word: str, before: str, behind: str) -> str | None:
    """The remedy for a word or sign that is not expected."""
    if word == ",":
        is_last = behind.strip() == ","
        return "leave it out" if is_last else 'give each by itself: .filter("a > 1", "b > 2")'
    if before.lower() in ("select", "where"):
        return f'leave out `{before}`, or write .sql("select … from self where …")'
    return _WORDS.get(word.lower())


def _of_column(name: str, before: str, behind: str, remedy: str | None) -> str | None:
    """The remedy for a column that does not exist: the name may be text, or that of a table."""
    if behind[len(name) : len(name) + 1] in (".", "["):
        return f"{_COLUMN}; {remedy}" if remedy else _COLUMN
    if re.search(r"\bcast\([^()]*, $", before, re.IGNORECASE):
        return f'write "cast(a as {name})"'
    is_text = _TEXT_BEFORE.search(before) and not (remedy or "").startswith("did you mean")
    if is_text and "single quotes" not in (remedy or ""):
        return f"text stands in 'single quotes': '{name}'; {remedy}"
    return remedy
