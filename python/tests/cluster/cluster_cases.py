"""Flows as data: how each is built, its output, and the expected output by another engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import euphrates as eu
import functions

FILES = 6
ROWS = 20_000
"""Rows of each file."""


@dataclass(frozen=True)
class Case:
    """A flow, or several in sequence, over the same input on every cluster."""

    name: str
    flows: Callable[[Path, Path], list[eu.Flow]]
    """Builds the flows from the input folder and a private folder."""
    expected: Callable[[Path], pa.Table]
    """The oracle's result over the input."""
    got: Callable[[eu.Report, Path], pa.Table] = lambda report, _: report.collected().to_pyarrow()
    ordered: bool = False
    same_rows: bool = True
    """Whether every module has the same rows in and out on every cluster."""
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Additional arguments of `go`."""


def make_input(folder: Path) -> None:
    """Integers from 0, shuffled, with other columns, in several files."""
    for number in range(FILES):
        # A stride coprime to the number of rows visits all of them.
        n = [
            (row * 7919 + number * ROWS) % (FILES * ROWS) for row in range(number, FILES * ROWS, 6)
        ]
        table = pa.table({
            "n": pa.array(n, pa.int64()),
            "word": pa.array([None if i % 11 == 0 else f"w{i % 1000:03}" for i in n]),
            "price": pa.array([None if i % 13 == 0 else i / 8 for i in n]),
            "day": pa.array([date(2020, 1, 1) + timedelta(days=i % 500) for i in n]),
        })  # fmt: skip
        pq.write_table(table, folder / f"numbers-{number}.parquet", row_group_size=ROWS // 4)
        pl.from_arrow(table).write_csv(folder / f"numbers-{number}.csv")
    pq.write_table(table.slice(0, 0), folder / "empty.parquet")
    (folder / "head.csv").write_text("n,word\n")
    pq.write_table(nested(), folder / "nested.parquet", row_group_size=100)
    long = pa.table({"n": range(6), "text": [chr(97 + i) * (10 << 20) for i in range(6)]})
    pq.write_table(long, folder / "long.parquet", row_group_size=1)


def nested() -> pa.Table:
    n = range(1000)
    return pa.table({
        "n": pa.array(n, pa.int64()),
        "list": [None if i % 7 == 0 else [j if j % 3 else None for j in range(i % 5)] for i in n],
        "struct": [None if i % 5 == 0 else {"a": i, "b": [{"c": str(i)}]} for i in n],
        "decimal": pa.array([Decimal(i) / 4 for i in n], pa.decimal128(12, 2)),
        "time": pa.array([i * 10**9 if i % 3 else None for i in n], pa.timestamp("us", "UTC")),
        "bytes": [None if i % 4 == 0 else bytes([i % 256]) * (i % 9) for i in n],
        "flag": [[True, False, None][i % 3] for i in n],
        "nothing": pa.nulls(1000, pa.int32()),
    })  # fmt: skip


def flow(*modules: Any) -> eu.Flow:
    made = eu.Flow("case")
    made.chain(*modules)
    return made


def scan(folder: Path, **options: Any) -> Any:
    return eu.scan(folder / "numbers-*.parquet", **options)


def numbers(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "numbers-*.parquet")


def sql(query: str) -> Callable[[Path], pa.Table]:
    """DuckDB's result over the numbers."""

    def ask(folder: Path) -> pa.Table:
        view = f"from read_parquet('{folder}/numbers-*.parquet')"
        return duckdb.connect().sql(query.replace("from numbers", view)).to_arrow_table()

    return ask


def saved(_: eu.Report, own: Path) -> pa.Table:
    return pq.read_table(own / "out.parquet")


def with_closure(folder: Path, _: Path) -> list[eu.Flow]:
    factor = 3

    def tripled(batch: eu.Batch) -> pa.RecordBatch:
        return pa.record_batch({"n": pc.multiply(batch.to_pyarrow().column("n"), factor)})

    return [flow(scan(folder, columns=["n"]), tripled, eu.collect())]


def with_lambda(folder: Path, _: Path) -> list[eu.Flow]:
    square = eu.map(lambda batch: batch.to_polars().select(n=pl.col("n") ** 2))
    return [flow(scan(folder, columns=["n"]), square, eu.collect())]


