"""`python -m rig`: reports what works on this machine, or runs a command on throttled
components.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable

from . import measure
from .cleanup.ledger import reclaim
from .cleanup.marked import marked
from .disks import Disks
from .faults.syscalls import CHANGING, Fault, Syscalls
from .features import missing
from .hosts import Hosts
from .tools import RigError


def doctor() -> int:
    """Prints which features work here, with measured rates; returns the exit code."""
    for owner in reclaim() if missing() is None else []:
        print(f"cleaned up after process {owner}")
    for line in measure.control_groups():
        print(line)
    good = True
    parts: dict[str, Callable[[], list[measure.Measured]]] = {
        "disks": measure.disk_rates,
        "cpus": measure.cpu_shares,
        "hosts": measure.link_rates,
    }
    for feature, measured in parts.items():
        why = missing(feature)
        print(f"{feature}: {why or 'yes'}")
        good = good and why is None
        for one in measured() if why is None else []:
            print(f"  {one}", flush=True)
    return 0 if good else 1


def on_disks(given: argparse.Namespace) -> int:
    """Runs the command with {0}, {1} ... replaced by the disks' paths; returns its exit code."""
    with Disks(given.count, given.rate, iops=given.iops, size=given.size) as disks:
        return run(
            given.command, {str(number): str(disk.path) for number, disk in enumerate(disks)}
        )


def among_hosts(given: argparse.Namespace) -> int:
    """Runs the command with {0} replaced by the first host's address and {netns0} by its
    namespace.
    """
    with Hosts(given.count, given.link, hostnames=given.hostnames) as hosts:
        names = {str(number): host.address for number, host in enumerate(hosts)}
        names |= {f"netns{number}": host.namespace for number, host in enumerate(hosts)}
        return run(given.command, {**names, "outside": hosts.outside})


def under_faults(given: argparse.Namespace) -> int:
    """Runs the command with a fault at a system call, and lists its calls; returns its exit
    code.
    """
    fault = None
    if given.fault is not None:
        kind, nth, action = given.fault.split(":")
        fault = Fault(kind, int(nth), action, onwards=given.onwards)
    kinds = given.kinds.split(",") if given.kinds else CHANGING
    with Syscalls(given.below, kinds) as syscalls:
        done = syscalls.run(given.command, fault)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    print(done, file=sys.stderr)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def run(command: list[str], names: dict[str, str]) -> int:
    """Runs the command with the names in braces replaced, ends every process it started, and
    returns its exit code.
    """
    with contextlib.ExitStack() as made:
        code = marked(made, [replaced(word, names) for word in command]).wait()
    return code if code >= 0 else 128 - code


def replaced(word: str, names: dict[str, str]) -> str:
    for name, text in names.items():
        word = word.replace(f"{{{name}}}", text)
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
    hosts = commands.add_parser("hosts", help="run a command among hosts with links of a set rate")
    hosts.add_argument("count", type=int)
    hosts.add_argument("--link", help="bytes a second of each, such as 20MB/s or 1Gbit/s")
    hosts.add_argument("--hostnames", action="store_true", help="each host has a name of its own")
    hosts.add_argument(
        "command",
        nargs="+",
        metavar="COMMAND",
        help="{0} is the first host's address, {netns0} its name for `ip netns exec`, "
        "{outside} the address of where the command runs",
    )
    faults = commands.add_parser("syscalls", help="run a command with a fault at a system call")
    faults.add_argument("--fault", metavar="KIND:N:ACTION", help="such as rename:2:kill-after")
    faults.add_argument("--onwards", action="store_true", help="all later calls of the kind, too")
    faults.add_argument("--below", action="append", default=[], help="count only paths below it")
    faults.add_argument("--kinds", help=f"what is trapped (default: {','.join(CHANGING)})")
    faults.add_argument("command", nargs="+", metavar="COMMAND")
    given = parser.parse_args()
    kinds = {"disks": on_disks, "hosts": among_hosts, "syscalls": under_faults}
    try:
        return doctor() if given.which == "doctor" else kinds[given.which](given)
    except (RigError, ValueError, OSError) as error:
        print(f"rig: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
