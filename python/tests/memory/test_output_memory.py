"""Files of many columns, and highly compressed files, under a small budget.

Each case runs in a process of its own, whose peak the kernel reports.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

PEAK_MIB = 128 * 1.1 + 64

PROGRAM = """
import sys
import euphrates as eu

flow = eu.Flow("memory")
source, target, columns = sys.argv[1], sys.argv[2], int(sys.argv[3])
modules = [eu.scan(source)]
if columns < 0:
    pass
elif columns:
    made = ["cast(n + {0} as varchar)", "n * 3 + {0}", "n * 1.5e0 + {0}"]
    wanted = [made[at % 3].format(at) + f" as c{at}" for at in range(columns)]
    modules.append(eu.project(wanted))
else:
    modules.append(eu.aggregate([], values={"rows": "count()"}))
codec = "zstd" if "zstd" in target else None
flow.chain(*modules, eu.save(target, compression=codec))
try:
    flow.go(memory="128MiB", cores=2, progress=False)
    print("done")
except eu.EuphratesError as error:
    print(type(error).__name__, str(error).replace("\\n", " "))
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


def run(source: Path, target: Path, columns: int) -> tuple[str, int]:
    command = [sys.executable, "-c", PROGRAM, str(source), str(target), str(columns)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    said, peak = done.stdout.strip().splitlines()
    return said, int(peak)


ENDINGS = ("parquet", "zstd.parquet", "arrow", "csv")
MANY = [(columns, ending) for columns in (200, 1000) for ending in ENDINGS]


# 5,000 columns of Parquet need 350 MiB: the footer has an entry per row group and column.
@pytest.mark.parametrize(("columns", "ending"), [*MANY, (2000, "arrow"), (2000, "csv")])
def test_many_columns_are_saved_within_the_budget(
    columns: int, ending: str, tmp_path: Path
) -> None:
    source = tmp_path / "numbers.csv"
    rows = 10_000_000 // columns
    source.write_text("n\n" + "\n".join(map(str, range(rows))) + "\n")
    said, peak = run(source, tmp_path / f"out.{ending}", columns)
    assert said == "done"
    assert peak <= PEAK_MIB, peak


VALUE = "".join(f"{number:08d}" for number in range(2_000_000))


def long_records(folder: Path, ending: str, megabytes: int, count: int) -> Path:
    source = folder / f"long.{ending}"
    with source.open("w") as out:
        if ending == "csv":
            out.write("n,s\n")
        for number in range(count):
            text = f"{number:08d}" + VALUE * (megabytes // 16) + VALUE[: megabytes % 16 * 10**6]
            line = {"csv": "{0},{1}\n", "jsonl": '{{"n":{0},"s":"{1}"}}\n', "txt": "{1}\n"}
            out.write(line[ending].format(number, text))
    return source


@pytest.mark.parametrize("ending", ["csv", "jsonl", "txt"])
@pytest.mark.parametrize("sink", ["parquet", "zstd.parquet", "arrow"])
def test_long_texts_are_read_and_saved_within_the_budget(
    ending: str, sink: str, tmp_path: Path
) -> None:
    source = long_records(tmp_path, ending, 15, 16)
    said, peak = run(source, tmp_path / f"out.{sink}", -1)
    assert said == "done"
    assert peak <= PEAK_MIB, peak


@pytest.mark.parametrize("ending", ["csv", "jsonl", "txt"])
@pytest.mark.parametrize("columns", [0, -1])
def test_huge_record_is_rejected_before_it_is_held(
    ending: str, columns: int, tmp_path: Path
) -> None:
    source = long_records(tmp_path, ending, 300, 2)
    said, peak = run(source, tmp_path / "out.arrow", columns)
    assert said.startswith("ResourceError") and "record is longer than" in said, said
    assert peak <= PEAK_MIB, peak


def test_oversized_compressed_batch_is_rejected(tmp_path: Path) -> None:
    source = tmp_path / "zeros.arrow"
    zeros = pa.table({"n": np.zeros(50_000_000, np.int64)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(source), zeros.schema, options=options) as writer:
        writer.write_table(zeros)
    assert source.stat().st_size < 1_000_000
    said, peak = run(source, tmp_path / "out.csv", 0)
    assert said.startswith("ResourceError") and "a compressed batch" in said, said
    assert peak <= PEAK_MIB, peak
