"""Forty queries of a web log of 105 columns, with Euphrates, DuckDB and Polars, in turns.

    .venv/bin/python bench/peers/weblog.py --scale 1
    .venv/bin/python bench/peers/weblog.py --scale 10 --keep
    .venv/bin/python bench/peers/weblog.py --which 12 17 --only Euphrates DuckDB

Scale 1 has a million rows. The log is generated: skewed users, searches of which most are empty,
addresses that share hosts and paths, times of one month, flags and sizes, and many columns that
hardly vary. With `--keep`, raw results go to `bench/results/<date>-weblog.json`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from queries import SCRIPTS, compare
from tpch import arguments

PART_ROWS = 1_000_000
"""Rows that are generated at once, and of a row group."""

FLAGS, COUNTERS, TEXTS = 40, 30, 15
"""Columns that hardly vary, numbers of few digits, and texts of few values, beside the named."""

LINES = Path(__file__).with_suffix(".sql").read_text().splitlines()
TEXT = "\n".join(line for line in LINES if not line.startswith("--"))
QUERIES = [query.strip() for query in TEXT.split(";") if query.strip()]


def part(number: int, rows: int = PART_ROWS) -> pa.Table:
    """Rows of the log; the same for the same numbers."""
    luck = np.random.default_rng(number)

    def skewed(values: int, power: float = 3.0) -> np.ndarray:
        return (luck.random(rows) ** power * values).astype(np.int64)

    def words(codes: np.ndarray, texts: list[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(codes.astype(np.int32), texts).cast(pa.string())

    minutes = number * 37 % 7 + np.sort(luck.integers(0, 31 * 24 * 60 * 60, rows))
    time = (np.datetime64("2026-03-01") + minutes.astype("timedelta64[s]")).astype("datetime64[us]")
    paths = [
        f"https://{host}.example/{folder}/{page}"
        for host in ("www", "market", "a.shop.x", "news", "m")
        for folder in ("item", "search", "market", "list", "user")
        for page in range(2000)
    ]
    paths[0] = ""
    searches = [
        "",
        *(
            f"how to {verb} {noun} {at}"
            for verb in ("buy", "mend", "find")
            for noun in ("boats", "rivers", "grain", "copper")
            for at in range(1500)
        ),
    ]
    columns = {
        "watch_id": pa.array(luck.integers(0, 2**62, rows)),
        "user_id": pa.array(skewed(300_000)),
        "counter": pa.array(skewed(5000, 4).astype(np.int32)),
        "region": pa.array(skewed(5000, 5).astype(np.int32)),
        "time": pa.array(time),
        "day": pa.array(time.astype("datetime64[D]")),
        "url": words(skewed(len(paths), 2), paths),
        "referer": words(skewed(len(paths), 4), paths),
        "title": words(skewed(3000), [f"{'News' if at % 9 == 0 else 'Page'} {at}"
                                      for at in range(3000)]),
        "search": words(np.where(luck.random(rows) < 0.8, 0, skewed(len(searches), 2)), searches),
        "phone": words(np.where(luck.random(rows) < 0.7, 0, luck.integers(0, 80, rows)),
                       ["", *(f"phone {at}" for at in range(79))]),
        "model": words(skewed(100), [f"model {at}" for at in range(100)]),
        "engine": pa.array((skewed(90, 6)).astype(np.int16)),
        "adv_id": pa.array(np.where(luck.random(rows) < 0.97, 0, skewed(60)).astype(np.int16)),
        "width": pa.array((luck.integers(3, 30, rows) * 64).astype(np.int16)),
        "ip": pa.array(skewed(400_000, 2)),
        "is_refresh": pa.array((luck.random(rows) < 0.1).astype(np.int16)),
        "latitude": pa.array(luck.random(rows) * 180 - 90),
        "longitude": pa.array(luck.random(rows) * 360 - 180),
        "price": pa.array(skewed(10**6)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
    }  # fmt: skip
    for at in range(FLAGS):
        columns[f"flag_{at}"] = pa.array((skewed(3, 8 + at % 5)).astype(np.int16))
    for at in range(COUNTERS):
        columns[f"number_{at}"] = pa.array(skewed(1000 * (at + 1)).astype(np.int32))
    for at in range(TEXTS):
        columns[f"text_{at}"] = words(skewed(20 + at), [f"value {one}" for one in range(20 + at)])
    return pa.table(columns)


def log(work: Path, scale: float) -> Path:
    """The log as a Parquet file, made on first use."""
    path = work / f"hits-{scale:g}.parquet"
    if not path.exists():
        parts = [part(number) for number in range(max(1, round(scale)))]
        with pq.ParquetWriter(path, parts[0].schema, compression="snappy") as writer:
            for one in parts:
                writer.write_table(one, row_group_size=PART_ROWS // 8)
    return path


def main() -> None:
    names = [name for name in SCRIPTS if name in ("Euphrates", "DuckDB", "Polars")]
    parser = arguments(__doc__.split("\n\n")[0], names)
    parser.add_argument("--which", nargs="*", type=int, default=list(range(1, len(QUERIES) + 1)))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    tables = {"hits": str(log(options.work, options.scale))}
    compare("weblog", QUERIES, tables, options)


if __name__ == "__main__":
    main()
