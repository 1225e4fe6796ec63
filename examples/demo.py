"""Sorts real data two ways, checks both, and reports. Run by `make demo`.

1. A TPC-H table, Parquet to Parquet.
2. The sort benchmark's records, with an eighth of their size as memory.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import euphrates as eu

EUPHRATES = Path(sys.executable).with_name("euphrates")
RECORDS = 4_000_000


def heading(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def check_order(path: Path) -> None:
    """Reads the sorted table back as a stream and compares each row with the previous one."""
    last = None

    def rising(batch: eu.Batch) -> eu.Batch:
        nonlocal last
        columns = batch.to_pydict()
        for row in zip(columns["l_shipdate"], columns["l_orderkey"]):
            if last is not None and row < last:
                raise ValueError(f"{row} comes after {last}")
            last = row
        return batch

    flow = eu.Flow("check")
    keys = ["l_shipdate", "l_orderkey"]
    (
        flow.place(eu.scan(path, order=True, columns=keys))
        >> flow.place(eu.map(rising), count=1)
        >> flow.place(eu.count())
        >> flow.place(eu.collect())
    )
    rows = flow.go(progress=False).collected().to_pylist()[0]["count"]
    print(f"checked: {rows:,} rows are in order")


def table(folder: Path) -> None:
    heading("1. TPC-H lineitem at scale 0.1, by l_shipdate and l_orderkey, as Parquet")
    source, target = folder / "lineitem.parquet", folder / "sorted.parquet"
    make = eu.Flow("make lineitem")
    make.chain(eu.generate("lineitem", scale=0.1), eu.save(source))
    make.go(progress=False)
    flow = eu.Flow("sort lineitem")
    flow.chain(eu.scan(source), eu.sort(["l_shipdate", "l_orderkey"]), eu.save(target))
    print(flow.go())
    check_order(target)


def records(folder: Path) -> None:
    size = RECORDS * 100
    heading(f"2. {RECORDS:,} records ({size / 1e6:.0f} MB) with {size / 8e6:.0f} MB of memory")
    source, target = folder / "records.dat", folder / "sorted.dat"
    subprocess.run([EUPHRATES, "gensort", str(RECORDS), source], check=True)
    flow = eu.Flow("sort records")
    flow.chain(eu.scan(source, format="records"), eu.sort(["key"]), eu.save(target))
    print(flow.go(memory=size // 8))
    print(flush=True)
    subprocess.run([EUPHRATES, "valsort", target], check=True)


WORDS = """
How to read the reports: `busy` is time at work, `starved` time waiting for input, `blocked` time
waiting for the next module to take the output; the bottleneck is the module the others wait for.
What does not fit the memory is sorted piece by piece: each piece is a sorted run on disk, and a
second pass merges the runs."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="euphrates-demo-") as folder:
        table(Path(folder))
        records(Path(folder))
    # A wrong result would have ended the program earlier.
    print(WORDS)
    heading("Both results are right: every row of the table and every record is in order.")


if __name__ == "__main__":
    main()
