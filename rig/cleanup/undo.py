"""Undoes each kind of object that the rig makes.

Each function takes the facts that were recorded before the object was made, and must work if the
object was never made or is undone already. It touches nothing else.
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
    """Kills the processes started under a mark (or marks below it), and their descendants."""
    mark = f"{MARK}={facts['mark']}".encode()
    kill_all(lambda: [pid for pid in all_pids() if is_marked(environment(pid), mark)])


def titled(facts: dict[str, str]) -> None:
    """Kills Ray's processes that have files open in a folder: their process title overwrites their
    mark. Other processes, such as the driver, may read there too.
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
    """Kills until none is listed: a killed process may just have started another."""
    deadline = time.monotonic() + DEATH_SECONDS_MAX
    while pids := listed():
        if time.monotonic() > deadline:
            raise RigError(f"processes do not die: {pids}")
        for pid in pids:
            kill(pid)


def kill(pid: int) -> None:
    """Kills and waits for the end: a process may wait for requests at a slow disk."""
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
    """The start time of a process in kernel ticks; with its id it is unique."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def stopped(facts: dict[str, str]) -> None:
    """Resumes a paused process."""
    if started(int(facts["pid"])) == facts["started"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(facts["pid"]), signal.SIGCONT)


def group(facts: dict[str, str]) -> None:
    """Removes a group and those below; kills its processes, or moves them back to their old
    group.
    """
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
    """Removes a group: the kernel releases it a moment after its last process."""
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
    """Unmounts; a file system in use is detached with its last user."""
    if os.path.ismount(facts["path"]):
        try:
            tool("umount", facts["path"])
        except RigError:
            tool("umount", "--lazy", facts["path"])
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(facts["path"])


def swap(facts: dict[str, str]) -> None:
    """Disables swap on a file and removes the file."""
    listed = Path("/proc/swaps").read_text().splitlines()
    if any(line.split()[0] == facts["path"] for line in listed):
        tool("swapoff", facts["path"])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(facts["path"])


def loop(facts: dict[str, str]) -> None:
    """Detaches the loop device of an image. The kernel keeps its name after unlink."""
    for device in Path("/sys/block").glob("loop*"):
        held = device / "loop" / "backing_file"
        with contextlib.suppress(OSError):  # detached in the meantime
            if held.read_text().rstrip("\n").removesuffix(" (deleted)") == facts["image"]:
                tool("losetup", "--detach", f"/dev/{device.name}")


def namespace(facts: dict[str, str]) -> None:
    """Kills the processes of a network namespace, removes its links, and removes it.

    The kernel dismantles a namespace later; until then its links would be visible outside.
    """
    path = NAMESPACES / facts["name"]
    if not path.exists():
        return
    kill_all(functools.partial(within, path))
    # If its maker was killed half-way, only a file exists.
    while os.path.ismount(path) and (found := links(path.name)):
        tool("ip", "-netns", path.name, "link", "delete", found[0])
    tool("ip", "netns", "delete", path.name)


def links(namespace: str) -> list[str]:
    """Removes one end of a link, and with it the other."""
    listed = tool("ip", "-netns", namespace, "-json", "link", "show", "type", "veth")
    return [link["ifname"] for link in json.loads(listed or "[]") if link]


def within(path: Path) -> list[int]:
    """The processes in the network namespace of that name."""
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
