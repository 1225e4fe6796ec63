"""How each kind of thing the rig makes is unmade.

Each function takes the facts that were recorded before the thing was made, so it must bear that it
was never made, or is unmade already. What it was not given, it does not touch.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from .. import cgroups
from ..tools import MARK, RigError, tool

DEATH_SECONDS_MAX = 30
NAMESPACES = Path("/run/netns")


def processes(facts: dict[str, str]) -> None:
    """Kills what was started under a mark (or marks below it), and what that started."""
    mark = f"{MARK}={facts['mark']}".encode()
    kill_all(lambda: [pid for pid in all_pids() if is_marked(environment(pid), mark)])


def titled(facts: dict[str, str]) -> None:
    """Kills those of Ray's processes that have files in a folder: the title they take is written
    over their mark. Others may read there, or be the driver.
    """
    kill_all(lambda: titled_in(facts["path"]))


def titled_in(folder: str) -> list[int]:
    return [pid for pid in all_pids() if has_title(pid) and has_files(pid, folder)]


def has_title(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::")
    except OSError:
        return False


def has_files(pid: int, folder: str) -> bool:
    found = False
    with contextlib.suppress(OSError):  # ended in the meantime
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found = found or os.readlink(entry.path).startswith(folder + "/")
    return found


def is_marked(environment: list[bytes], mark: bytes) -> bool:
    return any(entry == mark or entry.startswith(mark + b"-") for entry in environment)


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def kill_all(listed: Callable[[], list[int]]) -> None:
    """Until nobody is listed, for one that is killed may have started another just before."""
    deadline = time.monotonic() + DEATH_SECONDS_MAX
    while pids := listed():
        if time.monotonic() > deadline:
            raise RigError(f"processes do not die: {pids}")
        for pid in pids:
            kill(pid)


def kill(pid: int) -> None:
    """Kills and waits for the end: a process may have requests at a slow disk to wait for."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        waiting.poll(DEATH_SECONDS_MAX * 1000)
    finally:
        os.close(handle)


def started(pid: int) -> str | None:
    """When a process began, in the kernel's ticks: with its number it is a name for ever."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def stopped(facts: dict[str, str]) -> None:
    """Lets a paused process go on."""
    if started(int(facts["pid"])) == facts["started"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(facts["pid"]), signal.SIGCONT)


def group(facts: dict[str, str]) -> None:
    """Removes a group and those below; who is inside dies, or goes to where they came from."""
    top = Path(facts["path"])
    for path in sorted((path for path in [top, *top.rglob("*")] if path.is_dir()), reverse=True):
        if "back" in facts:
            for pid in alive(path):
                cgroups.write(Path(facts["back"]) / "cgroup.procs", str(pid))
        else:
            kill_all(functools.partial(alive, path))
        remove(path)


def alive(group: Path) -> list[int]:
    pids = [int(pid) for pid in cgroups.words(group / "cgroup.procs")]
    return [pid for pid in pids if started(pid) is not None]


def remove(group: Path) -> None:
    """The kernel lets go of a group a moment after the last process in it."""
    deadline = time.monotonic() + DEATH_SECONDS_MAX
    while group.is_dir():
        try:
            group.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise RigError(f"cannot remove {group}: {error.strerror}") from error
            time.sleep(0.005)


def limits(facts: dict[str, str]) -> None:
    """Lifts the limits of a device."""
    version = int(facts["version"])
    for where in facts["groups"].split(":"):
        for name, text in cgroups.io_limits(version, facts["device"], None, None).items():
            if (Path(where) / name).exists():
                cgroups.write(Path(where) / name, text)


def mount(facts: dict[str, str]) -> None:
    """Unmounts; if somebody still uses it, it goes when the last of them ends."""
    if os.path.ismount(facts["path"]):
        try:
            tool("umount", facts["path"])
        except RigError:
            tool("umount", "--lazy", facts["path"])
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(facts["path"])


def swap(facts: dict[str, str]) -> None:
    """Takes a file out of the machine's swap, and away."""
    listed = Path("/proc/swaps").read_text().splitlines()
    if any(line.split()[0] == facts["path"] for line in listed):
        tool("swapoff", facts["path"])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(facts["path"])


def loop(facts: dict[str, str]) -> None:
    """Detaches what holds an image. The kernel remembers its name after it is unlinked."""
    for device in Path("/sys/block").glob("loop*"):
        held = device / "loop" / "backing_file"
        with contextlib.suppress(OSError):  # detached in the meantime
            if held.read_text().rstrip("\n").removesuffix(" (deleted)") == facts["image"]:
                tool("losetup", "--detach", f"/dev/{device.name}")


def namespace(facts: dict[str, str]) -> None:
    """Kills who is inside a network namespace, takes its links away, and removes it.

    The kernel takes a namespace apart some time later; until then its links would be seen outside.
    """
    path = NAMESPACES / facts["name"]
    if not path.exists():
        return
    kill_all(functools.partial(within, path))
    # One whose maker was killed half-way is a file and no more.
    while os.path.ismount(path) and (found := links(path.name)):
        tool("ip", "-netns", path.name, "link", "delete", found[0])
    tool("ip", "netns", "delete", path.name)


def links(namespace: str) -> list[str]:
    """With one end of a link its other goes."""
    listed = tool("ip", "-netns", namespace, "-json", "link", "show", "type", "veth")
    return [link["ifname"] for link in json.loads(listed or "[]") if link]


def within(path: Path) -> list[int]:
    """Who is in the network namespace of that name."""
    wanted, found = path.stat(), []
    for pid in all_pids():
        with contextlib.suppress(OSError):  # ended in the meantime
            if os.path.samestat(os.stat(f"/proc/{pid}/ns/net"), wanted):
                found.append(pid)
    return found


def image(facts: dict[str, str]) -> None:
    Path(facts["path"]).unlink(missing_ok=True)


def folder(facts: dict[str, str]) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(facts["path"])


KINDS: dict[str, Callable[[dict[str, str]], None]] = {
    "processes": processes,
    "titled": titled,
    "stopped": stopped,
    "group": group,
    "limits": limits,
    "swap": swap,
    "mount": mount,
    "namespace": namespace,
    "loop": loop,
    "image": image,
    "folder": folder,
}
