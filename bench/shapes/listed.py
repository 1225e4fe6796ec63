"""Fixed combinations that are often seen: keys with few values, ids, addresses, records."""

from __future__ import annotations

from collections.abc import Iterator

from bench.shapes.cells import (
    FEW,
    FUNCTIONS,
    MILLION,
    PAYLOADS,
    Cell,
    Kind,
    converted,
    group,
    join,
    sort,
)
from bench.shapes.tables import Format


def listed() -> Iterator[Cell]:
    int_, million = PAYLOADS["one int"], MILLION
    string: Kind = ("word", {"distinct": 100})
    yield sort("listed/two int64", [("int64", {"distinct": 1000}), "int64"], int_)
    yield sort("listed/string of 4, int64", [("word", {"distinct": 4}), "int64"], int_)
    yield sort("listed/int32 of 100", [("int32", {"distinct": 100})], int_)
    nine: list[Kind] = ["int32", "int64", "date", "bool", "decimal18", "timestamp", "int16"]
    falling = (False, True)
    yield sort("listed/string, float down", [FEW, "float64"], nine, 10 * million,
               descending=falling)  # fmt: skip
    yield sort("listed/url", ["url"], int_)
    yield sort("listed/e-mail", ["email"], ["int64", "int32", "date", "float64", FEW])
    yield sort("listed/int64", ["int64"], [])
    yield sort("listed/int64 40 M", ["int64"], [], 40 * million)
    yield sort("listed/int64, six ints", ["int64"], ["int64"] * 6)
    yield sort("listed/float64", ["float64"], int_)
    yield sort("listed/id and 10 digits", ["id10"], int_)
    yield sort("listed/8 characters", ["short"], int_)
    yield sort("listed/32 hex digits", ["hex32"], int_)
    yield sort("listed/10+90 bytes", ["bytes10"], ["bytes90"], 10 * million)

    def ten_million(name: str, keys: list[Kind], what: list[tuple[str, str]]) -> Cell:
        return group(f"listed/{name}", keys, what, 10 * million)

    many = {"distinct": 100_000}
    yield ten_million("sum by 100 strings", [string], FUNCTIONS["sum"])
    yield ten_million("sum by 2 strings of 100", [string, string], FUNCTIONS["sum"])
    few = ("int32", {"distinct": 100})
    yield ten_million("3 means by 100 ints", [few], [("avg", f"v{at}") for at in (0, 1, 4)])
    yield ten_million("3 sums by 10^5 ints", [("int32", many)],
                      [("sum", f"v{at}") for at in (0, 1, 2)])  # fmt: skip
    yield ten_million("sum, mean by 10^5 strings", [("word", many)], [("sum", "v0"), ("avg", "v1")])
    yield ten_million("distinct strings", [string], [("count distinct", "v3")])
    for build in (100, 10_000, 10 * million):
        yield join(f"listed/build side {build}", ["int64"], build, 10 * million)
    pairs: list[tuple[Format, Format]] = [
        ("csv", "parquet"), ("parquet", "csv"), ("json_lines", "parquet"), ("parquet", "parquet")
    ]  # fmt: skip
    for source, target in pairs:
        yield converted(f"listed/{source}->{target}", source, target, 2 * million)
