"""Shared by all figures: raw results beside the plot, the plot's style, and the claim.

A figure is a file of this folder, or of one in it, with `TITLE`, `measure(quick) -> dict`,
`draw(axes, results)`, and `claims(results)`, which yields each claim and whether it holds. Run one
by name, or all:

    .venv/bin/python bench/figures/figure.py slow_consumer
    make figures
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"

COLOURS = {
    "late_binding": "#1f6feb",
    "graduated": "#1f6feb",
    "credit": "#e3a008",
    "shortest": "#6e7781",
    "round_robin": "#b35900",
    "static": "#cf222e",
    "bound": "#57606a",
}
"""Late binding is always blue, static division always red."""


def names() -> list[str]:
    """All figures: the files that have a title."""
    files = [path for path in HERE.rglob("*.py") if "\nTITLE = " in path.read_text()]
    return sorted(path.stem for path in files)


def make(name: str, quick: bool) -> bool:
    """Measures, stores, draws and checks a figure; returns whether all its claims hold."""
    figure = importlib.import_module(name)
    print(f"{name}: {figure.TITLE}", flush=True)
    reason = figure.missing() if hasattr(figure, "missing") else None
    if reason:
        print(f"  skipped: {reason}")
        return True
    results = figure.measure(quick)
    claims = [{"claim": claim, "holds": bool(holds)} for claim, holds in figure.claims(results)]
    keep(name, figure, results, claims)
    for claim in claims:
        print(f"  {'holds' if claim['holds'] else 'FAILS'}: {claim['claim']}", flush=True)
    return all(claim["holds"] for claim in claims)


def try_to_make(name: str, quick: bool) -> bool:
    """The same; an error fails this figure only."""
    try:
        return make(name, quick)
    except Exception:
        traceback.print_exc()
        print(f"  FAILS: {name} ended with an error", flush=True)
        return False


def keep(name: str, figure: ModuleType, results: dict, claims: list[dict]) -> None:
    """Stores the raw results, and the plot beside them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    RESULTS.mkdir(parents=True, exist_ok=True)
    today = datetime.date.today().isoformat()
    raw = {
        "date": today,
        "figure": figure.TITLE,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "claims": claims,
        "results": results,
    }
    (RESULTS / f"{today}-{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    drawing, axes = plt.subplots(1, getattr(figure, "PANELS", 1), figsize=(9.5, 4.2))
    figure.draw(axes, results)
    drawing.suptitle(figure.TITLE, x=0.01, ha="left", fontsize=11)
    for one in drawing.axes:
        for side in ("top", "right"):
            one.spines[side].set_visible(False)
    drawing.tight_layout()
    drawing.savefig(RESULTS / f"{today}-{name}.png", dpi=120)
    plt.close(drawing)


def simulated(seed: int = 1, **scenario: Any) -> dict[str, Any]:
    """The simulator's result for a distributed queue; the fields are those of its scenarios."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"kind": "queue", **scenario}, file)
        file.flush()
        program = Path(sys.executable).with_name("euphrates")
        call = [program, "sim", file.name, "--json", "--seed", str(seed)]
        told = subprocess.run(call, check=True, stdout=subprocess.PIPE).stdout
    report: dict[str, Any] = json.loads(told)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="*", choices=[[], *names()], default=[])
    parser.add_argument("--quick", action="store_true", help="shorter runs, coarser results")
    arguments = parser.parse_args()
    made = [try_to_make(name, arguments.quick) for name in arguments.figures or names()]
    sys.exit(0 if all(made) else 1)


if __name__ == "__main__":
    # `rig` is imported from the repository, not installed.
    inner = (str(path) for path in sorted(HERE.iterdir()) if path.is_dir())
    sys.path[:0] = [str(HERE), str(HERE.parents[1]), *inner]
    main()
