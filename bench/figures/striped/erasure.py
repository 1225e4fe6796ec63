"""The erasure code on one core against ISA-L, in one process that takes turns.

It runs `cargo bench -p euphrates-parity --bench codes`, whose rounds measure each kernel and ISA-L
once; the best of 15 rounds counts. The fastest kernel that the processor has is compared.
"""

from __future__ import annotations

import ctypes.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from figure import COLOURS

TITLE = "Erasure code on one core: our kernels and ISA-L, blocks of 1 MiB"
ROOT = Path(__file__).resolve().parents[3]
BENCH = ["cargo", "bench", "--quiet", "-p", "euphrates-parity", "--bench", "codes"]
LEAST = 0.5
ISA_L = "ISA-L"


def missing() -> str | None:
    if ctypes.util.find_library("isal") is None:
        return "libisal is not installed: apt-get install libisal2"
    return None if shutil.which("cargo") else "cargo is not installed"


def measure(quick: bool) -> dict[str, Any]:
    done = subprocess.run(BENCH, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return {"kernels": [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]}


def shape(one: dict[str, Any]) -> str:
    return f"{one['data']} + {one['parity']}"


def claims(results: dict[str, Any]) -> Any:
    for one in results["kernels"]:
        if one["kernel"] == ISA_L:
            part = one["ours_by_isal"]
            yield f"{shape(one)}: {part:.2f} of ISA-L (at least {LEAST})", part >= LEAST


def draw(axes: Any, results: dict[str, Any]) -> None:
    kernels = list(dict.fromkeys(one["kernel"] for one in results["kernels"]))
    shapes = list(dict.fromkeys(shape(one) for one in results["kernels"]))
    for number, kernel in enumerate(kernels):
        found = [one for one in results["kernels"] if one["kernel"] == kernel]
        at = [shapes.index(shape(one)) + 0.8 * number / len(kernels) - 0.3 for one in found]
        rates = [one["encode_gb_s"] for one in found]
        colour = {0: COLOURS["graduated"], len(kernels) - 1: COLOURS["bound"]}.get(number)
        axes.bar(at, rates, 0.7 / len(kernels), label=kernel, color=colour)
    axes.set_xticks(range(len(shapes)), shapes)
    axes.set_ylabel("GB of data per second")
    axes.set_xlabel("data + parity blocks")
    axes.legend(frameon=False)
