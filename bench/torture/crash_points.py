"""Kills a commit before and after every system call that changes files, and fails each of them.

Every kind of commit of python/tests/crash_points.py, at every rename, link, unlink, fsync and
mkdir, with four errors. Afterwards there must be the old or the new state, and no file left over.
A point that is wrong is printed as `SCENARIO KIND:N:ACTION`, which `--only` tries again.

    python bench/torture/crash_points.py --keep
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python" / "tests")]

import rig  # noqa: E402
from crash_points import ERRORS, SCENARIOS, Outcome, Scenario, Torture, faults  # noqa: E402


def main() -> None:
    options = arguments()
    why = rig.missing("syscalls")
    if why is not None:
        sys.exit(f"crash points: {why}")
    chosen = [one for one in SCENARIOS if options.scenario in (None, one.name)]
    with rig.Syscalls():
        results = [torture(scenario, options) for scenario in chosen]
    wrong = [found for result in results for found in result["wrong"]]
    print(json.dumps({result["scenario"]: result["points"] for result in results}, indent=2))
    if options.keep:
        path = ROOT / "bench" / "results" / f"{date.today().isoformat()}-crash_points.json"
        path.write_text(json.dumps(results, indent=1) + "\n")
    if wrong:
        sys.exit(f"{len(wrong)} points ended wrongly")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--scenario", help="only this one")
    parser.add_argument("--only", help="only this point, as KIND:N:ACTION")
    parser.add_argument("--work", type=Path, help="where to work (default: the temporary folder)")
    parser.add_argument("--keep", action="store_true", help="write the results")
    return parser.parse_args()


def torture(scenario: Scenario, options: argparse.Namespace) -> dict[str, Any]:
    """All points of a scenario; what is wrong is printed at once."""
    began, tried = time.monotonic(), Counter[str]()
    wrong: list[Outcome] = []
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        points = Torture(scenario, Path(folder))
        calm = points.begin()
        for fault in faults(calm, ERRORS):
            if options.only not in (None, str(fault)):
                continue
            outcome = points.at(fault)
            tried["kills" if fault.action.startswith("kill") else "errors"] += 1
            if outcome.wrong:
                wrong.append(outcome)
                print(f"{scenario.name} {fault}: {'; '.join(outcome.wrong)}", flush=True)
    seconds = round(time.monotonic() - began, 1)
    print(f"{scenario.name}: {dict(tried)}, {len(wrong)} wrong, {seconds} s", flush=True)
    return {
        "scenario": scenario.name,
        "calls": calm.counts(),
        "points": dict(tried),
        "seconds": seconds,
        "wrong": [{"point": one.point, "wrong": one.wrong} for one in wrong],
    }


if __name__ == "__main__":
    main()
