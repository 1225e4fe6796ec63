"""Kills a commit before and after every system call that changes files, and fails each of them.

Runs every kind of commit of python/tests/durability/crash_points.py, at every rename, link, unlink,
fsync and mkdir, with four errors: all of them, or a seeded sample of `--kills` and `--errors`.
Afterwards the state must be the old or the new one, without leftover files. A failing point is
printed as `SCENARIO KIND:N:ACTION`, which `--only` repeats.

python bench/torture/crash_points.py --keep
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "python" / "tests"
sys.path[:0] = [str(ROOT), str(TESTS / "durability"), str(TESTS / "support")]

import rig  # noqa: E402
import s3_server  # noqa: E402
from crash_points import ERRORS, SCENARIOS, Outcome, Scenario, Torture, faults  # noqa: E402
from rig.faults.syscalls import Run  # noqa: E402


def main() -> None:
    options = arguments()
    why = rig.missing("syscalls")
    if why is not None:
        sys.exit(f"crash points: {why}")
    chosen = [one for one in SCENARIOS if one.name in (options.scenario or {one.name})]
    with contextlib.ExitStack() as made:
        made.enter_context(rig.Syscalls())
        has_objects = any(one.has_objects for one in chosen)
        s3 = made.enter_context(s3_server.running()) if has_objects else None
        # This program reads the results, so it needs the same environment.
        os.environ.update(s3.environment if s3 else {})
        results = [torture(scenario, s3, options) for scenario in chosen]
    wrong = [found for result in results for found in result["wrong"]]
    print(json.dumps({result["scenario"]: result["points"] for result in results}, indent=2))
    if options.keep:
        keep(ROOT / "bench" / "results" / f"{date.today().isoformat()}-crash_points.json", results)
    if wrong:
        sys.exit(f"{len(wrong)} points ended wrongly")


def keep(path: Path, results: list[dict[str, Any]]) -> None:
    """Writes the results, merged with those of other scenarios of the same day."""
    kept = json.loads(path.read_text()) if path.exists() else []
    found = {one["scenario"]: one for one in (*kept, *results)}
    path.write_text(json.dumps(list(found.values()), indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--scenario", action="append", help="only this one; may be repeated")
    parser.add_argument("--only", help="only this point, as KIND:N:ACTION")
    parser.add_argument("--kills", type=int, help="kills of each scenario (default: all)")
    parser.add_argument("--errors", type=int, help="errors of each scenario (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="by which these are drawn")
    parser.add_argument("--work", type=Path, help="where to work (default: the temporary folder)")
    parser.add_argument("--keep", action="store_true", help="write the results")
    return parser.parse_args()


def chosen_of(calm: Run, options: argparse.Namespace) -> list[rig.Fault]:
    """The selected kills and errors, in the order of their calls."""
    found = [one for one in faults(calm, ERRORS) if options.only in (None, str(one))]
    chance, drawn = random.Random(options.seed), set[int]()
    for wanted, are_errors in ((options.kills, False), (options.errors, True)):
        possible = [at for at, one in enumerate(found) if (one.action in ERRORS) == are_errors]
        fewer = wanted is not None and wanted < len(possible)
        drawn.update(chance.sample(possible, wanted) if fewer else possible)
    return [found[at] for at in sorted(drawn)]


def torture(
    scenario: Scenario, s3: s3_server.S3Server | None, options: argparse.Namespace
) -> dict[str, Any]:
    """The points of a scenario; failures are printed at once."""
    began, tried = time.monotonic(), Counter[str]()
    wrong: list[Outcome] = []
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        points = Torture(scenario, Path(folder), s3=s3)
        calm = points.begin()
        for fault in chosen_of(calm, options):
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
        "points_possible": {"kills": 2 * len(calm.calls), "errors": len(ERRORS) * len(calm.calls)},
        "seconds": seconds,
        "file_system": file_system(options.work or Path(tempfile.gettempdir())),
        "wrong": [{"point": one.point, "wrong": one.wrong} for one in wrong],
    }


def file_system(folder: Path) -> str:
    """The file system type of a folder."""
    command = ["stat", "--file-system", "--format=%T", folder]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
