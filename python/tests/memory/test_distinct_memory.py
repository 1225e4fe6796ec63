"""Counts of distinct long texts stay within the memory budget.

Pairs of group and text are stored as numbers of four bytes, and sent as texts of 300 bytes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BUDGET_MIB = 48
PEAK_MIB = BUDGET_MIB * 1.1 + 64
ROWS = 300_000

PROGRAM = """
import sys
import euphrates as eu

flow = eu.Flow("distinct")
counts = eu.aggregate(["p"], values={"n": "count(distinct s)"})
flow.chain(eu.scan(sys.argv[1]), counts, eu.save(sys.argv[2]))
flow.go(memory="48MiB", progress=False)
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


def test_distinct_long_texts_of_many_groups_stay_within_the_budget(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    words = random.integers(97, 123, (5000, 300), np.uint8)
    texts = pa.array([bytes(word).decode() for word in words])
    texts = texts.take(pa.array(random.integers(0, 5000, ROWS)))
    source, target = tmp_path / "rows.parquet", tmp_path / "counts.parquet"
    table = pa.table({"p": pa.array(range(ROWS), pa.int64()), "s": texts})
    pq.write_table(table, source, row_group_size=50_000)
    program = [sys.executable, "-c", PROGRAM, str(source), str(target)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    counted = pq.read_table(target)
    assert counted.num_rows == ROWS
    assert counted["n"].unique().to_pylist() == [1]
    assert int(done.stdout) <= PEAK_MIB, done.stdout