def joined_again(folder: Path, _: Path) -> list[eu.Flow]:
    """A tee whose outputs are filtered differently, and a union of both."""
    made = eu.Flow("tee and union")
    tee, union = made.place(eu.tee()), made.place(eu.union())
    made.attach(made.place(scan(folder)), tee)
    for part in ("n < 1000", "n % 2 = 0"):
        kept = made.place(eu.filter(part))
        made.attach(tee, kept)
        made.attach(kept, union)
    made.attach(union, made.place(eu.collect()))
    return [made]


def broadcast(folder: Path, _: Path) -> list[eu.Flow]:
    made = eu.Flow("broadcast")
    kept = made.place(eu.filter("n < 100"), count=4)
    made.attach(made.place(scan(folder, columns=["n"])), kept, queue="broadcast")
    made.attach(kept, made.place(eu.collect()))
    return [made]


def pairwise(folder: Path, _: Path) -> list[eu.Flow]:
    made = eu.Flow("pairwise")
    source = made.place(scan(folder), count=4)
    kept = made.place(eu.filter("n % 3 = 0"), count=4)
    made.attach(source, kept, queue="pairwise")
    made.attach(kept, made.place(eu.collect()))
    return [made]


def through_collection(*before: Any, order: bool) -> Callable[[Path, Path], list[eu.Flow]]:
    def build(folder: Path, _: Path) -> list[eu.Flow]:
        written = flow(scan(folder), *before, eu.write("numbers"))
        return [written, flow(eu.read("numbers", order=order), eu.collect())]

    return build


def split(folder: Path, _: Path) -> list[eu.Flow]:
    """A class with two outputs that are united again."""
    made = eu.Flow("split")
    both, union = made.place(functions.Split(1), count=3), made.place(eu.union())
    made.attach(made.place(scan(folder)), both)
    made.attach(both, union, output="even")
    made.attach(both, union, output="odd")
    made.attach(union, made.place(eu.collect()))
    return [made]


def dictionary() -> pa.Table:
    words = pa.array(["Ur", None, "Uruk", "Ur"] * 5000).dictionary_encode()
    return pa.table({"n": range(20_000), "city": words})


