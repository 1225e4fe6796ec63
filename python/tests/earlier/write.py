"""Writes the documents and collections that later versions must read: run once by each release.

    python python/tests/earlier/write.py 0.1

The folder must be new: what a released version has written is never written again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import euphrates as eu

HERE = Path(__file__).parent
TYPES = """
    select n, n * 3 % 7 as k, cast(n % 100 as smallint) as small, n % 3 = 0 as third,
        cast(n as double) / 8 as ratio, cast(n as decimal(12, 2)) as price,
        case when n % 5 = 0 then null else concat('word ', n % 11) end as word,
        date '2026-01-01' + cast(n % 365 as int) as day,
        timestamp '2026-01-01 12:00:00' as at,
        [n, n + 1] as pair, {'x': n, 'y': concat('y', n % 4)} as both
    from numbers order by n"""


def write(folder: Path) -> None:
    """Collections in `home`, files in `files`, documents in `documents`."""
    folder.mkdir()
    home = str(folder / "home")
    numbers = eu.sql(TYPES, numbers=eu.generate("integers", rows=300))
    numbers.then(eu.write("types")).flow.go(home=home)
    eu.sql(TYPES, numbers=eu.generate("integers", rows=300)).then(
        eu.write("packed", compression="zstd")
    ).flow.go(home=home)
    records = eu.Flow("records")
    records.chain(eu.generate("records", rows=500), eu.sort(["key"]), eu.write("a/sorted"))
    records.go(home=home)
    (folder / "files").mkdir()
    for name in ("types.parquet", "types.arrow"):
        numbers.save(folder / "files" / name)
    documents = folder / "documents"
    documents.mkdir()
    for name, flow in flows().items():
        (documents / f"{name}.json").write_text(flow.to_json() + "\n")


def flows() -> dict[str, eu.Flow]:
    """Flows whose result a test knows, of most modules."""
    chained = eu.Flow("chained")
    chained.chain(
        eu.generate("integers", rows=eu.var("rows", default=1000)),
        eu.filter("n % 2 = 0"),
        eu.project(["n", "n % 10 as k"]),
        eu.aggregate(["k"], values={"total": "sum(n)", "rows": "count()"}),
        eu.sort(["k desc"]),
        eu.limit(2),
        eu.collect(),
    )
    joined = eu.Flow("joined")
    left = joined.place(eu.generate("integers", rows=100), count=1)
    right = joined.place(eu.generate("integers", rows=10))
    join = joined.place(eu.join(["n"], how="semi", build="right"))
    joined.attach(left, join, input="left", bytes_max="1MiB")
    joined.attach(right, join, input="right")
    joined.chain(join, eu.count(), eu.collect())
    numbers = eu.generate("integers", rows=50).with_columns(k="n % 5")
    windows = numbers.window("k", order_by="n", place="rank()")
    queried = windows.group_by().agg(best="max(place)").then(eu.collect()).flow
    return {"chained": chained, "joined": joined, "queried": queried}


if __name__ == "__main__":
    write(HERE / sys.argv[1])
