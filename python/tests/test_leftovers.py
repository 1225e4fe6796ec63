"""What a run leaves behind when it does not come to its end, and who clears it away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import euphrates as eu
from test_failure import EUPHRATES, wait_for


def staged(folder: Path) -> list[Path]:
    return list(folder.glob(".*"))


def saving(path: Path) -> subprocess.Popen:
    """A process in the middle of writing a large file."""
    code = f"""
import euphrates as eu
flow = eu.Flow("endless")
flow.chain(eu.generate("records", rows=10**11), eu.save({str(path)!r}))
flow.go()
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: any(file.stat().st_size > 0 for file in staged(path.parent)))
    return process


def small(path: Path) -> None:
    flow = eu.Flow("small")
    flow.chain(eu.generate("integers", rows=10), eu.save(str(path)))
    flow.go()


def test_what_the_dead_have_staged_goes_with_the_next_output_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    process = saving(folder / "large.dat")
    process.kill()
    process.wait()
    assert len(staged(folder)) == 1
    mine = folder / ".download.part"
    mine.write_text("somebody else's")
    small(folder / "small.parquet")
    assert staged(folder) == [mine]
    assert not (folder / "large.dat").exists()


@pytest.mark.parametrize("next_flow", ["count", "save", "write"])
def test_collections_in_the_making_go_with_the_next_flow_of_any_kind(
    next_flow: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    code = f"""
import euphrates as eu
flow = eu.Flow("endless")
flow.chain(eu.generate("records", rows=10**11), eu.write("large"))
flow.go(home={str(home)!r})
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    staging = home / "data" / ".staging"
    wait_for(lambda: any(file.stat().st_size > 0 for file in staging.rglob("*.arrow")))
    sinks = {
        "count": [eu.count(), eu.collect()],
        "save": [eu.save(str(tmp_path / "small.csv"), overwrite=True)],
        "write": [eu.write("small", overwrite=True)],
    }

    def run() -> None:
        flow = eu.Flow("small")
        flow.chain(eu.generate("integers", rows=10), *sinks[next_flow])
        flow.go(home=home)

    run()
    assert any(staging.rglob("*.arrow")), "what the living have in the making stays"
    process.kill()
    process.wait()
    run()
    assert not any(staging.rglob("*.*"))


def test_what_the_living_have_staged_stays(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    process = saving(folder / "large.dat")
    small(folder / "small.parquet")
    assert len(staged(folder)) == 1
    process.send_signal(signal.SIGINT)
    assert process.wait() != 0
    assert staged(folder) == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command = [EUPHRATES, "gensort", "1000000000", str(folder / "data")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    wait_for(lambda: staged(folder))
    process.send_signal(getattr(signal, name))
    assert process.wait() == 130, process.stderr.read()
    assert os.listdir(folder) == []


def test_an_end_of_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    small(source)
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    command = [EUPHRATES, "sort", str(source), str(link), "--by", "n", "--output-format", "csv"]
    run = subprocess.run([*command, "--overwrite"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "copy-out" in run.stderr
    assert link.is_symlink()


def test_two_outputs_of_one_name_are_told_apart_before_anything_is_written(tmp_path: Path) -> None:
    flow = eu.Flow("twice")
    tee = flow.place(eu.tee())
    flow.attach(flow.place(eu.generate("integers", rows=10)), tee)
    for _ in range(2):
        flow.attach(tee, flow.place(eu.save(str(tmp_path / "same.parquet"))))
    with pytest.raises(eu.UsageError, match="is made by two modules"):
        flow.go()
    assert not list(tmp_path.glob("*same*"))
