"""`python -m rig`: what works on this machine, and a command on throttled disks."""

from __future__ import annotations

import argparse
import contextlib
import sys

from . import measure
from .disks import Disks
from .features import missing
from .ledger import reclaim
from .processes import marked
from .tools import RigError


def doctor() -> int:
    """Prints what works here, measured; returns the exit code."""
    for owner in reclaim() if missing() is None else []:
        print(f"cleaned up after process {owner}")
    for line in measure.control_groups():
        print(line)
    good = True
    for feature, measured in (("disks", measure.disk_rates), ("cpus", measure.cpu_shares)):
        why = missing(feature)
        print(f"{feature}: {why or 'yes'}")
        good = good and why is None
        for one in measured() if why is None else []:
            print(f"  {one}", flush=True)
    return 0 if good else 1


def on_disks(given: argparse.Namespace) -> int:
    """Runs the command with {0}, {1} ... replaced by the disks; returns its exit code."""
    with Disks(given.count, given.rate, iops=given.iops, size=given.size) as disks:
        command = [with_paths(word, disks) for word in given.command]
        with contextlib.ExitStack() as made:
            code = marked(made, command).wait()
    return code if code >= 0 else 128 - code


def with_paths(word: str, disks: Disks) -> str:
    for number, disk in enumerate(disks):
        word = word.replace(f"{{{number}}}", str(disk.path))
    return word


def main() -> int:
    parser = argparse.ArgumentParser(prog="rig", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="which", required=True)
    commands.add_parser("doctor", help="what works here, and how exactly")
    disks = commands.add_parser("disks", help="run a command on throttled disks")
    disks.add_argument("count", type=int)
    disks.add_argument("--rate", help="bytes a second of each, such as 5.45MB/s")
    disks.add_argument("--iops", type=int, help="requests a second of each")
    disks.add_argument("--size", default="64MB", help="bytes of each")
    disks.add_argument("command", nargs="+", metavar="COMMAND", help="{0} is the first disk")
    given = parser.parse_args()
    try:
        return doctor() if given.which == "doctor" else on_disks(given)
    except (RigError, ValueError, OSError) as error:
        print(f"rig: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
