"""Runs a command whose system calls of some kinds wait for a supervisor's answer.

`rig.faults.syscalls` starts it; it is never imported. It installs a seccomp filter, sends the
filter's listener descriptor to the supervisor, and executes the command. All children inherit the
filter.

python seccomp_launcher.py SOCKET NUMBER[,NUMBER...] [NUMBER[,NUMBER...]] -- COMMAND...

Calls of the second list are trapped only if they may create a file.
"""

import ctypes
import os
import socket
import struct
import sys

SYS_SECCOMP = 317
SET_MODE_FILTER = 1
# A signal does not restart a call whose notification was received.
NEW_LISTENER, WAIT_KILLABLE = 1 << 3, 1 << 5
PR_SET_NO_NEW_PRIVS = 38
AUDIT_ARCH_X86_64 = 0xC000003E
RETURN_NOTIFY, RETURN_ALLOW = 0x7FC00000, 0x7FFF0000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
# Offsets in `struct seccomp_data` of the call's number, the architecture, and `open`'s flags.
NUMBER, ARCHITECTURE = 0, 4
FLAGS = {2: 16 + 8, 257: 16 + 16}
CREATING = os.O_CREAT | 0x400000  # and __O_TMPFILE


def program(always: list[int], creating: list[int]) -> bytes:
    """The filter as instructions of (code, jump if true, jump if false, operand)."""
    lines = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, AUDIT_ARCH_X86_64)]
    lines += [(RETURN, 0, 0, RETURN_ALLOW), (LOAD, 0, 0, NUMBER)]
    for number in always:
        lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, RETURN_NOTIFY)]
    for number in creating:
        lines += [(EQUAL, 0, 4, number), (LOAD, 0, 0, FLAGS[number])]
        lines += [(ANY_BIT, 0, 1, CREATING), (RETURN, 0, 0, RETURN_NOTIFY)]
        lines += [(RETURN, 0, 0, RETURN_ALLOW)]
    lines += [(RETURN, 0, 0, RETURN_ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def listen(always: list[int], creating: list[int]) -> int:
    """Installs the filter in this process; returns the listener descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = program(always, creating)
    kept = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept))
    # Otherwise it needs root.
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    listener = libc.syscall(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE, header)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(listener)


def main() -> None:
    handle, *lists = sys.argv[1 : sys.argv.index("--")]
    command = sys.argv[sys.argv.index("--") + 1 :]
    numbers = [[int(number) for number in text.split(",") if number] for text in lists]
    with socket.socket(fileno=int(handle)) as supervisor:
        # The listener closes on exec.
        socket.send_fds(supervisor, [b"."], [listen(*numbers)])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
