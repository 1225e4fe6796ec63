"""Operators, functions and constants of Python, C and other libraries in expressions: every error
says what to write, and what it says can be run.
"""

from __future__ import annotations

import re

import pytest

import euphrates as eu
from euphrates._other_names import sql

ROWS = eu.query(
    {
        **{name: [1, 2] for name in ("a", "b", "c", "day", "n")},
        "city": ["Ur", "Kish"],
        "ok": [True, False],
        "x": [1.5, 2.5],
    }
)


def remedy_of(error: eu.UsageError) -> str:
    return str(error.remedy)


@pytest.mark.parametrize(
    ("condition", "remedy"),
    [
        ("a > 1 & b > 2", 'write and: "a > 1 and b > 2"'),
        ("(a > 1) & (b > 2)", 'write and: "a > 1 and b > 2"'),
        ("a > 1 && b > 2", 'write and: "a > 1 and b > 2"'),
        ("(a > 1) | (b > 2)", 'write or: "a > 1 or b > 2"'),
        ("(a > 1) || (b > 2)", 'write or: "a > 1 or b > 2"'),
        ("a > 1 || b > 2", 'write or: "a > 1 or b > 2"'),
        ("!ok", 'write not: "not ok"'),
        ("~ok", 'write not: "not ok"'),
        ("a == None", '"a is null"'),
        ("a is None", '"a is null"'),
        ("a is not None", '"a is not null"'),
        ("x = NaN", '"isnan(a)"'),
        ("x is nan", '"isnan(a)"'),
        ("city in ['Ur']", "city in ('Ur', 'Kish')"),
        ("city not in ['Ur']", "city in ('Ur', 'Kish')"),
        ("city in {'Ur'}", "city in ('Ur', 'Kish')"),
        ("city = Ur", "single quotes': 'Ur'; columns: a, b"),
        ("city in ('Kish', Ur)", "single quotes': 'Ur'"),
        ("city = `Ur`", "single quotes': 'Ur'"),
        ('city = "Ur"', "text stands in 'single quotes'"),
        ("x ** 2 > 1", '"power(x, 2)"'),
        ("a ? true : false", "case when"),
        ("ok if a > 1 else false", "case when"),
        ("iif(a > 1, true, false)", "case when"),
        ("{x} > 1", 'f"a > {n}"'),
        ("a > ${n}", 'f"a > {n}"'),
        ("a > @n", 'f"a > {n}"'),
        ("a > :n", "eu.var"),
        ("a > ?", 'eu.col("a") > n'),
        ("city.str.len() > 1", '"len(city)"'),
        ("city.upper() = 'UR'", '"upper(city)"'),
        ("city.str.contains('U')", '"contains(city)", its arguments behind'),
        ("a.is_null()", '"a is null"'),
        ("isnull(a)", '"a is null"'),
        ("notna(a)", '"a is not null"'),
        ("1 < a < 3", '"1 < a and a < 3"'),
        ('col("a") > 1', 'the column alone: "a > 1"'),
        ('pl.col("a") > 1', 'the column alone: "a > 1"'),
        ("df.a > 1", 'the column alone: "a > 1"'),
        ('df["a"] > 1', 'the column alone: "a > 1"'),
        ("lambda r: r.a > 1", 'the column alone: "a > 1"'),
        ("a > 1,", "leave it out"),
        ("a > 1;", "leave it out"),
        ("a > 1, b > 2", '.filter("a > 1", "b > 2")'),
        ("a > 1 # many", "--"),
        ("(a > 1", "close the parenthesis"),
        ("a > 1)", "leave it out"),
        ("a > 1 and", "nothing follows `and`"),
        ("a => 1", '"a >= 1"'),
        ("a =< 1", '"a <= 1"'),
        ("a =! 1", '"a != 1"'),
        ("a === 1", '"a = 1"'),
        ("a gt 1", '"a > 1"'),
        ("a > 'many'", '"cast(a as text)'),
        ("city =~ 'U.*'", "city ~ 'U.*'"),
        ("city rlike 'U.*'", "city ~ 'U.*'"),
        ("city startswith 'U'", "starts_with(city, 'U')"),
        ("startswith(city, 'U')", "starts_with(city, 'U')"),
        ("a between 1, 2", '"a between 1 and 2"'),
        ("between(a, 1, 2)", '"a between 1 and 2"'),
        ("cast(a, int) > 1", '"cast(a as int)"'),
        ("int(x) > 1", '"cast(a as int)"'),
        ("str(a) = '1'", '"cast(a as text)"'),
        ("max(a, b) > 1", '"greatest(a, b)"'),
        ("sum(a) > 1", '.agg(value="sum(a)")'),
        ("row_number() = 1", '.window("city"'),
        ("a > (select max(a) from self)", '.sql("select * from self where …")'),
        ("where a > 1", "leave out `where`"),
        ("a mod 2 = 0", '"a % 2 = 0"'),
        ("a div 2 = 1", '"a // 2"'),
        ("“city” = 'Ur'", "straight quotes"),
        ("city = 'O'Neil'", "'O''Neil'"),
    ],
)
def test_conditions_of_other_languages_are_answered_with_sql(condition: str, remedy: str) -> None:
    with pytest.raises(eu.UsageError) as error:
        ROWS.filter(condition).collect()
    assert remedy in remedy_of(error.value)


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("len()", '"count()"'),
        ("mean(x)", '"avg(x)"'),
        ("np.mean(x)", '"avg(x)"'),
        ("nunique(x)", '"count(distinct x)"'),
        ("countDistinct(x)", '"count(distinct x)"'),
        ("std(x)", '"stddev(x)"'),
        ("collect_list(x)", '"list(x)"'),
        ("any(ok)", '"bool_or('),
        ("x.sum()", '"sum(x)"'),
        ('eu.col("x").sum()', 'eu.col("x").sum()'),
        ("lambda g: g.x.sum()", '"sum(x)"'),
        ("sum(x) as total", 'total="sum(a)"'),
        ("min(a), max(a)", '.agg(low="min(a)", high="max(a)")'),
        ("sum(x) over (partition by a)", ".window("),
        ("rank()", ".window("),
        ("cumsum(x)", ".window("),
        ("head(x)", ".top("),
    ],
)
def test_aggregates_of_other_languages_are_answered_with_ours(value: str, remedy: str) -> None:
    with pytest.raises(eu.UsageError) as error:
        ROWS.group_by("city").agg(v=value).collect()
    assert remedy in remedy_of(error.value)


