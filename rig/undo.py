"""How each kind of thing the rig makes is unmade.

Each function takes the facts that were recorded before the thing was made, so it must bear that it
was never made, or is unmade already. What it was not given, it does not touch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from . import cgroups
from .tools import MARK, RigError, tool

DEATH_SECONDS_MAX = 30


def processes(facts: dict[str, str]) -> None:
    """Kills what was started under a mark (or marks below it), and what that started."""
    mark = f"{MARK}={facts['mark']}".encode()
    kill_all(lambda: [pid for pid in all_pids() if is_marked(environment(pid), mark)])


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


def loop(facts: dict[str, str]) -> None:
    """Detaches what holds an image. The kernel remembers its name after it is unlinked."""
    for device in Path("/sys/block").glob("loop*"):
        held = device / "loop" / "backing_file"
        with contextlib.suppress(OSError):  # detached in the meantime
            if held.read_text().rstrip("\n").removesuffix(" (deleted)") == facts["image"]:
                tool("losetup", "--detach", f"/dev/{device.name}")


def image(facts: dict[str, str]) -> None:
    Path(facts["path"]).unlink(missing_ok=True)


KINDS: dict[str, Callable[[dict[str, str]], None]] = {
    "processes": processes,
    "stopped": stopped,
    "group": group,
    "limits": limits,
    "mount": mount,
    "loop": loop,
    "image": image,
}