ALL = "select * from numbers order by n"
CASES = [
    Case(
        "scan, filter, count",
        lambda folder, _: [flow(scan(folder), eu.filter("price > 100"), eu.count(), eu.collect())],
        sql("select count(*) as count from numbers where price > 100"),
    ),
    Case(
        "scan, filter, project",
        lambda folder, _: [
            flow(
                scan(folder),
                eu.filter("word is null or word < 'w5'"),
                eu.project(["n", "price * 2 as double", "day"]),
                eu.collect(),
            )
        ],
        sql("select n, price * 2 as double, day from numbers where word is null or word < 'w5'"),
    ),
    Case(
        "scan CSV, save Parquet",
        lambda folder, own: [
            flow(eu.scan(folder / "numbers-*.csv"), eu.save(own / "out.parquet"))
        ],
        lambda folder: pl.read_csv(folder / "numbers-*.csv", try_parse_dates=True).to_arrow(),
        saved,
    ),
    Case(
        "map a lambda",
        with_lambda,
        lambda folder: numbers(folder).select(n=pl.col("n") ** 2).to_arrow(),
    ),
    Case("map a closure", with_closure, sql("select n * 3 as n from numbers")),
    Case(
        "map a function of a module",
        lambda folder, _: [
            flow(
                scan(folder, columns=["n"]),
                eu.map(functions.doubled, arguments={"factor": 5}),
                eu.collect(),
            )
        ],
        sql("select n * 5 as n from numbers"),
    ),
    Case("a class with two outputs", split, sql(ALL)),
    Case(
        "a class that makes runs",
        lambda *_: [
            flow(functions.Numbers(40, rows=100), eu.filter("n % 2 = 1"), eu.collect())
        ],
        lambda _: pl.DataFrame({"n": range(1, 4000, 2)}).to_arrow(),
        ordered=True,
    ),
    Case(
        "sort, save",
        lambda folder, own: [
            flow(scan(folder), eu.sort(["day desc", "n"]), eu.save(own / "out.parquet"))
        ],
        lambda folder: numbers(folder).sort(["day", "n"], descending=[True, False]).to_arrow(),
        saved,
        ordered=True,
    ),
    Case(
        "sort with little memory, save",
        lambda _, own: [
            flow(
                eu.generate("integers", rows=3_000_000),
                eu.project(["(n * 7919) % 3000017 as n", "n as m", "n * 2 as o"]),
                eu.sort(["n"]),
                eu.save(own / "out.parquet"),
            )
        ],
        lambda _: duckdb.sql(
            "select (i * 7919) % 3000017 as n, i as m, i * 2 as o from range(3000000) t(i) "
            "order by n"
        ).to_arrow_table(),
        saved,
        ordered=True,
        options={"memory": "96MiB"},
    ),
    Case(
        "sort, write, read in order",
        through_collection(eu.sort(["word nulls first", "n"]), order=True),
        sql("select * from numbers order by word nulls first, n"),
        ordered=True,
    ),
    Case("write, read", through_collection(order=False), sql(ALL)),
    Case(
        "limit of a stream",
        lambda folder, _: [
            flow(scan(folder), eu.sort(["n"]), eu.limit(1000, offset=50), eu.collect())
        ],
        sql("select * from numbers order by n limit 1000 offset 50"),
        ordered=True,
        same_rows=False,
    ),
    Case(
        "tee and union",
        joined_again,
        sql("select * from numbers where n < 1000 union all "
            "select * from numbers where n % 2 = 0"),
    ),
    Case(
        "broadcast",
        broadcast,
        lambda _: pl.concat([pl.DataFrame({"n": range(100)})] * 4).to_arrow(),
    ),
    Case("pairwise", pairwise, sql("select * from numbers where n % 3 = 0")),
    Case(
        "nothing in, sorted and saved",
        lambda folder, own: [
            flow(eu.scan(folder / "empty.parquet"), eu.sort(["n"]), eu.save(own / "out.parquet"))
        ],
        lambda folder: pq.read_table(folder / "empty.parquet"),
        saved,
    ),
    Case(
        "nothing in, mapped",
        lambda folder, _: [
            flow(
                eu.scan(folder / "head.csv", types={"n": "int64"}),
                eu.map(functions.same),
                eu.collect(),
            )
        ],
        lambda _: pa.table({"n": pa.array([], pa.int64()), "word": pa.array([], pa.string())}),
    ),
    Case(
        "nothing left, counted",
        lambda folder, _: [flow(scan(folder), eu.filter("n < 0"), eu.count(), eu.collect())],
        sql("select count(*) as count from numbers where n < 0"),
    ),
    Case(
        "nested types and nulls, sorted",
        lambda folder, _: [
            flow(eu.scan(folder / "nested.parquet"), eu.sort(["n desc"]), eu.collect())
        ],
        lambda folder: pq.read_table(folder / "nested.parquet").sort_by([("n", "descending")]),
        ordered=True,
    ),
    Case(
        "nested types and nulls, written and read",
        lambda folder, _: [
            flow(eu.scan(folder / "nested.parquet"), eu.write("nested")),
            flow(eu.read("nested"), eu.collect()),
        ],
        lambda folder: pq.read_table(folder / "nested.parquet"),
    ),
    Case(
        "strings of 10 MB",
        lambda folder, _: [
            flow(eu.scan(folder / "long.parquet"), eu.filter("n <> 2"), eu.sort(["text desc"]),
                 eu.collect())
        ],
        lambda folder: pl.read_parquet(folder / "long.parquet")
        .filter(pl.col("n") != 2).sort("text", descending=True).to_arrow(),
        ordered=True,
    ),
    Case(
        "dictionaries of the program",
        lambda *_: [flow(eu.from_arrow(dictionary()), eu.filter("city = 'Ur'"), eu.collect())],
        lambda _: duckdb.from_arrow(dictionary()).filter("city = 'Ur'").to_arrow_table(),
    ),
    Case(
        "a table of the program, in order",
        lambda *_: [
            flow(eu.from_arrow(nested(), order=True), eu.filter("n >= 10"), eu.collect())
        ],
        lambda _: nested().slice(10),
        ordered=True,
    ),
    Case(
        "SQL over all of it",
        lambda folder, _: [
            flow(
                scan(folder),
                eu.external_sql("select day, count(*) as rows from input group by day"),
                eu.sort(["day"]),
                eu.collect(),
            )
        ],
        lambda folder: numbers(folder).group_by("day").agg(rows=pl.len().cast(pl.Int64)).sort("day")
        .to_arrow(),
        ordered=True,
    ),
    Case(
        "through programs",
        lambda folder, _: [
            flow(
                scan(folder, columns=["n", "word"]),
                eu.exec("cat", input="arrow_ipc"),
                eu.collect(),
            )
        ],
        sql("select n, word from numbers"),
    ),
]  # fmt: skip
