"""Expressions stay within the memory budget, or fail with an error.

Each case runs in a process of its own, whose peak the kernel reports.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

MEMORY_MIB = 128
PEAK_MIB = MEMORY_MIB * 1.1 + 64

PROGRAM = """
import pyarrow as pa
import euphrates as eu

def numbers(rows=100_000):
    return pa.table({"n": pa.array(range(rows), pa.int64()), "k": pa.array([1] * rows, pa.int64())})

flow = eu.Flow("memory")
try:
    __FLOW__
    out = flow.go(memory="128MiB")
    print("done", *(str(v) for v in pa.table(out.collected()).column(0).to_pylist()[:1]))
except eu.EuphratesError as error:
    print(type(error).__name__, str(error).replace("\\n", " "))
# Not what getrusage says: that has what the process was before it became this program.
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


def run(flow: str) -> tuple[str, int]:
    program = PROGRAM.replace("__FLOW__", "\n    ".join(flow.strip().splitlines()))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, peak = done.stdout.strip().splitlines()
    return said, int(peak)


def chain(*modules: str, rows: int = 100_000) -> str:
    return f"flow.chain(eu.from_arrow(numbers({rows})), {', '.join(modules)}, eu.collect())"


COUNT = "eu.aggregate([], values={'rows': 'count()'})"

FITTING = {
    "filter": (
        chain("eu.filter('length(repeat(cast(n as varchar), 100000)) > 1')", COUNT, rows=5000),
        "5000",
    ),
    "project": (
        chain(
            "eu.project(['repeat(cast(n as varchar), 100000) as s'])",
            "eu.aggregate([], values={'rows': 'count(s)'})",
            rows=2000,
        ),
        "2000",
    ),
    "constant": (
        chain(
            "eu.project([\"repeat('x', 900000) as s\"])",
            "eu.aggregate([], values={'rows': 'count(s)'})",
            rows=2000,
        ),
        "2000",
    ),
    "argument": (
        chain("eu.aggregate([], values={'m': 'max(length(repeat(cast(n as text), 99999)))'})",
              rows=5000),
        str(4 * 99999),
    ),
    "nested": (
        chain("eu.filter(\"length(repeat(repeat('ab', 1000), 500)) > n\")", COUNT, rows=5000),
        "5000",
    ),
    "dictionary": (
        "words = pa.array(['x' * 1_000_000, 'y']).dictionary_encode()\n"
        "words = pa.DictionaryArray.from_arrays(pa.array([0] * 3000), words.dictionary)\n"
        "flow.chain(eu.from_arrow(pa.table({'c': words})), "
        "eu.filter('length(cast(c as text)) > 1'), " + COUNT + ", eu.collect())",
        "3000",
    ),
    "join": (
        "left, right = (flow.place(eu.from_arrow(numbers(3000))) for _ in range(2))\n"
        "join = flow.place(eu.join(['n'], where=\"length(repeat(cast(n as text), 100000)) > 1\"))\n"
        "flow.attach(left, join, input='left')\n"
        "flow.attach(right, join, input='right')\n"
        "count, out = flow.place(" + COUNT + "), flow.place(eu.collect())\n"
        "flow.attach(join, count)\n"
        "flow.attach(count, out)",
        "3000",
    ),
}  # fmt: skip

REFUSED = [
    "repeat('x', 1000000000000)",
    "repeat(repeat(cast(n as text), 1000000), 1000000)",
    "lpad(cast(n as text), 2000000000)",
    "rpad('', 2000000000, 'é')",
    "replace('aaaa', '', repeat('x', 100000000))",
    "repeat('xyz', n * 100000000 + 1000000000)",
    "concat(repeat('x', 90000000), repeat('y', 90000000))",
    "repeat('x', 90000000) || repeat('y', 90000000)",
    "regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g')",
    "case when n >= 0 then repeat('x', 1500000000) end",
]


@pytest.mark.parametrize("name", FITTING)
def test_growing_expressions_stay_within_the_budget(name: str) -> None:
    flow, expected = FITTING[name]
    said, peak = run(flow)
    assert said == f"done {expected}"
    assert peak <= PEAK_MIB, peak


@pytest.mark.parametrize("expression", REFUSED)
def test_oversized_results_are_rejected(expression: str) -> None:
    said, peak = run(chain(f"eu.project([{expression + ' as s'!r}])", rows=3))
    assert said.startswith("ResourceError") and "row 0 of a batch" in said, said
    assert peak <= PEAK_MIB, peak
