"""Programs on the workers of a persistent cluster: their output, floods, and the Python API."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import euphrates as eu
from cluster_harness import is_alive, wait_for
from persistent_cluster import EUPHRATES, PATIENCE, SOON, PersistentCluster

# --- output ---


def test_programs_get_their_rank_and_lines_their_worker(
    persistent: PersistentCluster,
) -> None:
    script = 'echo "$EUPHRATES_WORKER $EUPHRATES_RANK of $EUPHRATES_RANKS, $X"; pwd; echo no >&2'
    done = persistent.launch(script, "--env", "X=y=z", "--cwd", "/", "--on", "even,w3")
    assert done.returncode == 0, done.stderr
    told = {f"w{name} | w{name} {rank} of 3, y=z" for rank, name in enumerate([0, 2, 3])}
    assert set(done.stdout.splitlines()) == told | {f"w{name} | /" for name in (0, 2, 3)}
    assert sorted(done.stderr.splitlines()) == ["w0 | no", "w2 | no", "w3 | no"]
    several = persistent.launch("echo $EUPHRATES_RANK", "--per-worker", "2", "--on", "w1,w2")
    assert sorted(several.stdout.splitlines()) == [
        "w1.0 | 0",
        "w1.1 | 1",
        "w2.0 | 2",
        "w2.1 | 3",
    ]


def test_100_000_lines_per_worker_arrive_in_order(
    persistent: PersistentCluster,
) -> None:
    lines = 100_000
    code = f"for n in range({lines}): print(n, 'x' * (n % 97))"
    done = persistent.run("launch", "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    by_worker: dict[str, list[str]] = {name: [] for name in persistent.workers}
    for line in done.stdout.splitlines():
        name, text = line.split(" | ", 1)
        by_worker[name].append(text)
    wanted = [f"{n} {'x' * (n % 97)}" for n in range(lines)]
    assert all(said == wanted for said in by_worker.values())


def test_binary_output_is_unchanged(persistent: PersistentCluster) -> None:
    code = "import sys; sys.stdout.buffer.write(bytes(n * n // 7 % 256 for n in range(3000000)))"
    wanted = bytes(n * n // 7 % 256 for n in range(3_000_000))
    on_one = ["--plain", "--on", "w1", "--", sys.executable, "-c", code]
    assert persistent.run("launch", *on_one, text=False).stdout == wanted
    with persistent.python() as cluster:
        launched = cluster.launch([sys.executable, "-c", code])
        assert launched.wait(PATIENCE)
        assert launched.stdout == {name: wanted for name in persistent.workers}


def test_json_log_has_every_line_and_exit(persistent: PersistentCluster) -> None:
    script = "echo 'a\"b'; printf c >&2; exit $EUPHRATES_RANK"
    done = persistent.launch(script, "--log", "json", "--on", "w0,w2")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    told = {(line["name"], line["stream"], line["line"]) for line in lines}
    wanted = {
        (name, *said) for name in ("w0", "w2") for said in [("stdout", 'a"b'), ("stderr", "c")]
    }
    assert told == wanted
    ends = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(end["event"], end["name"], end["exit_code"]) for end in ends] == [
        ("ended", "w0", 0),
        ("ended", "w2", 1),
    ]
    assert done.returncode == 1


def test_first_nonzero_exit_code_is_returned(persistent: PersistentCluster) -> None:
    script = "case $EUPHRATES_RANK in 1) exit 3;; 2) kill -9 $$;; 3) exit 4;; esac"
    done = persistent.launch(script)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "w1 exited with 3",
        "w2 was killed by signal 9",
        "w3 exited with 4",
    ]
    assert persistent.launch(script, "--on", "w0").returncode == 0
    quiet = persistent.launch("kill -9 $$", "--log", "quiet", "--on", "w2")
    assert (quiet.returncode, quiet.stderr) == (137, "")


def test_unstartable_program_names_worker_and_program(persistent: PersistentCluster) -> None:
    done = persistent.run("launch", "--on", "w2", "--", "no-such-program", "x")
    assert done.returncode == 2
    assert "worker w2: no program `no-such-program`" in done.stderr
    assert "remedy: install it on every worker" in done.stderr
    with persistent.python() as cluster:
        with pytest.raises(eu.UsageError, match="no program `no-such-program`") as refused:
            cluster.launch(["no-such-program"])
        assert refused.value.place is not None and refused.value.place.startswith("worker w")
        with pytest.raises(eu.UsageError, match="no worker or label named `w7`"):
            cluster.launch(["true"], on="w7")
        with pytest.raises(eu.UsageError, match="list of words"):
            cluster.launch("true")
    assert persistent.run("launch", "--env", "nonsense", "--", "true").returncode == 2


def test_stdin_is_broadcast(persistent: PersistentCluster) -> None:
    given = "".join(f"{n}\n" for n in range(200_000))
    done = persistent.launch("cksum", "--stdin", input=given)
    checksum = subprocess.run(
        ["cksum"], input=given, capture_output=True, text=True, check=True
    ).stdout
    assert sorted(done.stdout.splitlines()) == [f"w{n} | {checksum.strip()}" for n in range(4)]
    nothing = persistent.launch("cat; echo end", "--on", "w1", input="for nobody")
    assert nothing.stdout == "w1 | end\n"


# --- floods ---


def memory_of(process: subprocess.Popen) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def test_output_flood_arrives_complete(persistent: PersistentCluster) -> None:
    script = "yes | head -c 1G"
    launch = persistent.command("launch", "--plain", "--on", "w0", "--", "sh", "-c", script)
    counted = f"{shlex.join(launch)} | wc -c"
    done = subprocess.run(counted, shell=True, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.strip() == str(1 << 30), done.stderr


def test_unread_flood_uses_bounded_memory_and_blocks_no_flow(
    persistent: PersistentCluster,
) -> None:
    before = {name: memory_of(process) for name, process in persistent.workers.items()}
    flood = persistent.command("launch", "--plain", "--", "sh", "-c", "yes | head -c 1G")
    flooding = subprocess.Popen(flood, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: len(persistent.ps()) == 4)
        # A concurrent flow runs over the same workers.
        with persistent.python() as cluster:
            flow = eu.Flow("beside")
            flow.chain(eu.generate("integers", rows=100_000), eu.count(), eu.collect())
            report = flow.go(cluster=cluster)
        assert report.collected().to_pylist() == [{"count": 100_000}]
        assert len(persistent.ps()) == 4, "they wait at their pipes"
        for name, process in persistent.workers.items():
            assert memory_of(process) - before[name] < 100 << 20
        assert memory_of(flooding) < 300 << 20
    finally:
        assert flooding.stdout is not None and flooding.stderr is not None
        # A program without a reader ends.
        flooding.stdout.close()
        flooding.wait(PATIENCE)
        flooding.stderr.close()
    wait_for(lambda: persistent.ps() == [])


def test_closed_output_pipe_ends_the_programs(persistent: PersistentCluster) -> None:
    launch = shlex.join(persistent.command("launch", "--", "yes"))
    done = subprocess.run(
        f"{launch} | head -n 3; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 3
    wait_for(lambda: persistent.ps() == [])


# --- Python ---


def test_python_reads_lines_live_and_answers(persistent: PersistentCluster) -> None:
    heard: list[eu.Line] = []
    asked = threading.Event()

    def hear(line: eu.Line) -> None:
        heard.append(line)
        if sum(line.text == "who?" for line in heard) == 2:
            asked.set()

    with persistent.python() as cluster:
        script = "echo who?; read name; printf 'hello %s' $name; exit 5"
        launched = cluster.launch(["sh", "-c", script], on="odd", stdin=True, output=hear)
        assert asked.wait(PATIENCE)
        assert launched.exit_codes == {"w1": None, "w3": None}
        assert not launched.wait(0)
        assert launched.feed(b"you\n")
        assert launched.wait(PATIENCE)
        assert launched.exit_codes == {"w1": 5, "w3": 5}
    said = {(line.worker, line.stream, line.text) for line in heard}
    assert said == {(n, "stdout", text) for n in ("w1", "w3") for text in ("who?", "hello you")}
    assert launched.stdout == {"w1": b"", "w3": b""}


def test_python_kills_its_launches(persistent: PersistentCluster) -> None:
    with persistent.python() as cluster:
        launched = cluster.launch(["sleep", "1000"])
        launched.kill()
        assert launched.wait(SOON)
        assert set(launched.exit_codes.values()) == {-signal.SIGINT}
        dropped = cluster.launch(["sleep", "1000"])
        assert len(cluster.ps()) == 4
        del dropped
        wait_for(lambda: cluster.ps() == [])

        def fails(line: eu.Line) -> None:
            raise RuntimeError(f"cannot bear {line.text}")

        failing = cluster.launch(["sh", "-c", "echo this; sleep 1000"], output=fails)
        with pytest.raises(RuntimeError, match="cannot bear this"):
            failing.wait(PATIENCE)
        wait_for(lambda: cluster.ps() == [])


def test_closing_a_cluster_ends_its_launches() -> None:
    launched = eu.Cluster.processes(2).launch(["sh", "-c", "read x; echo $x"], stdin=True)
    launched.feed(b"here\n")
    assert launched.wait(PATIENCE)
    assert launched.stdout == {"w0": b"here\n", "w1": b"here\n"}
    with eu.Cluster.processes(2) as cluster:
        endless = cluster.launch(["sleep", "1000"])
        pids = [process.pid for process in cluster.ps() if process.pid is not None]
    assert endless.wait(SOON)
    assert len(pids) == 2
    wait_for(lambda: not any(is_alive(pid) for pid in pids), seconds=SOON)
    with pytest.raises(eu.UsageError, match="has been closed"):
        cluster.launch(["true"])


def test_launches_end_with_their_python_program(
    persistent: PersistentCluster,
) -> None:
    code = f"""
import euphrates as eu
cluster = eu.Cluster.at({persistent.address!r}, token_file={str(persistent.token)!r})
launched = cluster.launch(["sleep", "1000"])
print(len(cluster.ps()), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"4\n", b"")
    wait_for(lambda: persistent.ps() == [])


@pytest.mark.parametrize("cluster", ["processes:2"])
def test_every_cluster_kind_launches_programs(cluster: str) -> None:
    launch = [EUPHRATES, "launch", "--cluster", cluster, "--", "sh", "-c", "echo $EUPHRATES_RANK"]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=PATIENCE)
    assert sorted(done.stdout.splitlines()) == ["w0 | 0", "w1 | 1"], done.stderr
