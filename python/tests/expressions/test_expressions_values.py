"""Values at the edges of numeric types keep their digits in every operation."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu

TINY = Decimal("0.000001")


def of(table: pa.Table, *expressions: str, memory: str | None = None) -> list[Any]:
    """The first row of each expression."""
    flow = eu.Flow("values")
    items = [f"{text} as x{number}" for number, text in enumerate(expressions)]
    flow.chain(eu.from_arrow(table), eu.project(items), eu.collect())
    out = pa.table(flow.go(progress=False, memory=memory).collected())
    return [column[0].as_py() for column in out.columns]


def row(**columns: tuple[Any, pa.DataType]) -> pa.Table:
    return pa.table({name: pa.array([value], of) for name, (value, of) in columns.items()})


WIDE = row(
    a=(Decimal(12345), pa.decimal256(76, 0)),
    large=(Decimal(10**70), pa.decimal256(76, 0)),
    half=(Decimal("0.5"), pa.decimal256(76, 76)),
    z=(None, pa.decimal256(76, 76)),
    w=(None, pa.decimal256(76, 20)),
    d=(TINY, pa.decimal64(18, 6)),
    i=(-5, pa.int64()),
    n=(None, pa.int64()),
)


@pytest.mark.parametrize(
    "text",
    ["coalesce(z, a)", "greatest(half, a)", "case when z is null then a else z end",
     "coalesce(w, large)", "cast(a as Decimal256(76, 76))", "nvl(z, a)"],
)  # fmt: skip
def test_decimals_without_a_common_scale_fail(text: str) -> None:
    with pytest.raises(eu.FlowError, match=r"Decimal256\(76, \d+\)|overflow|Overflow|too large"):
        of(WIDE, text)


def test_try_cast_beyond_76_digits_is_null() -> None:
    assert of(WIDE, "try_cast(a as Decimal256(76, 76))", "try_cast(a as Decimal256(76, 70))") == [
        None,
        Decimal(12345),
    ]


def test_decimals_of_distant_scales_keep_values_that_fit() -> None:
    assert of(WIDE, "coalesce(w, a)", "coalesce(z, half)", "greatest(w, d)") == [
        Decimal(12345),
        Decimal("0.5"),
        TINY,
    ]


@pytest.mark.parametrize(
    "names", ["n, d, a", "n, a, d", "d, n, a", "d, a, n", "a, n, d", "a, d, n"]
)
def test_common_decimal_type_is_order_independent(names: str) -> None:
    table = row(n=(None, pa.int64()), d=(TINY, pa.decimal64(18, 6)), a=(None, pa.decimal256(76, 0)))
    assert of(table, f"coalesce({names})", f"greatest({names})") == [TINY, TINY]
    small = row(n=(None, pa.int64()), d=(TINY, pa.decimal64(18, 6)), a=(None, pa.decimal128(38, 0)))
    assert of(small, f"coalesce({names})", f"least({names})") == [TINY, TINY]


def test_integer_decimal_arithmetic_keeps_all_digits() -> None:
    most = Decimal("999999999999.999999")
    table = row(i=(-(2**63), pa.int64()), d=(most, pa.decimal64(18, 6)), a=(1, pa.int8()))
    assert of(table, "greatest(i, d, a)", "greatest(a, i, d)", "least(d, a, i)") == [
        most,
        most,
        Decimal(-(2**63)),
    ]


def test_nvl_types_match_coalesce() -> None:
    table = pa.table(
        {
            "d": pa.array([Decimal("12345678901234567890.12")]),
            "t": pa.array([1], pa.time64("us")),
            "day": pa.array([19000], pa.int32()).view(pa.date32()),
            "u": pa.array([2**64 - 1], pa.uint64()),
            "b": pa.array([b"\xff"]),
            "st": pa.array([{"x": 1}]),
        }
    )
    for name in table.column_names:
        for function in ("nvl", "ifnull", "NVL"):
            text = f"{function}({name}, {name})"
            flow = eu.Flow("nvl")
            flow.chain(eu.from_arrow(table), eu.project([f"{text} as x"]), eu.collect())
            out = pa.table(flow.go(progress=False).collected())
            assert out["x"].type == table[name].type, text
            assert out["x"].to_pylist() == table[name].to_pylist(), text
    assert of(table, "nvl(d, 0)", "ifnull(u, 0)") == [Decimal("12345678901234567890.12"), 2**64 - 1]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("function", ["round", "trunc"])
def test_rounding_to_any_digits_is_finite(kind: pa.DataType, function: str) -> None:
    largest = 1e300 if kind == pa.float64() else float(2.0**100)
    table = pa.table(
        {
            "x": pa.array([largest, 1.5, -1.5, math.inf, None], kind),
            "n": pa.array([10, 309, -400, 309, 309], pa.int32()),
        }
    )
    flow = eu.Flow("rounding")
    texts = [f"{function}(x, {n})" for n in (309, -400, 400, "n")]
    items = [f"{text} as x{number}" for number, text in enumerate(texts)]
    flow.chain(eu.from_arrow(table), eu.project(items), eu.collect())
    out = pa.table(flow.go(progress=False).collected())
    same = table["x"].to_pylist()
    assert out["x0"].to_pylist() == same
    assert out["x1"].to_pylist()[:3] == [0.0, 0.0, 0.0]
    assert out["x2"].to_pylist() == same
    assert out["x3"].to_pylist() == [largest, 1.5, 0.0, math.inf, None]
    assert of(table, f"{function}(1.5, 310)", f"{function}(1.5, -400)") == [1.5, 0.0]


def test_decimals_without_a_common_type_compare_exactly() -> None:
    table = row(
        i=(-5, pa.int8()),
        tiny=(Decimal(1).scaleb(-76), pa.decimal256(76, 76)),
        minus=(Decimal(-1).scaleb(-76), pa.decimal256(76, 76)),
        zero=(Decimal(0), pa.decimal256(76, 76)),
        none=(0, pa.int8()),
        d=(Decimal("12345.000001"), pa.decimal128(18, 6)),
        a=(Decimal(12345), pa.decimal256(76, 0)),
        same=(Decimal("12345.000000"), pa.decimal128(18, 6)),
        low=(Decimal(-(10**75)), pa.decimal256(76, 0)),
        null=(None, pa.decimal256(76, 76)),
    )
    true = ["i < tiny", "i < minus", "minus < none", "none < tiny", "none = zero", "a < d",
            "a = same", "d > a", "d <> a", "low < minus", "low < i", "a in (same, d)",
            "none between minus and tiny", "zero is not distinct from none", "none <= zero",
            "case a when d then false when same then true end"]  # fmt: skip
    assert [text for text, is_true in zip(true, of(table, *true)) if is_true is not True] == []
    false = ["i = tiny", "a >= d", "d < a", "a in (d, tiny)", "minus = tiny"]
    assert of(table, *false) == [False] * len(false)
    assert of(table, "i = null", "a < null") == [None, None]


def test_scalar_results_of_long_texts_need_no_memory() -> None:
    text = "é" + "x" * 20_000_000
    table = pa.table({"s": pa.array([text])})
    found = of(
        table,
        "length(s)",
        "octet_length(s)",
        "strpos(s, 'x')",
        "ascii(s)",
        "left(s, 2)",
        "right(s, 2)",
        "substr(s, 1, 3)",
        "starts_with(s, 'é')",
        memory="128MiB",
    )
    assert found == [20_000_001, 20_000_002, 2, 233, "éx", "xx", "éxx", True]


def test_unterminated_prefix_needs_memory_for_the_text() -> None:
    table = pa.table({"s": pa.array(["x" * 20_000_000])})
    for text in ("left(s, -1)", "substr(s, 2)", "substr(s, 2, 19000000)"):
        with pytest.raises(eu.ResourceError, match="would be made of one row"):
            of(table, text, memory="128MiB")


#: The parser's limit.
NESTED = 48


@pytest.mark.parametrize(
    ("open_", "close", "first", "expected"),
    [("coalesce(", ", a + 1)", "a", 1), ("nvl(", ", a + 1)", "n", 2), ("nullif(", ", 7)", "a", 1),
     ("nullif(", ", n)", "a + 6", 7), ("coalesce(n, ", ")", "a", 1),
     ("nullif(", ", 7)", "a + 6", None), ("coalesce(nullif(", ", 1), a + 1)", "a", 2),
     ("nvl2(", ", a, n)", "a", 1)],
)  # fmt: skip
def test_nested_case_is_translated_once(
    open_: str, close: str, first: str, expected: int | None
) -> None:
    """Translation that doubles at each of 48 levels would not end."""
    levels = NESTED // 2 if open_.count("(") == 2 else NESTED
    table = pa.table({"a": pa.array([1]), "n": pa.array([None], pa.int64())})
    assert of(table, open_ * levels + first + close * levels) == [expected]


def test_coalesce_is_lazy_per_row() -> None:
    table = pa.table(
        {
            "a": pa.array([10, None, None, 40]),
            "z": pa.array([0, 5, None, 0]),
            "c": pa.array(["x", None, "y", None]).dictionary_encode(),
            "k": pa.array([None, "p", "x", "q"]).dictionary_encode(),
            "s": pa.array(["long " * 20, None, None, "b"]),
            "y": pa.array([True, None, False, None]),
        }
    )
    cases = {
        "coalesce(a, 100 / z)": [10, 20, None, 40],
        "coalesce(a, 100 / z, 7)": [10, 20, 7, 40],
        "coalesce(null, a, 7)": [10, 7, 7, 40],
        "coalesce(a, null)": [10, None, None, 40],
        "coalesce(7, 1 / 0)": [7] * 4,
        "coalesce(a)": [10, None, None, 40],
        "coalesce(c, k)": ["x", "p", "y", "q"],
        "coalesce(c, 'z')": ["x", "z", "y", "z"],
        "coalesce(s, c, 'z')": ["long " * 20, "z", "y", "b"],
        "coalesce(y, a = 10, true)": [True, True, False, False],
        "coalesce(a > 20, y, false)": [False, False, False, True],
        "nullif(a + 1, 11)": [None, None, None, 41],
        "nullif(a + 1, z + 11)": [None, None, None, 41],
        "nullif(upper(c), 'X')": [None, None, "Y", None],
        "nullif(a + 1, 11.0)": [None, None, None, 41],
        "nullif(a + 1, null)": [11, None, None, 41],
    }
    for text, expected in cases.items():
        flow = eu.Flow("lazy")
        flow.chain(eu.from_arrow(table, order=True), eu.project([f"{text} as x"]), eu.collect())
        assert pa.table(flow.go(progress=False).collected())["x"].to_pylist() == expected, text


def test_binary_layouts_compare_with_each_other() -> None:
    table = row(
        two=(b"ab", pa.binary(2)),
        three=(b"abc", pa.binary(3)),
        large=(b"ab", pa.large_binary()),
        plain=(b"ab", pa.binary()),
        view=(b"ab", pa.binary_view()),
        none=(None, pa.binary(3)),
    )
    true = ["two = large", "large = two", "two = plain", "two = view", "two < three",
            "three <> two", "three > large", "two in (three, plain)", "two = 'ab'",
            "two < 'abc'", "large = 'ab'", "view = 'ab'", "two in ('abc', 'ab')", "two = X'6162'",
            "two between plain and three"]  # fmt: skip
    assert [text for text, is_true in zip(true, of(table, *true)) if is_true is not True] == []
    chosen = ["coalesce(none, two)", "coalesce(none, large)", "coalesce(none, two, plain, large)"]
    assert of(table, *chosen) == [b"ab"] * 3


@pytest.mark.parametrize(
    ("zone", "local", "instant"),
    [("America/Sao_Paulo", "2018-11-04 00:00:00", "2018-11-04 03:00:00"),
     ("America/Sao_Paulo", "2018-11-04 00:30:00", "2018-11-04 03:30:00"),
     ("America/Sao_Paulo", "2018-11-03 23:30:00", "2018-11-04 02:30:00"),
     ("America/Sao_Paulo", "2018-02-17 23:30:00", "2018-02-18 02:30:00"),
     ("Europe/Berlin", "2024-03-31 02:30:00", "2024-03-31 01:30:00"),
     ("Europe/Berlin", "2024-10-27 02:30:00", "2024-10-27 01:30:00"),
     ("Europe/Berlin", "2024-10-27 03:00:00", "2024-10-27 02:00:00"),
     ("Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30 22:00:00")],
)  # fmt: skip
def test_skipped_and_repeated_local_times_are_resolved(zone: str, local: str, instant: str) -> None:
    """The instants match DuckDB's."""
    at = datetime.datetime.fromisoformat(instant)
    when = datetime.datetime.fromisoformat(local)
    for unit in ("s", "ms", "us", "ns"):
        table = pa.table({
            "s": pa.array([at, None]).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, "UTC"))
            .cast(pa.timestamp(unit, zone)),
            "d": pa.array([when, when]).cast(pa.timestamp(unit)),
        })  # fmt: skip
        assert of(table, "s = d", "s < d", "s >= d", "coalesce(null, d, s) = s") == [
            True,
            False,
            True,
            True,
        ], unit
    if local.endswith("00:00:00"):
        day = pa.table({"s": table["s"], "d": pa.array([when.date(), None])})
        assert of(day, "s = d", "s > d") == [True, False]