@pytest.mark.parametrize("condition", ["a = bb", "nope > 1", "upper(cty) = 'UR'"])
def test_names_of_columns_that_are_misspelt_keep_their_remedy(condition: str) -> None:
    with pytest.raises(eu.UsageError, match="no column named") as error:
        ROWS.filter(condition).collect()
    assert "did you mean" in remedy_of(error.value) or "columns: a, b" in remedy_of(error.value)


@pytest.mark.parametrize("name", sorted(sql.AGGREGATES))
def test_aggregates_that_are_answered_do_not_exist_and_their_answers_run(name: str) -> None:
    with pytest.raises(eu.UsageError, match="no function named") as error:
        ROWS.group_by("city").agg(v=f"{name}(x)").collect()
    assert remedy_of(error.value) == sql.AGGREGATES[name]
    instead = re.fullmatch(r'write "(.*)"', sql.AGGREGATES[name])
    if instead:
        assert ROWS.group_by("city").agg(v=instead[1]).collect().num_rows == 2
    elif "…" not in sql.AGGREGATES[name]:
        assert eval("rows" + sql.AGGREGATES[name].removeprefix("write "), {"rows": ROWS}).columns


@pytest.mark.parametrize("name", sorted(sql.FUNCTIONS))
def test_functions_that_are_answered_do_not_exist_and_their_answers_run(name: str) -> None:
    with pytest.raises(eu.UsageError) as error:
        ROWS.select(v=f"{name}(a, 1)").collect()
    assert remedy_of(error.value) == sql.FUNCTIONS[name]
    for instead in re.findall(r'(?:write|or) "([^"]*)"', sql.FUNCTIONS[name]):
        column = "x" if "isnan" in instead else "a"
        assert ROWS.select(v=instead.replace("(a)", f"({column})")).collect().num_rows == 2
