"""System calls as seccomp's user notifications report them, and the answers to them.

The kernel stops the calling thread until it gets an answer. The call's paths are in the thread's
memory, its descriptors in /proc. The supervisor can also make the call on the thread's behalf, and
then knows that it is done.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

RECEIVE, SEND = 0xC0502100, 0xC0182101
CONTINUE = 1
NOTIFICATION = struct.Struct("QIIiIQ6Q")
RESPONSE = struct.Struct("QqiI")
AT_FDCWD = -100
PATH_BYTES_MAX = 4096
SYS_PIDFD_GETFD = 438
libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Shape:
    """A system call of x86-64. One letter per argument: a folder's descriptor and the path below it
    (`d`, `p`), a descriptor (`f`), bytes and their count (`b`), a number (`i`).
    """

    kind: str
    name: str
    arguments: str


SHAPES = {
    82: Shape("rename", "rename", "pp"),
    264: Shape("rename", "renameat", "dpdp"),
    316: Shape("rename", "renameat2", "dpdpi"),
    86: Shape("link", "link", "pp"),
    265: Shape("link", "linkat", "dpdpi"),
    87: Shape("unlink", "unlink", "p"),
    263: Shape("unlink", "unlinkat", "dpi"),
    84: Shape("unlink", "rmdir", "p"),
    74: Shape("fsync", "fsync", "f"),
    75: Shape("fsync", "fdatasync", "f"),
    277: Shape("fsync", "sync_file_range", "fiii"),
    306: Shape("fsync", "syncfs", "f"),
    83: Shape("mkdir", "mkdir", "pi"),
    258: Shape("mkdir", "mkdirat", "dpi"),
    2: Shape("create", "open", "pii"),
    257: Shape("create", "openat", "dpii"),
    1: Shape("write", "write", "fbi"),
    18: Shape("write", "pwrite64", "fbii"),
    20: Shape("write", "writev", "fii"),
    296: Shape("write", "pwritev", "fiiii"),
    328: Shape("write", "pwritev2", "fiiiii"),
    326: Shape("write", "copy_file_range", "fifiii"),
    40: Shape("write", "sendfile", "ffii"),
    76: Shape("truncate", "truncate", "pi"),
    77: Shape("truncate", "ftruncate", "fi"),
    285: Shape("allocate", "fallocate", "fiii"),
    44: Shape("send", "sendto", "fbiiii"),
}
KINDS = tuple(dict.fromkeys(shape.kind for shape in SHAPES.values()))
IN_MEMORY = ("writev", "pwritev", "pwritev2", "copy_file_range")


def numbers(kinds: Sequence[str]) -> tuple[list[int], list[int]]:
    """The numbers of the calls of these kinds, and of those that belong to them only sometimes."""
    always = [number for number, one in SHAPES.items() if one.kind in kinds]
    creating = [number for number in always if SHAPES[number].kind == "create"]
    return [number for number in always if number not in creating], creating


@dataclass(frozen=True)
class Call:
    """A counted call: its number among all calls, and among those of its kind."""

    number: int
    kind: str
    nth: int
    name: str
    pid: int
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.nth}: {self.name} {' '.join(self.paths)}"


@dataclass(frozen=True)
class Asked:
    """A stopped thread and the call that it waits for."""

    identity: int
    thread: int
    number: int
    arguments: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        return SHAPES[self.number]

    @property
    def kind(self) -> str:
        return self.shape.kind

    @property
    def name(self) -> str:
        return self.shape.name

    @property
    def pid(self) -> int:
        """The process of the thread."""
        with contextlib.suppress(OSError), open(f"/proc/{self.thread}/status") as status:
            for line in status:
                if line.startswith("Tgid:"):
                    return int(line.split()[1])
        return self.thread

    @property
    def paths(self) -> tuple[str, ...]:
        """The absolute paths of the call, resolved as the thread would; unresolvable ones are left
        out.
        """
        found = []
        folder = AT_FDCWD
        for letter, value in zip(self.shape.arguments, self.arguments):
            with contextlib.suppress(OSError):
                if letter == "d":
                    folder = signed(value)
                elif letter == "f":
                    found.append(os.readlink(f"/proc/{self.thread}/fd/{value}"))
                elif letter == "p":
                    found.append(self.absolute(folder, self.text(value)))
        return tuple(found)

    def absolute(self, folder: int, path: str) -> str:
        place = "cwd" if folder == AT_FDCWD else f"fd/{folder}"
        above = "/" if path.startswith("/") else os.readlink(f"/proc/{self.thread}/{place}")
        whole = os.path.normpath(os.path.join(above, path))
        # Symbolic links above are resolved; the call acts on the last name itself.
        return os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))

    def text(self, address: int) -> str:
        """The string at an address; the page after its own may be unmapped."""
        read = self.memory(address, PATH_BYTES_MAX)
        return os.fsdecode(read.partition(b"\0")[0])

    def memory(self, address: int, size: int) -> bytes:
        file = os.open(f"/proc/{self.thread}/mem", os.O_RDONLY)
        try:
            return os.pread(file, size, address)
        finally:
            os.close(file)

    def perform(self) -> None:
        """Makes the call on the thread's behalf and returns its result; a failing call returns its
        errno.
        """
        if self.name in IN_MEMORY:
            raise ValueError(f"{self.name} cannot be made in the place of another process")
        with contextlib.ExitStack() as made:
            given = [self.translated(made, at) for at in range(len(self.shape.arguments))]
            if self.kind in ("create", "mkdir"):
                made.callback(os.umask, os.umask(self.umask()))
            result = libc.syscall(ctypes.c_long(self.number), *given)
            if self.kind == "create" and result >= 0:
                os.close(result)

    def translated(self, made: contextlib.ExitStack, at: int) -> ctypes.c_long | bytes:
        """An argument in the form in which it means the same in this process."""
        letter, value = self.shape.arguments[at], self.arguments[at]
        if letter == "d" and signed(value) == AT_FDCWD:
            folder = os.open(f"/proc/{self.thread}/cwd", os.O_PATH)
            made.callback(os.close, folder)
            return ctypes.c_long(folder)
        if letter in "df":
            return ctypes.c_long(made.enter_context(taken(self.pid, signed(value))))
        if letter == "b":
            return self.memory(value, self.arguments[at + 1])
        if letter == "p":
            path = self.text(value)
            if not path.startswith("/") and "d" not in self.shape.arguments:
                path = self.absolute(AT_FDCWD, path)
            if path.startswith("/proc/self/"):
                path = f"/proc/{self.pid}/{path.removeprefix('/proc/self/')}"
            return os.fsencode(path)
        return ctypes.c_long(value if value < 1 << 63 else value - (1 << 64))

    def umask(self) -> int:
        with open(f"/proc/{self.thread}/status") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
        return 0o022


def signed(value: int) -> int:
    """A descriptor, of which the kernel reads 32 bits."""
    return ctypes.c_int(value & 0xFFFFFFFF).value


@contextlib.contextmanager
def taken(pid: int, descriptor: int) -> Iterator[int]:
    """A duplicate of another process's descriptor, or the number itself if that process has
    none.
    """
    process = os.pidfd_open(pid)
    try:
        own = libc.syscall(*map(ctypes.c_long, (SYS_PIDFD_GETFD, process, descriptor, 0)))
    finally:
        os.close(process)
    try:
        yield own
    finally:
        if own >= 0:
            os.close(own)


def receive(listener: int) -> Asked | None:
    """The next waiting call; `None` if its thread was killed meanwhile."""
    buffer = bytearray(NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, RECEIVE, buffer)
    except FileNotFoundError:
        return None
    identity, thread, _, number, _, _, *arguments = NOTIFICATION.unpack(buffer)
    return Asked(identity, thread, number, tuple(arguments))


def let_pass(listener: int, asked: Asked) -> None:
    answer(listener, RESPONSE.pack(asked.identity, 0, 0, CONTINUE))


def fail(listener: int, asked: Asked, number: int) -> None:
    answer(listener, RESPONSE.pack(asked.identity, 0, -number, 0))


def answer(listener: int, response: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):  # killed meanwhile
        fcntl.ioctl(listener, SEND, bytearray(response))
