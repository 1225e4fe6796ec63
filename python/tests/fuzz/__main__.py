"""`python -m fuzz`, from `python/tests`: runs cases, or one case again.

python -m fuzz --seed 4711              runs one case, and makes it smaller if it fails
python -m fuzz --cases 50000            runs many, from a seed that is printed
python -m fuzz --cases 100 --kind text  runs cases of one kind
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import time
import warnings

from . import pool


def main() -> None:
    """Parses the arguments; exits with 1 if a case fails."""
    options = _arguments()
    warnings.simplefilter("ignore")
    if options.serve:
        return pool.serve()
    if options.seed is not None:
        return _one(options)
    return _many(options)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, help="the case to run")
    parser.add_argument("--kind", help="of which kind it is, or all are")
    parser.add_argument("--rows", help="which of the rows are left, like 3:10")
    parser.add_argument("--columns", help="which of the columns are left, like 0,2")
    parser.add_argument("--here", action="store_true", help="in this process, without workers")
    parser.add_argument("--cases", type=int, default=2000, help="how many cases")
    parser.add_argument("--first", type=int, help="the seed of the first; by chance if absent")
    parser.add_argument("--processes", type=int, default=2, help="how many run at a time")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _one(options: argparse.Namespace) -> None:
    from . import context, run

    rows = tuple(int(part) for part in options.rows.split(":")) if options.rows else None
    columns = tuple(int(part) for part in options.columns.split(",")) if options.columns else None
    smaller = context.Smaller(rows, columns, options.here)
    kind = options.kind or run.kind_of(options.seed)
    print(f"seed {options.seed}: {kind}", flush=True)
    outcome = run.run(options.seed, kind, smaller)
    print(f"{outcome['outcome']}\n{outcome['why']}")
    if outcome["outcome"] == "wrong":
        _shrink(options.seed, kind, smaller)
    context.close()
    sys.exit(outcome["outcome"] == "wrong")


def _shrink(seed: int, kind: str, smaller: object) -> None:
    """Removes parts of the case while it fails in the same way."""
    from . import context, run

    assert isinstance(smaller, context.Smaller)

    def fails(attempt: context.Smaller) -> bool:
        return run.run(seed, kind, attempt)["outcome"] == "wrong"

    best = smaller
    for attempt in [dataclasses.replace(best, here=True)]:
        best = attempt if fails(attempt) else best
    columns = tuple(best.columns or range(8))
    for column in columns:
        fewer = tuple(other for other in best.columns or columns if other != column)
        if fewer and fails(dataclasses.replace(best, columns=fewer)):
            best = dataclasses.replace(best, columns=fewer)
    low, high = best.rows or (0, 4096)
    step = (high - low) // 2
    while step > 0:
        for part in [(low, high - step), (low + step, high)]:
            if part[0] < part[1] and fails(dataclasses.replace(best, rows=part)):
                low, high = part
                best = dataclasses.replace(best, rows=part)
                break
        else:
            step //= 2
        step = min(step, high - low - 1)
    words = f"--rows {low}:{high}" if best.rows else ""
    words += f" --columns {','.join(map(str, best.columns))}" if best.columns else ""
    words += " --here" if best.here else ""
    print(f"smaller: python -m fuzz --seed {seed} --kind {kind} {words}")
    print(run.run(seed, kind, best)["why"])


def _many(options: argparse.Namespace) -> None:
    first = random.randrange(10**9) if options.first is None else options.first
    print(f"{options.cases} cases from seed {first} on", flush=True)
    began = time.monotonic()
    done = 0

    def tell(outcome: pool.Outcome) -> None:
        nonlocal done
        done += 1
        if outcome.failed:
            print(outcome, flush=True)
        if done % 1000 == 0:
            print(f"{done} cases, {time.monotonic() - began:.0f} s", flush=True)

    seeds = range(first, first + options.cases)
    summary = pool.run(seeds, kind=options.kind, processes=options.processes, tell=tell)
    print(summary.table())
    print(f"{len(summary.failures)} of {options.cases} failed, {time.monotonic() - began:.0f} s")
    sys.exit(bool(summary.failures))


if __name__ == "__main__":
    main()
