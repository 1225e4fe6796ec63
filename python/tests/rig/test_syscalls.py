"""Faults at system calls: counting, and exact placement."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rig
from rig.faults.syscalls import Call

pytestmark = pytest.mark.skipif(
    rig.missing("syscalls") is not None, reason=str(rig.missing("syscalls"))
)

# One call of each kind, and a rename by a child process.
CHANGES = """
import os, subprocess, sys
os.chdir(sys.argv[1])
os.mkdir("folder")
with open("a", "w") as file:
    file.write("text")
    file.flush()
    os.fsync(file.fileno())
os.rename("a", "folder/b")
os.link("folder/b", "c")
subprocess.run(["mv", "c", "d"], check=True)
os.unlink("folder/b")
print("done")
"""
CALLS = ["mkdir", "fsync", "rename", "link", "rename", "unlink"]
# The files after the first calls.
STATES = [
    [],
    ["folder"],
    ["a", "folder"],
    ["folder", "folder/b"],
    ["c", "folder", "folder/b"],
    ["d", "folder", "folder/b"],
    ["d", "folder"],
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.fixture
def syscalls(folder: Path) -> Iterator[rig.Syscalls]:
    with rig.Syscalls([folder]) as syscalls:
        yield syscalls


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code, *map(str, arguments)]


def found(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_calls_of_all_processes_are_counted_in_order(syscalls: rig.Syscalls, folder: Path) -> None:
    run = syscalls.run(python(CHANGES, folder))
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    assert [call.kind for call in run.calls] == CALLS
    assert [call.number for call in run.calls] == [1, 2, 3, 4, 5, 6]
    assert [call.nth for call in run.calls] == [1, 1, 1, 1, 2, 1]
    assert run.calls[2].paths == (f"{folder}/a", f"{folder}/folder/b")
    assert run.calls[2].pid != run.calls[4].pid
    assert run.hit == [] and run.counts()["rename"] == 2


@pytest.mark.parametrize("number", range(1, len(CALLS) + 1))
def test_kill_happens_exactly_before_or_after_a_call(
    number: int, syscalls: rig.Syscalls, folder: Path
) -> None:
    killed = syscalls.run(python(CHANGES, folder), rig.Fault("any", number, "kill-before"))
    assert killed.returncode == -signal.SIGKILL
    assert [call.number for call in killed.hit] == [number]
    expected = STATES[number - 1]
    # Calls that create the file are not trapped.
    assert found(folder) == (["a", "folder"] if number == 2 else expected)
    subprocess.run(["rm", "-r", folder], check=True)
    folder.mkdir()
    killed = syscalls.run(python(CHANGES, folder), rig.Fault("any", number, "kill-after"))
    assert killed.returncode == -signal.SIGKILL
    assert found(folder) == STATES[number]


def test_kill_one_spares_the_parent(syscalls: rig.Syscalls, folder: Path) -> None:
    run = syscalls.run(python(CHANGES, folder), rig.Fault("rename", 2, "kill-one-before"))
    assert run.returncode == 1
    assert "SIGKILL" in run.stderr
    assert found(folder) == STATES[4]


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "ENOMEM", "EAGAIN"])
def test_injected_error_is_returned_by_the_call(
    error: str, syscalls: rig.Syscalls, folder: Path
) -> None:
    code = """
import errno, os, sys
for name in "ab":
    try:
        os.mkdir(f"{sys.argv[1]}/{name}")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""
    run = syscalls.run(python(code, folder), rig.Fault("mkdir", 1, error))
    assert run.stdout == f"a {error}\n"
    assert found(folder) == ["b"]
    run = syscalls.run(python(code, folder), rig.Fault("mkdir", 1, error, onwards=True))
    assert run.stdout == f"a {error}\nb {error}\n"


def test_only_paths_below_the_folders_are_counted(tmp_path: Path, folder: Path) -> None:
    beside = tmp_path / "folder beside"
    code = """
import os, sys
for folder in sys.argv[1:]:
    os.mkdir(f"{folder}/new")
    handle = os.open(folder, os.O_RDONLY)
    os.mkdir("relative", dir_fd=handle)
    os.fsync(handle)
"""
    beside.mkdir()
    with rig.Syscalls([folder]) as syscalls:
        run = syscalls.run(python(code, beside, folder))
    assert [call.paths for call in run.calls] == [
        (f"{folder}/new",),
        (f"{folder}/relative",),
        (f"{folder}",),
    ]
    with rig.Syscalls(kinds=["fsync"]) as syscalls:
        assert syscalls.run(
            python(code.replace("new", "other").replace("relative", "r"), beside, folder)
        ).counts() == {"fsync": 2}


def test_writes_and_creations_are_trapped_on_request(folder: Path) -> None:
    code = """
import os, sys
handle = os.open(sys.argv[1] + "/file", os.O_CREAT | os.O_RDWR)
os.write(handle, b"one")
os.pwrite(handle, b"two", 3)
os.posix_fallocate(handle, 0, 100)
os.ftruncate(handle, 6)
os.open(sys.argv[1] + "/file", os.O_RDONLY)
"""
    with rig.Syscalls([folder], ["create", "write", "allocate", "truncate"]) as syscalls:
        calm = syscalls.run(python(code, folder))
        assert calm.counts() == {"create": 1, "write": 2, "allocate": 1, "truncate": 1}, calm.stderr
        sizes = []
        for number in range(1, 6):
            (folder / "file").unlink()
            syscalls.run(python(code, folder), rig.Fault("any", number, "kill-after"))
            sizes.append((folder / "file").stat().st_size)
        assert sizes == [0, 3, 6, 100, 6]


def test_created_files_keep_the_programs_mode(syscalls: rig.Syscalls, folder: Path) -> None:
    code = "import os, sys; os.umask(0o027); os.mkdir(sys.argv[1] + '/new')"
    syscalls.run(python(code, folder), rig.Fault("mkdir", 1, "kill-after"))
    assert (folder / "new").stat().st_mode & 0o777 == 0o750


def test_fault_function_decides_per_call(syscalls: rig.Syscalls, folder: Path) -> None:
    def decide(call: Call) -> str:
        return "EIO" if str(call).endswith("folder/b") else "pass"

    run = syscalls.run(python(CHANGES, folder), decide)
    assert run.returncode == 1 and "Input/output error" in run.stderr
    assert str(run).splitlines()[-1].startswith("> rename 1: rename ")


def test_concurrent_calls_are_counted_once_each(syscalls: rig.Syscalls, folder: Path) -> None:
    code = """
import os, sys, threading
def make(at):
    for number in range(25):
        os.mkdir(f"{sys.argv[1]}/{at}-{number}")
threads = [threading.Thread(target=make, args=[at]) for at in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    assert syscalls.run(python(code, folder)).counts() == {"mkdir": 200}
    subprocess.run(["rm", "-r", folder], check=True)
    folder.mkdir()
    syscalls.run(python(code, folder), rig.Fault("mkdir", 100, "kill-after"))
    # Other calls may have been admitted without having started.
    assert 100 - 7 <= len(found(folder)) <= 100


def test_failed_caller_leaves_no_process(syscalls: rig.Syscalls, folder: Path) -> None:
    pids = []

    def decide(call: Call) -> str:
        pids.append(call.pid)
        raise RuntimeError("no decision")

    with pytest.raises(RuntimeError, match="no decision"):
        syscalls.run(python(CHANGES, folder), decide)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_invalid_faults_are_rejected() -> None:
    with pytest.raises(ValueError, match="no such kind of call: remane"):
        rig.Fault("remane", 1, "EIO")
    with pytest.raises(ValueError, match="no such action: EOI"):
        rig.Fault("rename", 1, "EOI")
    with pytest.raises(ValueError, match="no such kind of call: bake"):
        rig.Syscalls(kinds=["bake"])
    with pytest.raises(rig.RigError, match="use it in a `with`"):
        rig.Syscalls().run(["true"])


def test_syscalls_command_lists_calls_and_injects_a_fault(folder: Path) -> None:
    command = [sys.executable, "-m", "rig", "syscalls", "--below", str(folder)]
    fault = ["--fault", "rename:2:kill-before", "--", *python(CHANGES, folder)]
    done = subprocess.run([*command, *fault], capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    assert f"> rename 2: renameat2 {folder}/c {folder}/d" in done.stderr
